"""Files that are whole or not there."""

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from lcpool.atomic import read_whole, write_atomically


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "state [1].pt"


class Broken:
    def __reduce__(self):
        raise ZeroDivisionError


def test_what_was_written_is_read(path: Path):
    for epoch in (1, 2):
        write_atomically({"epoch": epoch, "weight": torch.arange(3)}, path)
        found = read_whole(path)
        assert found["epoch"] == epoch
        assert found["weight"].tolist() == [0, 1, 2]
    assert list(path.parent.iterdir()) == [path]


def test_a_writing_that_fails_leaves_the_file_before_and_nothing_else(path: Path):
    write_atomically({"epoch": 1}, path)
    with pytest.raises(ZeroDivisionError):
        write_atomically({"epoch": 2, "more": Broken()}, path)
    assert read_whole(path) == {"epoch": 1}
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions")
def test_others_may_read_what_the_umask_lets_them(path: Path):
    before = os.umask(0o022)
    try:
        write_atomically(1, path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


DIE = """
import os, signal, sys
from pathlib import Path
from lcpool.atomic import write_atomically
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
write_atomically(1, Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_what_a_killed_writer_left_goes_with_the_next_writing(path: Path):
    write_atomically(0, path)
    died = subprocess.run([sys.executable, "-c", DIE, str(path)], check=False, timeout=120)
    assert died.returncode == -signal.SIGKILL
    assert len(list(path.parent.iterdir())) == 2
    assert read_whole(path) == 0
    hers = [path.with_name(name) for name in (".state [1].pt.swp", ".other.12345678.part")]
    for file in hers:
        file.touch()
    write_atomically(2, path)
    assert sorted(path.parent.iterdir()) == sorted([path, *hers])


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there, nor need of them")
def test_what_another_is_writing_is_left_to_him(path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two writers of one file: each finds its own part whole, and the last one's stays."""
    save, inside, go_on = torch.save, threading.Event(), threading.Event()

    def slowly(values: object, file: object) -> None:
        if values == "slow":
            inside.set()
            assert go_on.wait(60)
        save(values, file)

    monkeypatch.setattr(torch, "save", slowly)
    slow = threading.Thread(target=write_atomically, args=("slow", path))
    slow.start()
    assert inside.wait(60)
    write_atomically("quick", path)
    assert read_whole(path) == "quick"
    go_on.set()
    slow.join(60)
    assert read_whole(path) == "slow"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "content", [b"", b"text", b"PK\x03\x04", bytes(1000)], ids=["nothing", "text", "head", "zeros"]
)
def test_what_is_damaged_or_foreign_is_named(path: Path, content: bytes):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"state \[1\]\.pt"):
        read_whole(path)


def test_a_changed_bit_is_found(path: Path):
    numbers = torch.arange(1000.0)
    write_atomically(numbers, path)
    content = path.read_bytes()
    assert numbers.numpy().tobytes() in content
    path.write_bytes(content.replace(numbers.numpy().tobytes(), (-numbers).numpy().tobytes()))
    with pytest.raises(ValueError, match=r"state \[1\]\.pt"):
        read_whole(path)


def test_a_file_that_is_not_there(path: Path):
    with pytest.raises(FileNotFoundError, match="state"):
        read_whole(path)
