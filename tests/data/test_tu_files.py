import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lcpool.data import DatasetError, load_dataset
from lcpool.data.tu import TUFiles, check_archive, read_tu


def test_a_zip_reads_like_the_folder_it_was_made_from(zip_tu: Callable, write_tu: Callable):
    zipped, folder = TUFiles.at(zip_tu()), TUFiles.at(write_tu())
    assert zipped.name == folder.name == "TOY"
    with zipped.open("A") as one, folder.open("A") as other:
        assert one.read() == other.read()
    assert zipped.files.keys() == folder.files.keys()


def test_the_name_is_that_of_the_files(zip_tu: Callable):
    renamed = zip_tu().rename(zip_tu().with_name("download (1).zip"))
    assert read_tu(renamed).name == "TOY"


def test_a_folder_within_a_folder_is_found(write_tu: Callable, tmp_path: Path):
    write_tu(folder=tmp_path / "TOY" / "raw")
    assert len(read_tu(tmp_path / "TOY")) == 2


@pytest.mark.parametrize(
    "member",
    ["../evil.txt", "TOY/../../evil.txt", "/etc/evil.txt", "..\\evil.txt", "C:\\evil.txt", "C:x"],
)
def test_members_that_leave_the_folder_are_refused(zip_tu: Callable, member: str):
    path = zip_tu(**{member: "gotcha"})
    with pytest.raises(DatasetError, match=r"evil\.txt|C:x"):
        read_tu(path)
    with pytest.raises(DatasetError, match=r"evil\.txt|C:x"):
        check_archive(path)


def test_hidden_twins_from_a_mac_do_no_harm(zip_tu: Callable):
    assert len(read_tu(zip_tu(**{"__MACOSX/TOY/._TOY_A.txt": "\0\0"}))) == 2


def test_several_datasets_in_one_folder(write_tu: Callable, tmp_path: Path):
    write_tu("ONE", folder=tmp_path / "both")
    write_tu("TWO", folder=tmp_path / "both")
    with pytest.raises(DatasetError, match=f"{tmp_path}/both/ONE, {tmp_path}/both/TWO"):
        read_tu(tmp_path / "both")
    assert read_tu(tmp_path / "both" / "TWO").name == "TWO"
    with pytest.raises(DatasetError, match="THREE"):
        read_tu(tmp_path / "both" / "THREE")


def test_several_datasets_in_one_zip(write_tu: Callable, tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as archive:
        for name, labels in (("ONE", "0\n1\n"), ("TWO", "1\n0\n")):
            for path in write_tu(name, graph_labels=labels).iterdir():
                archive.write(path, f"{name}/{path.name}")
    with pytest.raises(DatasetError, match=r"both\.zip/ONE/ONE, .*both\.zip/TWO/TWO"):
        read_tu(tmp_path / "both.zip")
    for path in ("both.zip/TWO", "both.zip/TWO/TWO"):
        graphs = load_dataset(tmp_path / path)
        assert graphs.name == "TWO"
        assert graphs.y.tolist() == [1, 0]
    assert load_dataset(tmp_path / "both.zip" / "ONE").y.tolist() == [0, 1]
    with pytest.raises(DatasetError, match=r"THREE.*both\.zip/ONE/ONE"):
        load_dataset(tmp_path / "both.zip" / "THREE")


def test_a_folder_or_zip_without_a_dataset(tmp_path: Path):
    with pytest.raises(DatasetError, match="NAME_A"):
        read_tu(tmp_path)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(DatasetError, match=r"other\.zip"):
        read_tu(tmp_path / "other.zip")
    with pytest.raises(DatasetError, match="nowhere"):
        read_tu(tmp_path / "nowhere")


def test_a_zip_that_is_cut_short(zip_tu: Callable):
    path = zip_tu()
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DatasetError, match=r"TOY\.zip"):
        read_tu(path)


def test_a_damaged_member_is_named(zip_tu: Callable):
    path = zip_tu()
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("TOY/TOY_A.txt").header_offset
    for offset in range(start + 50, start + 60):
        content[offset] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"TOY_A\.txt"):
        read_tu(path)
    with pytest.raises(DatasetError, match=r"TOY_A\.txt|TOY\.zip"):
        check_archive(path)


def test_a_pipe_is_not_opened(write_tu: Callable, pipe: Callable, tmp_path: Path):
    for place in (write_tu() / "TOY_A.txt", tmp_path / "TOY.zip"):
        pipe(place)
        with pytest.raises(DatasetError, match=place.name):
            load_dataset(place if place.suffix == ".zip" else place.parent)


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the limit of the text, in bytes."""
    return lambda size: monkeypatch.setenv("LCPOOL_MAX_GB", str(size / 1e9))


def test_a_small_zip_that_unpacks_to_much_is_refused_unread(
    zip_tu: Callable, limit: Callable, monkeypatch: pytest.MonkeyPatch
):
    path = zip_tu(**{"TOY/TOY_node_attributes.txt": "0\n" * 10**6})
    assert path.stat().st_size < 10_000
    limit(10**6)
    with monkeypatch.context() as patch:
        patch.setattr(TUFiles, "open", None)
        with pytest.raises(DatasetError, match=r"TOY\.zip: .*LCPOOL_MAX_GB"):
            read_tu(path)
        with pytest.raises(DatasetError, match=r"TOY\.zip: .*LCPOOL_MAX_GB"):
            check_archive(path)
    limit(10**8)
    with pytest.raises(DatasetError, match=r"TOY_node_attributes\.txt\b.*\b1000000\b"):
        read_tu(path)


@pytest.mark.parametrize("kind", ["A", "graph_indicator", "graph_labels", "node_labels"])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_is_read_up_to_the_limit_whatever_size_it_claims(
    zip_tu: Callable, write_tu: Callable, limit: Callable, kind: str, zipped: bool, monkeypatch
):
    text = "1\n" * 7 + "\n" * 10**5
    path = zip_tu(**{f"TOY/TOY_{kind}.txt": text}) if zipped else write_tu(**{kind: text})
    monkeypatch.setattr(TUFiles, "check_size", lambda _: None)
    limit(5000)
    with pytest.raises(DatasetError, match=rf"TOY_{kind}\.txt: .*LCPOOL_MAX_GB"):
        read_tu(path)


def test_a_zip_with_a_false_size_is_refused(zip_tu: Callable):
    path = zip_tu(**{"TOY/TOY_node_attributes.txt": "0\n" * 10**5})
    content = path.read_bytes()
    true, false = (struct.pack("<I", size) for size in (2 * 10**5, 7))
    assert content.count(true) == 2
    path.write_bytes(content.replace(true, false))
    with pytest.raises(DatasetError, match=r"TOY_node_attributes\.txt"):
        read_tu(path)


@pytest.mark.parametrize("line", ["1" * 10_000, "1," * 5_000])
def test_a_line_that_is_parsed_as_a_whole_is_not_too_long(
    write_tu: Callable, monkeypatch: pytest.MonkeyPatch, line: str
):
    monkeypatch.setattr("lcpool.data.files.LONGEST", 5_000)
    path = write_tu(node_attributes=line)
    with pytest.raises(DatasetError, match=r"TOY_node_attributes\.txt: .*5,000"):
        load_dataset(path)


def test_numbers_count_as_much_as_they_take_in_memory(write_tu: Callable, limit: Callable):
    path = write_tu(node_attributes="1,1,1,1,1,1,1,1\n" * 100)
    limit(4000)  # of 6400
    with pytest.raises(DatasetError, match=r"TOY_node_attributes\.txt: .*LCPOOL_MAX_GB"):
        load_dataset(path)


def test_a_limit_that_is_no_number(zip_tu: Callable, monkeypatch: pytest.MonkeyPatch):
    for text in ("much", "nan", "inf"):
        monkeypatch.setenv("LCPOOL_MAX_GB", text)
        with pytest.raises(DatasetError, match=f"LCPOOL_MAX_GB.*{text}"):
            read_tu(zip_tu())
