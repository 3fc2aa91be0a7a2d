import functools
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lcpool.data import GraphSet, cache, checks
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
    cache._warn_unwritable.cache_clear()
    checks.warn_once.cache_clear()


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
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for kind, text in TRIANGLES.items():
                archive.writestr(f"{name}/{name}_{kind}.txt", text)
            for member, text in members.items():
                archive.writestr(member, text)
        return path

    return write
