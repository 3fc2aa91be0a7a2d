import functools
import gzip
import os
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lcpool.data import GraphSet, checks
from lcpool.data.tu import read_tu

SHARED = Path(__file__).parents[3] / "shared" / "tudatasets"
REAL = Path(os.environ.get("LCPOOL_DATA") or SHARED)

# Two triangles of different classes, the second with a tail.
TRIANGLES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n5, 6\n6, 5\n4, 6\n6, 4\n6, 7\n7, 6\n",
    "graph_indicator": "1\n1\n1\n2\n2\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "1\n2\n2\n1\n1\n4\n4\n",
}


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read from or written to the user's own folders."""
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LCPOOL_DATA", raising=False)
    checks.warn_once.cache_clear()


@pytest.fixture
def pipe() -> Iterator[Callable[[Path], None]]:
    """Puts a named pipe in place of a file; who opens it gets an error after some seconds."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes on this system")

    def put(path: Path) -> None:
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    def end(*_: object) -> None:
        raise AssertionError("a pipe was opened and waited for")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(30)
    yield put
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def real() -> Callable[[str], Path]:
    """The zip of a real dataset; the test is skipped where it is not on this machine."""

    def find(name: str) -> Path:
        path = REAL / f"{name}.zip"
        if not path.is_file():
            pytest.skip(f"{name}.zip is neither in LCPOOL_DATA nor in ../shared/tudatasets")
        return path

    return find


@pytest.fixture
def real_graphs(real: Callable[[str], Path]) -> Callable[[str], GraphSet]:
    """A real dataset, read from its text once for all tests."""
    return lambda name: read_once(real(name))


read_once = functools.cache(read_tu)


@pytest.fixture
def write_tu(tmp_path: Path) -> Callable[..., Path]:
    """Writes a dataset's files into a folder; None leaves one of the triangles' files out."""

    def write(name: str = "TOY", folder: Path | None = None, **files: str | None) -> Path:
        folder = folder or tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        for kind, text in {**TRIANGLES, **files}.items():
            if text is not None:
                (folder / f"{name}_{kind}.txt").write_text(text)
        return folder

    return write


@pytest.fixture
def zip_tu(tmp_path: Path) -> Callable[..., Path]:
    """Writes the triangles into a zip, and further members as they are given."""

    def write(name: str = "TOY", folder: Path | None = None, **members: str) -> Path:
        path = (folder or tmp_path) / f"{name}.zip"
        path.parent.mkdir(parents=True, exist_ok=True)
        triangles = {f"{name}/{name}_{kind}.txt": text for kind, text in TRIANGLES.items()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, text in {**triangles, **members}.items():
                archive.writestr(member, text)
        return path

    return write


# Molecules of three atoms in a row, of one, of two and of one; each bond once.
MOLECULES = {
    "raw/num-node-list": "3\n1\n2\n1\n",
    "raw/num-edge-list": "2\n0\n1\n0\n",
    "raw/edge": "0,1\n1,2\n0,1\n",
    "raw/graph-label": "1\n0\n1\n0\n",
    "raw/node-feat": "5,0\n6,1\n5,0\n7,0\n5,0\n5,1\n5,1\n",
    "raw/edge-feat": "0,1\n1,0\n0,0\n",
    "split/scaffold/train": "2\n3\n",
    "split/scaffold/valid": "1\n",
    "split/scaffold/test": "0\n",
}


@pytest.fixture
def write_ogb(tmp_path: Path) -> Callable[..., Path]:
    """Writes a dataset in OGB's raw layout; None leaves a file out, bytes are written as given."""

    def write(name: str = "ogbg_toy", **files: str | bytes | None) -> Path:
        for file, content in {**MOLECULES, **files}.items():
            path = tmp_path / name / f"{file}.csv.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is not None:
                text = isinstance(content, str)
                path.write_bytes(gzip.compress(content.encode()) if text else content)
        return tmp_path / name

    return write


@pytest.fixture
def real_file() -> Callable[[str], Path]:
    """A path beside the real TU datasets; the test is skipped where there is none."""

    def find(name: str) -> Path:
        path = REAL.parent / name
        if not path.exists():
            pytest.skip(f"{name} is not beside the datasets of LCPOOL_DATA or in ../shared")
        return path

    return find
