"""Reports of stores in which not all is well."""

import sqlite3
import zlib

import pytest
from sweep.sweeping import small_jobs, sweep

from lcpool.report import Report
from lcpool.report.findings import findings
from lcpool.sweep.results import Results
from lcpool.sweep.store import Store, StoreError

TRACEBACK = """Traceback (most recent call last):
  File "/lib/torch/nn/module.py", line 1, in forward
  File "/home/me/mine.py", line 12, in forward
    raise ValueError("no edges")
ValueError: no edges
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "bench.sqlite"
    sweep(path, small_jobs(["nopool", "topkpool"], epochs=1))
    return path


def test_what_was_set_aside_is_listed_with_its_error(path):
    """Not what failed once and was trained later; and the last error, not the first."""
    (failed,), (trained,) = small_jobs(["lcpool"], epochs=1), small_jobs(["nopool"], epochs=1)
    with Store(path) as store:
        store.add([failed])
        store.fail(trained.cells, TRACEBACK, 1.0)
        store.fail(failed.cells, TRACEBACK, 2.0)
        store.fail(failed.cells, "MemoryError", 1.0)
    said = findings(Report.of(Results.read(path)))["missing"]
    names = " ".join(failed.cells[0].names)
    expected = f"Set aside: {names}: ValueError: no edges (/home/me/mine.py:12)"
    assert [text for text in said if text.startswith("Set aside")] == [expected]


def test_what_failed_in_one_store_and_was_trained_in_another(path, tmp_path):
    jobs = small_jobs(["lcpool"], epochs=1)
    with Store(path) as store:
        store.add(jobs)
        store.fail(jobs[0].cells, TRACEBACK, 1.0)
    other = tmp_path / "other.sqlite"
    sweep(other, jobs)
    assert len(Results.read(path).failures) == 1
    assert not Results.read(path, other).failures


def test_what_failed_by_other_settings_is_no_less_missing(path):
    """Though a cell of the same names has runs."""
    jobs = small_jobs(["nopool"], epochs=1, ratio=0.25)
    with Store(path) as store:
        store.add(jobs)
        store.fail(jobs[0].cells, TRACEBACK, 1.0)
    assert len(Results.read(path).failures) == 1


@pytest.mark.parametrize("content", [b"no zlib", zlib.compress(b"no row"), zlib.compress(b"")[:4]])
def test_damaged_curves_are_an_error_that_names_the_run(path, content):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE runs SET curves = ? WHERE run = 1", (content,))
    connection.close()
    with pytest.raises(StoreError, match=r"damaged: the curves of .*/nopool/1 cannot be read"):
        Results.read(path)


def test_damaged_curves_beside_a_table(path, tmp_path):
    table = Results.read(path).write(tmp_path / "runs.csv")
    curves = table.with_suffix(".npz")
    curves.write_bytes(curves.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"runs.npz is damaged .*: export the runs again"):
        Results.read(table)
