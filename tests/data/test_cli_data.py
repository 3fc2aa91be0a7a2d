import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from said import naming, numbers
from typer.testing import CliRunner

from lcpool.cli.app import app
from lcpool.data import DatasetError, load


@pytest.fixture
def lcpool(monkeypatch: pytest.MonkeyPatch) -> Callable:
    monkeypatch.setenv("COLUMNS", "300")
    return lambda *arguments: CliRunner().invoke(app, ["data", *map(str, arguments)])


@pytest.fixture(autouse=True)
def tu(monkeypatch: pytest.MonkeyPatch, zip_tu: Callable) -> None:
    """A server with one dataset, TOY."""

    def fetch(name: str, folder: Path) -> Path:
        if name != "TOY":
            raise DatasetError(f"{name}: 404.")
        return zip_tu(folder=folder)

    monkeypatch.setattr(load, "download", fetch)


def test_list_shows_what_is_here_and_what_can_be_downloaded(
    lcpool: Callable, zip_tu: Callable, write_tu: Callable, tmp_path: Path
):
    root = tmp_path / "root"
    zips = [zip_tu(name, folder=root) for name in ("mutag", "MINE")]
    folder = write_tu("OTHER", folder=root / "OTHER")
    (root / "notes").mkdir()
    (root / "notes.zip").write_text("")
    result = lcpool("list", "--root", root)
    assert result.exit_code == 0
    here, others = result.stdout.split("\n\n")
    rows = dict(line.split(maxsplit=1) for line in here.splitlines())
    assert set(rows) == {"builtin", "builtin-labels", "mutag", "MINE", "OTHER"}
    assert [rows["mutag"], rows["MINE"], rows["OTHER"]] == [str(path) for path in (*zips, folder)]
    assert {"DD", "IMDB-BINARY"} <= set(others.split())
    assert "MUTAG" not in others.split()


def test_get_downloads_what_is_missing(lcpool: Callable, tmp_path: Path):
    result = lcpool("get", "TOY", "builtin", "BUILTIN", "--root", tmp_path / "root")
    assert result.exit_code == 0
    assert str(tmp_path / "root" / "TOY.zip") in result.stdout
    result = lcpool("get", "NOPE", "TOY", "--root", tmp_path / "root")
    assert result.exit_code == 1
    assert "NOPE" in result.stderr
    assert "TOY.zip" in result.stdout


NO_NAMES = ["..", ".", "", "/etc/passwd", "../TOY", "TOY.zip", "~nobody", "~nobody/TOY"]
NO_NAMES += ["x" * 5000, "a\nb", "a\0b", "é", " "]


@pytest.mark.parametrize("name", NO_NAMES, ids=lambda name: ascii(name)[:20])
@pytest.mark.parametrize("command", ["get", "check"])
def test_what_is_no_name_is_refused_in_one_line(
    lcpool: Callable, zip_tu: Callable, tmp_path: Path, command: str, name: str
):
    result = lcpool(command, name, "--root", tmp_path / "root")
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert len(result.stderr.splitlines()) == 1
    assert len(result.stderr) < 500


def test_get_refuses_a_folder_without_a_dataset(
    lcpool: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "TOY").mkdir()
    monkeypatch.chdir(tmp_path)
    result = lcpool("get", "TOY")
    assert result.exit_code == 1
    assert "TOY" in result.stderr


def test_a_folder_that_cannot_be_listed_is_one_line(
    lcpool: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(self: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "iterdir", refuse)
    for arguments in (["list"], ["get", "toy"], ["check", "toy"]):
        result = lcpool(*arguments, "--root", tmp_path)
        assert (result.exit_code, type(result.exception)) == (1, SystemExit)
        assert str(tmp_path) in result.stderr


def test_check_shows_sizes_and_what_is_odd(lcpool: Callable, write_tu: Callable):
    a = "1, 2\n2, 1\n2, 1\n2, 2\n2, 3\n4, 5\n5, 4\n"
    result = lcpool("check", write_tu(A=a), "builtin")
    assert result.exit_code == 0
    toy, *odd, builtin = result.stdout.splitlines()
    assert re.findall(r"[\d.]+", toy) == ["2", "2", "3.50", "1.50", "4", "0"]
    assert re.findall(r"[\d.]+", builtin)[:2] == ["600", "2"]
    assert [line.split()[0] for line in odd] == ["2", "2"]  # nodes without edges, lines dropped
    (one_way,) = naming(result.stderr, "TOY")
    assert numbers(one_way)[:3] == [1, 1, 2]  # an edge in one direction, in 1 of 2 graphs


def test_check_counts_edges_of_directed_sets_in_full(lcpool: Callable, write_tu: Callable):
    result = lcpool("check", write_tu(A="1, 2\n2, 3\n3, 1\n4, 5\n5, 6\n6, 4\n"))
    assert "3.00" in result.stdout


def test_check_does_not_download(lcpool: Callable, tmp_path: Path):
    result = lcpool("check", "TOY", "--root", tmp_path)
    assert result.exit_code == 1
    assert "get TOY" in result.stderr


def test_check_tells_where_a_broken_set_is_broken(
    lcpool: Callable, write_tu: Callable, zip_tu: Callable
):
    result = lcpool("check", write_tu(A="1, 2\n1, x\n"), zip_tu("FINE"))
    assert result.exit_code == 1
    (broken,) = naming(result.stderr, "TOY_A.txt")
    assert numbers(broken)[:1] == [2]
    assert "FINE" in result.stdout


def test_duplicates_across_the_parts_of_a_file_are_counted(lcpool: Callable, tmp_path: Path):
    folder, splits = tmp_path / "TWINS", tmp_path / "splits.csv"
    folder.mkdir()
    edges = [f"{g},{u},{v}" for g in range(6) for u, v in ((0, 1), (1, 2))[: 1 + (g > 2)]]
    (folder / "edges.csv").write_text("\n".join(["graph,u,v", *edges]))
    labels = [f"{g},{g % 2}" for g in range(6)]
    (folder / "graphs.csv").write_text("\n".join(["graph,label", *labels]))
    parts = zip(range(6), ("train", "train", "test", "val", "val", "test"), strict=True)
    rows = [f"{graph},{part}" for graph, part in parts]
    splits.write_text("\n".join(["graph,part", *rows]))
    done = lcpool("check", folder, "--splits-file", splits)
    assert done.exit_code == 0, done.output
    (leaked,) = naming(done.stdout, "validation", "training")
    # A path of two nodes is trained on; one of three is tested on, and its duplicates validate.
    assert numbers(leaked) == [1, 1]
