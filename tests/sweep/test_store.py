import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from sweep.sweeping import (
    Silent,
    elsewhere,
    figures,
    open_in_a_closed_folder,
    small_jobs,
    sweep,
    write_to_a_file_that_cannot_grow,
)

from lcpool.sweep.grid import Dataset
from lcpool.sweep.results import Results
from lcpool.sweep.store import Store, StoreError, pack_curves, unpack_curves


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


def refused(path, *named):
    """Opening fails by its name, and leaves every byte as it was."""
    before = path.read_bytes()
    for readonly in (False, True):
        with pytest.raises(StoreError, match=".*".join(map(re.escape, (str(path), *named)))):
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
    refused(copy)


def test_one_whose_tables_have_other_columns(copy):
    damage(copy, copy.read_bytes().index(b'"test_accuracy" REAL'), b'"test_accuracx" REAL')
    refused(copy)


def test_one_of_another_file_format(copy):
    damage(copy, 44, (5).to_bytes(4, "big"))  # SQLite knows 1 to 4
    refused(copy, "damaged")


def test_one_that_was_cut_off(copy):
    os.truncate(copy, copy.stat().st_size // 2)
    refused(copy)


def test_a_file_that_is_no_store(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, " * 100)
    refused(path)


def test_another_programs_database(tmp_path):
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE runs (x)")
    connection.close()
    refused(path)


def test_a_folder_and_a_missing_file(tmp_path):
    with pytest.raises(StoreError, match=re.escape(str(tmp_path))):
        Store(tmp_path)
    with pytest.raises(StoreError, match=r"none\.sqlite"):
        Store(tmp_path / "none.sqlite", readonly=True)


ROT = [
    "UPDATE runs SET test_accuracy = test_accuracy + 1e-12 WHERE run = 1",
    "UPDATE runs SET val_loss = NULL WHERE run = 1",
    "UPDATE runs SET curves = zeroblob(length(curves)) WHERE run = 1",
    "UPDATE runs SET run = 7 WHERE run = 1",
    "UPDATE runs SET cell = 'lost' WHERE run = 1",
    "UPDATE runs SET device = CAST(x'ff' AS TEXT) WHERE run = 1",
]


@pytest.mark.parametrize("rot", ROT)
def test_a_run_that_is_not_as_it_was_stored(finished, copy, rot):
    """It is neither dropped nor used, and a sweep trains it again."""
    with Store(copy) as store, store.transaction() as connection:
        connection.execute(rot)
    with Store(copy, readonly=True) as store:
        assert len(store.damaged()) == 1
    with pytest.raises(StoreError, match=r"copy\.sqlite.*\b1\b.*bench check"):
        Results.read(copy)
    jobs = small_jobs(["nopool"], runs=3, epochs=2)
    with pytest.warns(UserWarning, match=r"copy\.sqlite.*\b1\b"):
        assert sweep(copy, jobs).runs == 1
    assert figures(copy) == figures(finished)


@pytest.mark.parametrize("rot", ["config = replace(config, '8', '9')", "current = 0"])
def test_a_cell_that_is_not_as_it_was_stored(copy, rot):
    with Store(copy) as store, store.transaction() as connection:
        connection.execute(f"UPDATE cells SET {rot}")
    with Store(copy, readonly=True) as store:
        assert len(store.damaged()) == 3
    assert sweep(copy, small_jobs(["nopool"], runs=3, epochs=2)).runs == 0  # It is known.
    with Store(copy, readonly=True) as store:
        assert store.damaged() == []


def test_a_flipped_bit_in_a_curve(copy):
    with Store(copy, readonly=True) as store:
        (curve, *_) = (row["curves"] for row in store.rows("SELECT curves FROM runs"))
    place = copy.read_bytes().index(curve) + len(curve) // 2
    damage(copy, place, bytes([copy.read_bytes()[place] ^ 1]))
    with Store(copy, readonly=True) as store:
        assert len(store.damaged()) == 1


class Loses(Silent):
    """Does something to the store after the first epoch."""

    def __init__(self, deed):
        super().__init__()
        self.deed = deed

    def show(self, sweep):
        if self.deed and any(work.epoch for work in sweep.at_work.values()):
            self.deed(sweep.store.path)
            self.deed = None


def unlink_all(path):
    for file in path.parent.glob("bench.sqlite*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()


def replace_it(path):
    path.rename(path.with_name("moved.sqlite"))
    path.write_text("something else")


@pytest.mark.parametrize(
    "deed",
    [
        Path.unlink,
        unlink_all,
        lambda path: shutil.rmtree(path.parent),
        lambda path: path.rename(path.with_name("moved.sqlite")),
        replace_it,
    ],
)
def test_a_store_that_is_deleted_or_moved_during_a_sweep(tmp_path, deed):
    """Its runs are in another file, with which the sweep can continue."""
    path = tmp_path / "folder" / "bench.sqlite"
    sweep(path, small_jobs(["nopool"], epochs=2))
    before, jobs = figures(path), small_jobs(["nopool", "topkpool"], epochs=2)
    outcome = sweep(path, jobs, view=Loses(deed))
    assert outcome.rescued == path.with_name("bench.rescued.sqlite")
    assert outcome.stopped
    assert set(before) <= set(figures(outcome.rescued))
    outcome.rescued.rename(path)
    assert not list(path.parent.glob("*-wal"))
    assert sweep(path, jobs).complete == 2
    sweep(tmp_path / "undisturbed.sqlite", jobs)
    assert figures(path) == figures(tmp_path / "undisturbed.sqlite")


def test_runs_of_an_older_version_of_a_pooling_are_not_used(tmp_path, monkeypatch):
    source, path = tmp_path / "versioned.py", tmp_path / "bench.sqlite"
    source.write_text("from sweep.poolings import Plain as Pool\nclass Mine(Pool): pass\n")
    monkeypatch.syspath_prepend(tmp_path)

    def again():
        return sweep(path, small_jobs(["versioned:Mine"], epochs=1)).runs

    assert (again(), again()) == (2, 0)
    old = source.read_text()
    source.write_text(f"{old}# changed\n")
    with pytest.warns(UserWarning, match="versioned:Mine"):
        assert again() == 2
    assert len(Results.read(path).runs) == 2
    source.write_text(old)
    with pytest.warns(UserWarning, match="versioned:Mine"):
        assert again() == 0  # Its runs are still there.


def test_other_data_of_the_same_name_is_refused(copy):
    (job,) = small_jobs(["nopool"])
    other = replace(job.cells[0].dataset, digest="another")
    changed = replace(job, wanted=tuple((replace(c, dataset=other), n) for c, n in job.wanted))
    with Store(copy) as store, pytest.raises(StoreError, match="builtin"):
        store.add([changed])
    assert isinstance(other, Dataset)


def test_curves_keep_every_bit():
    curves = [(0.1, 1e-300, float("inf")), (-0.0, 2 / 3, float("nan"))]
    found = unpack_curves(pack_curves(curves))
    assert found.tobytes() == unpack_curves(pack_curves(found)).tobytes()
    assert found[0].tolist() == [0.1, 1e-300, float("inf")]


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
    pytest.importorskip("resource", reason="no such limit on Windows")
    (error,) = elsewhere(write_to_a_file_that_cannot_grow, tmp_path / "bench.sqlite")
    assert "bench.sqlite" in error
    assert figures(tmp_path / "bench.sqlite") == []


def small_disk():
    """A command prefix that mounts a file system of half a megabyte, or why there can be none."""
    mount = 'mount -t tmpfs -o size=512k none "$0" && exec "$@"'
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount]
    try:
        command = [*prefix, "/mnt", "true"]
        tried = subprocess.run(command, capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
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
        capture_output=True, text=True, check=False, timeout=250,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    first, error, kind, last = done.stdout.splitlines() or pytest.fail(done.stderr)
    assert first == "1"
    assert "bench.sqlite" in error
    # SQLite may call it an input/output error; the user is not told so.
    assert re.fullmatch("(SQLITE_FULL|SQLITE_IOERR.*) False", kind)
    assert last == "True 2 4"
