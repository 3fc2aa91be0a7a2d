import builtins
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lcpool.data import DatasetError, load, load_dataset


class Server(ThreadingHTTPServer):
    """Serves one file, as well or as badly as it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = b""
        self.sized = True
        self.break_after: list[int] = []  # Bytes sent before each of the next connections breaks.
        self.statuses: list[int] = []  # Failures of the next requests.
        self.asked = 0


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.asked += 1
        if server.statuses or not self.path.endswith("/TOY.zip"):
            self.send_error(server.statuses.pop(0) if server.statuses else 404)
            return
        self.send_response(200)
        if server.sized:
            self.send_header("Content-Length", str(len(server.content)))
        self.end_headers()
        length = server.break_after.pop(0) if server.break_after else len(server.content)
        self.wfile.write(server.content[:length])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, zip_tu: Callable, tmp_path: Path) -> Iterator[Server]:
    core = pytest.importorskip("pooch.core", reason="pooch, of lcpool[lab], is not installed")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(core.time, "sleep", lambda _: None)
    with Server() as server:
        server.content = zip_tu(folder=tmp_path / "origin").read_bytes()
        monkeypatch.setattr(load, "TU_URL", f"http://127.0.0.1:{server.server_port}/sets")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def test_a_missing_set_is_downloaded_once(server: Server, folder: Path, capsys):
    graphs = load_dataset("TOY", root=folder)
    assert (graphs.name, len(graphs)) == ("TOY", 2)
    assert names(folder) == ["TOY.zip"]
    load_dataset("TOY", root=folder)
    assert server.asked == 1
    assert capsys.readouterr().out == ""


def test_whoever_may_read_the_folder_may_read_the_zip(server: Server, folder: Path):
    folder.mkdir()
    folder.chmod(0o755)
    assert load.download("TOY", folder).stat().st_mode & 0o777 == 0o644


def test_without_a_folder_it_goes_to_the_cache(server: Server, tmp_path: Path, monkeypatch):
    load_dataset("TOY")
    assert (tmp_path / "cache" / "tu" / "TOY.zip").is_file()
    monkeypatch.setenv("LCPOOL_DATA", str(tmp_path / "env"))
    (tmp_path / "cache" / "tu" / "TOY.zip").unlink()
    load_dataset("TOY")
    assert names(tmp_path / "env") == ["TOY.zip"]


@pytest.mark.parametrize("sized", [True, False], ids=["sized", "unsized"])
def test_a_broken_connection_is_tried_again(server: Server, folder: Path, sized: bool):
    server.sized, server.break_after = sized, [100, 150]
    assert load.download("TOY", folder).read_bytes() == server.content
    assert server.asked == 3
    assert names(folder) == ["TOY.zip"]


def test_connections_that_all_break_leave_nothing(server: Server, folder: Path):
    server.break_after = [100] * 9
    with pytest.raises(DatasetError, match="TOY"):
        load.download("TOY", folder)
    assert names(folder) == []


def test_an_interrupt_leaves_nothing(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(path: Path) -> None:
        assert path.stat().st_size == len(server.content)
        raise KeyboardInterrupt

    monkeypatch.setattr(load, "check_archive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load.download("TOY", folder)
    assert names(folder) == []


@pytest.mark.parametrize("content", [b"<html>not a zip</html>", b"PK\x03\x04broken"])
def test_what_is_no_zip_never_takes_its_place(server: Server, folder: Path, content: bytes):
    server.content = content
    with pytest.raises(DatasetError, match=r"TOY\.zip"):
        load.download("TOY", folder)
    assert names(folder) == []


def test_an_archive_that_leaves_its_folder_never_takes_its_place(
    server: Server, folder: Path, zip_tu: Callable
):
    server.content = zip_tu(**{"../evil.txt": "gotcha"}).read_bytes()
    with pytest.raises(DatasetError, match=r"\.\./evil\.txt"):
        load.download("TOY", folder)
    assert names(folder) == []


def test_a_name_that_tu_does_not_have_is_asked_for_once(server: Server, folder: Path):
    with pytest.raises(DatasetError, match=r"404.*/NOPE\.zip"):
        load_dataset("NOPE", root=folder)
    assert server.asked == 1
    assert names(folder) == []


def test_a_server_in_trouble_is_asked_again(server: Server, folder: Path):
    server.statuses = [503, 500]
    assert load.download("TOY", folder).is_file()
    server.statuses = [503] * 3
    with pytest.raises(DatasetError, match="503"):
        load_dataset("TOY", root=folder / "elsewhere")


def test_no_server_at_all(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(load, "TU_URL", "http://127.0.0.1:1/sets")
    with pytest.raises(DatasetError, match=r"127\.0\.0\.1"):
        load.download("TOY", folder)
    assert names(folder) == []


def test_a_folder_that_cannot_be_written_to(server: Server, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DatasetError, match=f"{tmp_path / 'file'}.*LCPOOL_DATA"):
        load_dataset("TOY", root=tmp_path / "file")


def test_without_pooch_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch):
    imported = builtins.__import__

    def without_pooch(name: str, *args: object, **kwargs: object) -> object:
        if name.partition(".")[0] == "pooch":
            raise ModuleNotFoundError("No module named 'pooch'", name="pooch")
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pooch)
    with pytest.raises(DatasetError, match=r"pooch.*lcpool\[lab\]"):
        load_dataset("TOY", root=folder)
