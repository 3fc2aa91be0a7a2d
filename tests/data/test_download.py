import builtins
import importlib.util
import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lcpool.data import DatasetError, download, load_dataset


class Server(ThreadingHTTPServer):
    """Serves one file, as well or as badly as it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = b""
        self.ranges = True
        self.sized = True
        self.break_after: list[int] = []  # Bytes sent before each of the next connections breaks.
        self.statuses: list[int] = []  # Failures of the next requests.
        self.asked: list[str | None] = []  # The ranges asked for.


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        asked = self.headers.get("Range")
        server.asked.append(asked)
        if server.statuses or not self.path.endswith("/TOY.zip"):
            self.send_error(server.statuses.pop(0) if server.statuses else 404)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        start = start if server.ranges else 0
        size = len(server.content)
        if start >= size:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        if server.sized:
            self.send_header("Content-Length", str(size - start))
        self.end_headers()
        length = server.break_after.pop(0) if server.break_after else size
        self.wfile.write(server.content[start : start + length])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, zip_tu: Callable, tmp_path: Path) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(download, "PAUSE_S", 0.0)
    with Server() as server:
        server.content = zip_tu(folder=tmp_path / "origin").read_bytes()
        monkeypatch.setattr(download, "TU_URL", f"http://127.0.0.1:{server.server_port}/sets")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_missing_set_is_downloaded_once(server: Server, folder: Path, capsys):
    graphs = load_dataset("TOY", root=folder)
    assert (graphs.name, len(graphs)) == ("TOY", 2)
    assert names(folder) == ["TOY.zip"]
    load_dataset("TOY", root=folder)
    assert server.asked == [None]
    out, err = capsys.readouterr()
    assert out == ""
    assert "TOY" in err


def test_without_a_folder_it_goes_to_the_cache(server: Server, tmp_path: Path, monkeypatch):
    load_dataset("TOY")
    assert (tmp_path / "cache" / "tu" / "TOY.zip").is_file()
    monkeypatch.setenv("LCPOOL_DATA", str(tmp_path / "env"))
    (tmp_path / "cache" / "tu" / "TOY.zip").unlink()
    load_dataset("TOY")
    assert names(tmp_path / "env") == ["TOY.zip"]


@pytest.mark.parametrize("sized", [True, False], ids=["sized", "unsized"])
@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
def test_a_broken_connection_is_taken_up_again(
    server: Server, folder: Path, ranges: bool, sized: bool
):
    server.ranges, server.sized, server.break_after = ranges, sized, [100]
    assert download.download("TOY", folder).read_bytes() == server.content
    # A server that tells no size cannot be known to have broken off before the zip is looked at.
    assert server.asked == [None, "bytes=100-" if sized else None]
    assert names(folder) == ["TOY.zip"]


def test_what_arrived_is_kept_for_the_next_call(server: Server, folder: Path):
    server.break_after = [100, 50, 50]
    with pytest.raises(DatasetError, match="first 200 bytes are kept, and the next try goes on"):
        download.download("TOY", folder)
    assert names(folder) == ["TOY.zip.part"]
    assert download.download("TOY", folder).read_bytes() == server.content
    assert server.asked[-1] == "bytes=200-"
    assert names(folder) == ["TOY.zip"]


def test_a_piece_of_another_version_is_thrown_away(server: Server, folder: Path):
    folder.mkdir()
    (folder / "TOY.zip.part").write_bytes(b"old" * 40)
    assert download.download("TOY", folder).read_bytes() == server.content
    assert server.asked == ["bytes=120-", None]


def test_a_piece_longer_than_the_file_is_thrown_away(server: Server, folder: Path):
    folder.mkdir()
    (folder / "TOY.zip.part").write_bytes(bytes(len(server.content) + 1))
    assert download.download("TOY", folder).read_bytes() == server.content
    assert names(folder) == ["TOY.zip"]


@pytest.mark.parametrize("content", [b"<html>not a zip</html>", b"PK\x03\x04broken"])
def test_what_is_no_zip_never_takes_its_place(server: Server, folder: Path, content: bytes):
    server.content = content
    with pytest.raises(DatasetError, match="sent is no dataset"):
        download.download("TOY", folder)
    assert names(folder) == []


def test_an_archive_that_leaves_its_folder_never_takes_its_place(
    server: Server, folder: Path, zip_tu: Callable
):
    server.content = zip_tu(**{"../evil.txt": "gotcha"}).read_bytes()
    with pytest.raises(
        DatasetError, match=r"refused, its member '\.\./evil\.txt' leaves the folder"
    ):
        download.download("TOY", folder)
    assert names(folder) == []


def test_a_name_that_tu_does_not_have(server: Server, folder: Path):
    with pytest.raises(DatasetError, match="NOPE: TU has no dataset of that name"):
        load_dataset("NOPE", root=folder)
    assert len(server.asked) == 1
    assert names(folder) == []


def test_a_server_in_trouble_is_asked_again(server: Server, folder: Path):
    server.statuses = [503, 500]
    assert download.download("TOY", folder).is_file()
    server.statuses = [503] * 3
    with pytest.raises(DatasetError, match="503"):
        load_dataset("TOY", root=folder / "elsewhere")
    server.statuses = [403]
    with pytest.raises(DatasetError, match="403"):
        load_dataset("TOY", root=folder / "elsewhere")


def test_no_server_at_all(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(download, "TU_URL", "http://127.0.0.1:1/sets")
    with pytest.raises(DatasetError, match=r"the download failed: .*refused.*check the connection"):
        download.download("TOY", folder)
    assert names(folder) == []


def test_an_interrupt_leaves_a_piece_that_the_next_call_makes_whole(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(download, "check_archive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            download.download("TOY", folder)
    assert names(folder) == ["TOY.zip.part"]
    assert download.download("TOY", folder).read_bytes() == server.content
    assert names(folder) == ["TOY.zip"]


def test_a_folder_that_cannot_be_written_to(server: Server, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match="not a folder to write to; name another one"):
        load_dataset("TOY", root=tmp_path / "file")


def test_two_downloads_at_once_share_one(server: Server, folder: Path):
    threads = [threading.Thread(target=download.download, args=("TOY", folder)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.asked == [None]
    assert zipfile.is_zipfile(folder / "TOY.zip")


def test_without_rich_progress_is_plain_lines(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    find_spec, imported = importlib.util.find_spec, builtins.__import__

    def without_rich(name: str, *args: object, **kwargs: object) -> object:
        assert not name.startswith("rich")
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "rich" else find_spec(name)
    )
    monkeypatch.setattr(builtins, "__import__", without_rich)
    download.download("TOY", folder)
    assert capsys.readouterr().err.startswith("TOY: 0.0 of 0.0 MB\n")
