"""What is said: of test graphs and constant predictions, and of stores where not all is well."""

import io
import re
import sqlite3
import zlib

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from runs import make_results
from sweep.sweeping import small_jobs, sweep

from lcpool.cli.report import _print
from lcpool.report import Report
from lcpool.report.findings import constants_in_words, findings
from lcpool.report.page import page
from lcpool.report.tables import csv, latex, markdown, size_rows
from lcpool.sweep.results import Results
from lcpool.sweep.store import Store, StoreError

MINE = {"datasets": ("X", "Y"), "backbones": ("plain",), "convs": ("gcn",), "pools": tuple("abc")}
NEW = ("largest_class", "constant", "constant_by_loss")


def results_with(constant: dict[tuple[str, str], int], largest=95.0, by="constant") -> Results:
    """Ten runs of each cell, of which some predict one class by one rule."""
    results = make_results(**MINE, runs=10)
    runs = results.runs
    runs["num_test"] = runs["dataset"].map({"X": 300, "Y": 47})
    runs["largest_class"] = runs["dataset"].map({"X": largest, "Y": 60.0})
    runs["constant"] = runs["constant_by_loss"] = 0.0
    for (dataset, pool), n in constant.items():
        of_cell = (runs["dataset"] == dataset) & (runs["pool"] == pool)
        runs.loc[of_cell & (runs["run"] < n), by] = 1.0
    return results


def printed(report: Report) -> str:
    console = Console(file=io.StringIO(), width=200, highlight=False)
    _print(report, console)
    return console.file.getvalue()


def row(text: str, name: str) -> list[str]:
    """The numbers of a Markdown, HTML or terminal table's row, by its first column."""
    (line,) = (line for line in _rows(text) if line and line[0].strip("*") == name)
    return line[1:]


def _rows(text: str) -> list[list[str]]:
    if "<table" in text:
        layout = re.findall(r'<table class="layout">.*?</table>', text, re.S)[0]
        rows = re.findall(r"<tr.*?</tr>", layout, re.S)
        return [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in rows]
    if "\n|" in text:
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def numbers(sentences: list[str]) -> list[list[str]]:
    return [re.findall(r"[\d.]+\d|\d+", text) for text in sentences]


def test_test_sets_of_several_sizes():
    results = results_with({})
    results.runs.loc[(results.runs["dataset"] == "X") & (results.runs["pool"] == "a"),
                     ["num_test", "largest_class"]] = [298, 92.0]  # fmt: skip
    graphs, largest = size_rows(Report.of(results).cells, ["Y", "X"]).values()
    assert graphs == ["47", "298 to 300"]
    assert largest == ["60.0", "94.0"]


@pytest.mark.parametrize("write", [markdown, page, printed])
def test_every_table_of_accuracies_has_them(write):
    text = write(Report.of(results_with({})))
    assert row(text, "test graphs")[:2] == ["300", "47"]
    assert row(text, "largest class, %")[:2] == ["95.0", "60.0"]


@pytest.mark.parametrize("write", [markdown, page, printed])
def test_where_the_largest_class_is_unknown_nothing_is_said_about_it(write):
    results = results_with({})
    results.runs[list(NEW)] = np.nan
    report = Report.of(results)
    text = write(report)
    assert row(text, "test graphs")[:2] == ["300", "47"]
    assert "largest class" not in text
    assert findings(report)["constant"] == []
    assert not set(NEW) & set(pd.read_csv(io.StringIO(csv(report))))


def test_a_largest_class_that_is_known_of_some_datasets():
    results = results_with({})
    results.runs.loc[results.runs["dataset"] == "Y", list(NEW)] = np.nan
    report = Report.of(results)
    for write in (markdown, page, printed):
        assert row(write(report), "largest class, %")[:2] == ["95.0", "–"]


def test_cells_with_constant_predictors_are_found_and_named():
    report = Report.of(results_with({("X", "b"): 3, ("Y", "c"): 10}))
    cells = report.cells.set_index(["dataset", "pool"])
    assert cells.loc[("X", "b"), ["constant", "constant_of"]].tolist() == [3, 10]
    assert cells["constant"].sum() == 13
    said = findings(report)["constant"]
    assert numbers(said) == [["3", "10", "95.0"], ["10", "10", "60.0"]]
    names = [set(re.findall(r"\w+", text)) & {*"bcXY"} for text in said]
    assert names == [{"b", "X"}, {"c", "Y"}]


def test_by_validation_loss_it_is_the_network_chosen_by_loss():
    results = results_with({("X", "b"): 3}, by="constant_by_loss")
    assert constants_in_words(Report.of(results).cells) == []
    assert numbers(constants_in_words(Report.of(results, "loss").cells)) == [["3", "10", "95.0"]]


def test_only_runs_of_which_it_is_known_are_counted():
    results = results_with({("X", "b"): 3})
    of_cell = (results.runs["dataset"] == "X") & (results.runs["pool"] == "b")
    results.runs.loc[of_cell & (results.runs["run"] == 9), "constant"] = np.nan
    results.runs.loc[of_cell & (results.runs["run"] == 0), "test_accuracy"] = np.nan
    assert numbers(constants_in_words(Report.of(results).cells)) == [["2", "8", "95.0"]]


def test_backbones_of_one_pooling_and_dataset_are_one_sentence():
    results = make_results(**{**MINE, "convs": ("gcn", "graphconv")}, runs=4)
    runs = results.runs
    runs["constant"] = ((runs["pool"] == "a") & (runs["dataset"] == "X")).astype(float)
    runs.loc[(runs["conv"] == "gcn") & (runs["run"] > 0), "constant"] = 0.0
    assert numbers(findings(Report.of(results))["constant"]) == [["5", "8"]]
    runs.loc[runs["conv"] == "gcn", "constant"] = 0.0
    # The backbone without such runs counts, too.
    assert numbers(findings(Report.of(results))["constant"]) == [["4", "8"]]


def test_such_cells_are_marked_in_every_table():
    marked, plain = (
        Report.of(results_with(constant)) for constant in ({("X", "b"): 3, ("Y", "c"): 10}, {})
    )
    for write in (markdown, latex, page):
        mark = re.compile(r"(\d+) of 10 constant")
        assert mark.findall(write(marked)) == ["3", "10"]
        assert mark.findall(write(plain)) == []
    rows = {line[0]: line[1:] for line in _rows(printed(marked)) if line[0] in tuple("abc")}
    assert [pool for pool, line in sorted(rows.items()) if line[0].endswith("!")] == ["b"]
    assert [pool for pool, line in sorted(rows.items()) if line[1].endswith("!")] == ["c"]
    assert "!" not in printed(plain)
    found = pd.read_csv(io.StringIO(csv(marked))).set_index(["dataset", "pool"])
    assert found.loc[("X", "b"), ["constant", "constant_of", "largest_class"]].tolist() == [
        3, 10, 95.0
    ]  # fmt: skip


def test_names_of_any_kind_stay_names():
    results = results_with({("X", "b"): 3})
    results.runs["dataset"] = results.runs["dataset"].replace("X", "<b>|x\n% &")
    report = Report.of(results)
    assert "<b>|x" not in page(report)
    assert "<b>" not in markdown(report)
    assert all(line.startswith(("%", "\\", " ")) or "&" in line or "\\" in line or not line
               for line in latex(report).splitlines())  # fmt: skip


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
    (text,) = (text for text in said if names in text)
    assert "ValueError" in text
    assert "/home/me/mine.py:12" in text


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
    jobs = small_jobs(["nopool"], epochs=1, lr=0.25)
    with Store(path) as store:
        store.add(jobs)
        store.fail(jobs[0].cells, TRACEBACK, 1.0)
    assert len(Results.read(path).failures) == 1


@pytest.mark.parametrize("content", [b"no zlib", zlib.compress(b"no row"), zlib.compress(b"")[:4]])
def test_damaged_curves_are_an_error_that_names_the_store(path, content):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE runs SET curves = ? WHERE run = 1", (content,))
    connection.close()
    with pytest.raises(StoreError, match=r"bench\.sqlite"):
        Results.read(path)


def test_damaged_curves_beside_a_table(path, tmp_path):
    table = Results.read(path).write(tmp_path / "runs.csv")
    curves = table.with_suffix(".npz")
    curves.write_bytes(curves.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"runs\.npz"):
        Results.read(table)
