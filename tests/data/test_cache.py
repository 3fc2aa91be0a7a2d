import errno
import os
import struct
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import IO

import pytest
import torch

from lcpool.atomic import read_whole, write_atomically
from lcpool.data import GraphSet, load, load_dataset
from lcpool.data.tu import read_tu


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The paths that were read from text."""
    paths: list[Path] = []
    read_tu = load.read_tu
    monkeypatch.setattr(load, "read_tu", lambda path: paths.append(path) or read_tu(path))
    return paths


def cached_files(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def assert_same(graphs: GraphSet, again: GraphSet) -> None:
    for field in fields(graphs):
        one, other = getattr(graphs, field.name), getattr(again, field.name)
        if isinstance(one, torch.Tensor):
            assert torch.equal(one, other)
            assert one.dtype == other.dtype
        else:
            assert one == other


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
@pytest.mark.parametrize("attributes", [None, "".join(f"{i}.25\n" for i in range(7))])
def test_the_second_load_comes_from_columns(
    zip_tu: Callable, write_tu: Callable, tmp_path: Path, reads: list, attributes: str | None
):
    path = write_tu(node_attributes=attributes, edge_labels="1\n2\n" * 7)
    graphs = load_dataset(path)
    beside = sorted(path.iterdir())
    assert_same(graphs, load_dataset(path))
    assert reads == [path]
    assert len(cached_files(tmp_path)) == 1
    assert sorted(path.iterdir()) == beside


def test_a_zip_is_cached_too(zip_tu: Callable, tmp_path: Path, reads: list):
    path = zip_tu()
    assert_same(load_dataset(path), load_dataset(path))
    assert len(reads) == len(cached_files(tmp_path)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no text exist on Linux only")
def test_a_folder_whose_name_is_no_text(write_tu: Callable, tmp_path: Path, reads: list):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    write_tu(folder=path)
    assert_same(load_dataset(path), load_dataset(path))
    assert len(reads) == 1


def test_a_changed_source_is_read_again_in_place_of_the_old(
    write_tu: Callable, tmp_path: Path, reads: list
):
    path = write_tu()
    load_dataset(path)
    write_tu(graph_labels="6\n5\n")
    os.utime(path / "TOY_graph_labels.txt", (1, 1))
    assert load_dataset(path).y.tolist() == [1, 0]
    assert len(reads) == 2
    assert len(cached_files(tmp_path)) == 1


def test_another_reader_reads_again(
    write_tu: Callable, reads: list, monkeypatch: pytest.MonkeyPatch
):
    path = write_tu()
    load_dataset(path)
    monkeypatch.setattr(load, "READER_VERSION", -1)
    load_dataset(path)
    assert len(reads) == 2


def test_a_cache_with_the_labels_of_the_file_is_made_anew(
    write_tu: Callable, monkeypatch: pytest.MonkeyPatch
):
    """Reader 2 kept them as the classes, beside numbers in ``y``."""
    path = write_tu()
    with monkeypatch.context() as earlier:
        earlier.setattr(load, "READER_VERSION", 2)
        earlier.setattr(load, "read_tu", lambda path: replace(read_tu(path), classes=(-1, 1)))
        assert load_dataset(path).classes == (-1, 1)
    assert load_dataset(path).classes == (0, 1)


def test_two_sets_of_one_name_do_not_mix(write_tu: Callable, tmp_path: Path):
    one = write_tu(folder=tmp_path / "one")
    two = write_tu(folder=tmp_path / "two", graph_labels="6\n5\n")
    for _ in range(2):
        assert load_dataset(one).y.tolist() == [0, 1]
        assert load_dataset(two).y.tolist() == [1, 0]


def flip_a_byte(content: bytes) -> bytes:
    """In the middle of a number, not in the padding between two."""
    at = content.index(struct.pack("<f", 3.25)) + 1
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[:-100], lambda _: b"", lambda _: b"not a cache", flip_a_byte],
    ids=["truncated", "empty", "garbage", "one bit"],
)
def test_a_damaged_cache_is_made_anew(
    write_tu: Callable, tmp_path: Path, reads: list, damage: Callable
):
    path = write_tu(node_attributes="".join(f"{i}.25\n" for i in range(7)))
    graphs = load_dataset(path)
    (cached,) = cached_files(tmp_path)
    cached.write_bytes(damage(cached.read_bytes()))
    assert_same(graphs, load_dataset(path))
    assert len(reads) == 2
    load_dataset(path)
    assert len(reads) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda columns: columns["edge_index"].add_(10**6),
        lambda columns: columns["edge_index"].neg_(),
        lambda columns: columns["node_ptr"].mul_(2),
        lambda columns: columns["edge_ptr"].zero_(),
        lambda columns: columns.update(edge_index=columns["edge_index"].float()),
        lambda columns: columns.update(edge_index=None),
        lambda columns: columns.update(y=columns["y"][:1]),
        lambda columns: columns.update(x=columns["x"][:3]),
        lambda columns: columns["y"].add_(7),
        lambda columns: columns.update(classes=("a", 2)),
        lambda columns: columns.update(key=[torch.zeros(2)]),
    ],
)
def test_a_cache_with_numbers_out_of_range_is_made_anew(
    write_tu: Callable, tmp_path: Path, reads: list, change: Callable
):
    """As it comes from somebody who also wrote the checksums."""
    path = write_tu()
    graphs = load_dataset(path)
    (cached,) = cached_files(tmp_path)
    columns = read_whole(cached)
    change(columns)
    write_atomically(columns, cached)
    assert_same(graphs, load_dataset(path))
    assert len(reads) == 2


def test_a_pipe_in_place_of_a_cache_is_not_opened(
    write_tu: Callable, tmp_path: Path, reads: list, pipe: Callable
):
    path = write_tu()
    load_dataset(path)
    (cached,) = cached_files(tmp_path)
    pipe(cached)
    assert len(load_dataset(path)) == 2
    assert len(reads) == 2


def test_a_cache_that_holds_something_else_is_made_anew(
    write_tu: Callable, tmp_path: Path, reads: list
):
    path = write_tu()
    load_dataset(path)
    (cached,) = cached_files(tmp_path)
    torch.save([1, 2], cached)
    load_dataset(path)
    assert len(reads) == 2


def test_a_folder_that_cannot_be_written_to_warns_once(
    write_tu: Callable, monkeypatch: pytest.MonkeyPatch
):
    def refuse(_: object, path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr(load, "write_atomically", refuse)
    with pytest.warns(UserWarning, match=f"{os.strerror(errno.EROFS)}.*LCPOOL_CACHE"):
        load_dataset(write_tu())
    assert len(load_dataset(write_tu("OTHER"))) == 2  # A second warning would be an error.


def test_a_cache_that_is_no_folder_does_no_harm(
    write_tu: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="LCPOOL_CACHE"):
        assert len(load_dataset(write_tu())) == 2


def test_an_interrupted_write_leaves_nothing_behind(
    write_tu: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(content: object, file: IO[bytes]) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(load.torch, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_dataset(write_tu())
    assert cached_files(tmp_path) == []


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/lcpool"),
        ("linux", {"XDG_CACHE_HOME": "xdg"}, "xdg/lcpool"),
        ("darwin", {}, "home/Library/Caches/lcpool"),
        ("win32", {"LOCALAPPDATA": "local"}, "local/lcpool/Cache"),
        ("linux", {"LCPOOL_CACHE": "mine"}, "mine"),
    ],
)
def test_the_cache_lies_where_the_platform_keeps_caches(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict, expected: str
):
    for variable in ("LCPOOL_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(load.sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    assert load.user_cache() == Path(expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
@pytest.mark.parametrize("name", ["PROTEINS", "ENZYMES", "Mutagenicity", "DD", "NCI1", "COX2"])
def test_the_second_load_of_a_real_set_reads_no_text(
    real: Callable, real_graphs: Callable, name: str, monkeypatch: pytest.MonkeyPatch
):
    path, graphs = real(name), real_graphs(name)
    monkeypatch.setattr(load, "read_tu", lambda _: graphs)
    load_dataset(path)
    monkeypatch.setattr(load, "read_tu", None)
    again = load_dataset(path)
    assert again is not graphs
    assert_same(graphs, again)
