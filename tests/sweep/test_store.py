import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from sweep.sweeping import (
    elsewhere,
    figures,
    open_in_a_closed_folder,
    small_jobs,
    sweep,
    write_to_a_file_that_cannot_grow,
)

from lcpool.sweep.grid import Dataset
from lcpool.sweep.store import Store, StoreError, pack, unpack


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "bench.sqlite"
    assert sweep(path, small_jobs(["nopool"], runs=3, epochs=2)).complete == 1
    return path


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copy(finished, tmp_path / "copy.sqlite"))


def damage(path, offset, content):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def refused(path, message):
    """Opening fails, and leaves every byte as it was."""
    before = path.read_bytes()
    for readonly in (False, True):
        with pytest.raises(StoreError, match=message):
            Store(path, readonly=readonly)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_store_leaves_nothing_but_itself(finished):
    assert list(finished.parent.iterdir()) == [finished]


def test_one_written_by_newer_lcpool(copy):
    connection = sqlite3.connect(copy)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    refused(copy, "99")


@pytest.mark.parametrize("page", [1, 2, 3, 4])
def test_a_damaged_one(copy, page):
    size = int.from_bytes(copy.read_bytes()[16:18], "big")
    damage(copy, page * size, b"\xff" * 200)
    refused(copy, "damaged")


def test_one_that_was_cut_off(copy):
    os.truncate(copy, copy.stat().st_size // 2)
    refused(copy, "damaged")


def test_a_file_that_is_no_store(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, " * 100)
    refused(path, "lcpool store")


def test_another_programs_database(tmp_path):
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE runs (x)")
    connection.close()
    refused(path, "lcpool store")


def test_a_folder_and_a_missing_file(tmp_path):
    with pytest.raises(StoreError, match="folder"):
        Store(tmp_path)
    with pytest.raises(StoreError, match=r"none\.sqlite"):
        Store(tmp_path / "none.sqlite", readonly=True)


def test_other_data_of_the_same_name_is_refused(copy):
    (job,) = small_jobs(["nopool"])
    other = replace(job.cells[0].dataset, digest="another")
    changed = replace(job, wanted=tuple((replace(c, dataset=other), n) for c, n in job.wanted))
    with Store(copy) as store, pytest.raises(StoreError, match="builtin"):
        store.add([changed])
    assert isinstance(other, Dataset)


def test_curves_keep_every_bit():
    curves = [(0.1, 1e-300, float("inf")), (-0.0, 2 / 3, float("nan"))]
    assert unpack(pack(curves)).tobytes() == unpack(pack(unpack(pack(curves)))).tobytes()
    assert unpack(pack(curves))[0].tolist() == [0.1, 1e-300, float("inf")]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX permissions")
def test_a_folder_that_cannot_be_written_to(finished):
    """Root may write everywhere, so as root this becomes somebody else first."""
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to somebody else
    shutil.copy(finished, folder)
    (folder / "bench.sqlite").chmod(0o444)
    folder.chmod(0o555)
    runs, *errors = elsewhere(open_in_a_closed_folder, folder)
    assert runs == 3
    assert len(errors) == 2
    assert all("--store" in error for error in errors)
    assert os.listdir(folder) == ["bench.sqlite"]
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.slow
def test_a_disk_that_fails(tmp_path):
    """Where a file may not grow any more, SQLite calls it an input/output error."""
    pytest.importorskip("resource")
    (error,) = elsewhere(write_to_a_file_that_cannot_grow, tmp_path / "bench.sqlite")
    assert "bench.sqlite" in error
    assert figures(tmp_path / "bench.sqlite") == []


def small_disk():
    """A command prefix that mounts a file system of half a megabyte, or why there can be none."""
    mount = 'mount -t tmpfs -o size=512k none "$0" && exec "$@"'
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount]
    try:
        tried = subprocess.run([*prefix, "/mnt", "true"], capture_output=True, check=False)
    except OSError:
        return None
    return prefix if tried.returncode == 0 else None


@pytest.mark.slow
def test_a_full_disk(tmp_path):
    prefix = small_disk()
    if prefix is None:
        pytest.skip("needs unshare, and user namespaces that may mount")
    code = f"from sweep.sweeping import fill_the_disk; fill_the_disk({str(tmp_path)!r})"
    done = subprocess.run(
        [*prefix, str(tmp_path), sys.executable, "-c", code],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    first, error, last = done.stdout.splitlines() or pytest.fail(done.stderr)
    assert first == "1"
    assert "bench.sqlite is full" in error
    assert last == "True 2 4"
