import errno
import os
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from said import numbers
from sweep.sweeping import CPU, change, figures, small_jobs, sweep, write_tu

from lcpool.sweep.columns import COLUMNS, EXPORTED, FIGURES, NAMES
from lcpool.sweep.engines.execute import figures as figures_of
from lcpool.sweep.grid import Grid, make_jobs
from lcpool.sweep.replay import computing_with, find, replay
from lcpool.sweep.results import Failure, Results, key
from lcpool.sweep.store import Store, StoreError, differing
from lcpool.train import RULES, Run
from lcpool.train.result import Predictions


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "bench.sqlite"
    sweep(path, small_jobs(["nopool", "lcpool*"], splits=["shared", "fresh"], epochs=2))
    return path


@pytest.fixture
def part(tmp_path):
    """A store with other runs of the same cells, and some of the same."""
    path = tmp_path / "part.sqlite"
    sweep(path, small_jobs(["nopool"], epochs=2, runs=3))
    return path


def test_a_row_for_each_run(path):
    results = Results.read(path)
    assert tuple(results.runs.columns) == NAMES
    assert len(results.runs) == 8
    assert set(results.runs.pool) == {"nopool", "lcpool*"}
    assert results.runs.test_accuracy.between(0, 100).all()
    assert (results.runs.num_test == 6).all()
    assert (results.runs["stack"] == 4).all()
    assert results.runs.diverged.isna().all()
    assert results.runs.peak_memory.isna().all()  # of a GPU


def test_export_and_back(path, tmp_path):
    results = Results.read(path)
    table = results.write(tmp_path / "out")
    assert table == tmp_path / "out" / "runs.csv"
    again = Results.read(table)
    pd.testing.assert_frame_equal(again.runs, results.runs)
    assert (
        again.curves.keys()
        == results.curves.keys()
        == {key(r) for r in results.runs.to_dict("records")}
    )
    for name, curve in results.curves.items():
        assert curve.shape == (2, 3)
        np.testing.assert_array_equal(again.curves[name][:, 2], curve[:, 2])
        np.testing.assert_allclose(again.curves[name], curve, rtol=2**-11)
    before = table.read_bytes()
    again.write(table)
    assert table.read_bytes() == before


def test_an_export_that_fails_leaves_the_older_one(path, tmp_path, monkeypatch):
    results = Results.read(path)
    cell = Failure(("A", "plain", "gcn", "nopool"), "fresh", "MemoryError", "{}")
    replace(results.where(split="fresh"), failures=(cell,)).write(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert before.keys() == {"runs.csv", "runs.npz", "runs.failures.json"}

    def full(file, **_):
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        results.write(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_an_export_without_curves_leaves_no_older_curves(path, tmp_path):
    results = Results.read(path)
    results.write(tmp_path)
    table = Results(results.runs).write(tmp_path)
    assert Results.read(table).curves == {}


@pytest.fixture
def failed(path):
    """The results without the runs of two of the four cells, which failed instead."""
    results = Results.read(path)
    runs, failures = results.runs, []
    for split, pool in (("shared", "lcpool*"), ("fresh", "nopool")):
        there = (runs["split"] == split) & (runs["pool"] == pool)
        *names, config = runs.loc[there, ["dataset", "backbone", "conv", "pool", "config"]].iloc[0]
        reason = f'Traceback:\n  File "{pool}.py", line 1\nMemoryError: "=1+1", é'
        failures.append(Failure(tuple(names), split, reason, config))
        runs = runs[~there]
    return Results(runs.reset_index(drop=True), failures=tuple(failures))


def test_failures_are_exported(failed, path, tmp_path):
    table = failed.write(tmp_path / "part-1.csv")
    again = Results.read(table)
    assert len(again.failures) == 2
    assert again.failures == failed.failures
    assert [*tmp_path.glob("*.csv")] == [table]  # a pattern of tables finds no failures
    # What failed in one file and has runs in another did not fail.
    assert Results.read(table, Results.read(path).write(tmp_path / "all.csv")).failures == ()
    Results(again.runs).write(table)
    assert Results.read(table).failures == ()


def test_failures_alone_are_exported(failed, tmp_path):
    table = Results(failed.runs[:0], failures=failed.failures).write(tmp_path)
    again = Results.read(table)
    assert len(again.runs) == 0
    assert again.failures == failed.failures


def test_failures_of_a_part(failed):
    shared, fresh = failed.failures
    assert failed.where(split="shared").failures == (shared,)
    assert failed.where(pool=["nopool"], dataset="builtin").failures == (fresh,)
    assert failed.where(seed=0).failures == (shared, fresh)
    assert failed.where(seed=1, conv="gcn").failures == ()
    assert failed.where(config=shared.config).failures == (shared,)
    assert failed.where(device="CPU").failures == ()  # a failure is of no known device


@pytest.mark.parametrize("content", ["{", "3", "[3]", '[{"dataset": "A"}]', "\x00"])
def test_damaged_failures_are_an_error_that_names_the_file(failed, tmp_path, content):
    table = failed.write(tmp_path)
    (tmp_path / "runs.failures.json").write_text(content)
    with pytest.raises(ValueError, match=r"runs\.failures\.json"):
        Results.read(table)


def test_what_is_exported_first(path, tmp_path):
    header = Results.read(path).write(tmp_path).read_text("utf-8").splitlines()[0]
    first = "dataset,backbone,conv,pool,run,test_accuracy,test_accuracy_by_loss,epochs,seconds,"
    assert header.startswith(first)
    assert header.endswith(",lcpool,torch,pyg,python,device,commit")


def test_the_store_has_the_declared_columns(path):
    with Store(path, readonly=True) as store:
        found = {
            row["name"]: (row["type"], not row["notnull"])
            for table in ("cells", "runs")
            for row in store.rows(f"PRAGMA table_info({table})")
        }
    declared = {column.name: (column.sql, column.null) for column in COLUMNS}
    assert declared.items() <= found.items()
    assert found.keys() - declared.keys() == {"id", "cell", "code", "current", "checksum"}


def test_columns_that_came_later_may_be_absent(path, tmp_path):
    table = Results.read(path).write(tmp_path)
    later = [column.name for column in EXPORTED if column.absent]
    assert later[:3] == ["largest_class", "constant", "constant_by_loss"]
    assert {"task", "metric", "test_roc_auc", "test_rmse_by_loss"} < set(later)
    pd.read_csv(table, dtype=str).drop(columns=later).to_csv(table, index=False)
    runs = Results.read(table).runs
    assert tuple(runs.columns) == NAMES
    numbers = [name for name in later if name not in ("task", "metric")]
    assert runs[numbers].isna().all(axis=None)
    assert (runs[["task", "metric"]] == "").all(axis=None)
    pd.read_csv(table, dtype=str).drop(columns="epochs").to_csv(table, index=False)
    with pytest.raises(ValueError, match="epochs"):
        Results.read(table)


def test_constant_predictors_are_figures(tmp_path):
    """A run that is known to predict one class only, through the store and a CSV file."""
    run = Run(0, test=dict.fromkeys(RULES, (0.75, 0.5)), largest_class=0.75, num_test=4)
    for rule, choice in run.choices.items():
        choice.offer(1, 0.5, 0.5)
        run.constant[rule] = rule == "loss"
        run.measured[rule] = {"accuracy": 0.75}
        run.predictions[rule] = Predictions(*(np.zeros(shape) for shape in (4, 4, (4, 2))))
    run.curves.append((1.0, 1.0, 0.5))
    found = figures_of(run)
    names = ("largest_class", "constant", "constant_by_loss")
    assert [found[name] for name in names] == [75.0, 0, 1]
    assert set(names) < set(FIGURES)
    path, jobs = tmp_path / "a.sqlite", small_jobs(["nopool"], epochs=1)
    sweep(path, jobs)
    change(path, run=0, largest_class=75.0, constant=1)
    table = Results.read(Results.read(path).write(tmp_path)).runs
    assert table["constant"].tolist()[0] == 1.0
    assert table["largest_class"].tolist()[0] == 75.0


def test_a_curve_that_diverged_is_exported(path, tmp_path):
    results = Results.read(path)
    name = next(iter(results.curves))
    results.curves[name][:] = [[1e6, np.nan, 0.5], [np.inf, 1e-30, 0.25]]
    found = Results.read(results.write(tmp_path)).curves[name]
    np.testing.assert_array_equal(found, [[np.inf, np.nan, 0.5], [np.inf, 0, 0.25]])


def test_several_files_are_read_as_one(path, tmp_path):
    results = Results.read(path)
    files = [
        results.where(split=split).write(tmp_path / f"{split}.csv") for split in ("shared", "fresh")
    ]
    again = Results.read(*files)
    assert list(again.runs["split"]) == ["shared"] * 4 + ["fresh"] * 4
    assert again.curves.keys() == results.curves.keys()


def test_part_of_the_results(path, tmp_path):
    fresh = Results.read(path).where(split="fresh", pool=["nopool"])
    assert len(fresh.runs) == len(fresh.curves) == 2
    assert len(Results.read(fresh.write(tmp_path / "fresh.csv")).runs) == 2


def test_what_is_no_result(tmp_path):
    with pytest.raises(ValueError, match=tmp_path.name):
        Results.read(tmp_path)
    (tmp_path / "runs.csv").write_text("dataset,pool\nA,b\n")
    with pytest.raises(ValueError, match=r"runs\.csv"):
        Results.read(tmp_path / "runs.csv")


def test_names_that_look_like_nothing_survive(path, tmp_path):
    results = Results.read(path)
    results.runs["dataset"] = "NA"
    assert set(Results.read(Results(results.runs).write(tmp_path)).runs.dataset) == {"NA"}


def test_merge(path, part, tmp_path):
    with Store(tmp_path / "all.sqlite") as into:
        first, second = into.merge(path), into.merge(part)
        assert (first.added, first.same, first.conflicts) == (8, 0, [])
        assert (second.added, second.same, second.conflicts) == (1, 2, [])
        before = figures(tmp_path / "all.sqlite")
        again = into.merge(part)
        assert (again.added, again.same, again.conflicts) == (0, 3, [])
        assert figures(tmp_path / "all.sqlite") == before
        assert len(before) == 9


def test_conflicts_are_reported_and_nothing_is_overwritten(path, part):
    change(part, run=0, test_accuracy=1.5, epochs=7)
    with Store(part) as into:
        merged = into.merge(path)
    (conflict,) = merged.conflicts
    assert {"nopool", "shared"} <= set(conflict.split())
    assert numbers(conflict) == [0]
    assert re.findall(r"\w+", conflict)[-2:] == ["test_accuracy", "epochs"]
    assert (merged.added, merged.same) == (6, 1)
    assert 1.5 in set(Results.read(part).runs.test_accuracy)


def test_other_data_of_the_same_name_does_not_merge(path, part):
    with Store(part) as into:
        with into.transaction() as connection:
            connection.execute("UPDATE datasets SET digest = 'another'")
        merged = into.merge(path)
    assert merged.added == 0
    (conflict,) = merged.conflicts
    assert conflict.startswith("builtin")


def test_what_cannot_be_merged_changes_nothing(part, tmp_path):
    before = figures(part)
    with Store(part) as into, pytest.raises(StoreError, match=r"none\.sqlite"):
        into.merge(tmp_path / "none.sqlite")
    assert figures(part) == before


def test_a_row_trained_again_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "cache"))
    path, dataset = tmp_path / "bench.sqlite", write_tu(tmp_path)
    pools = ["asapool"]  # the runs of its stack move its last bits
    grid = Grid.of(datasets=dataset, pools=pools, runs=3, hidden=4, epochs=1)
    with computing_with(2):
        sweep(path, make_jobs([grid]))
    with Store(path, readonly=True) as store, computing_with(1):
        stored, again = replay(store, "asapool/RINGS/2", CPU)
        assert differing(stored, again) == []
        assert again["run"] == 2
        assert again["threads"] == stored["threads"] == 2
        assert torch.get_num_threads() == 1
        with pytest.raises(StoreError, match="lcpool/2"):
            replay(store, "lcpool/2", CPU)


def test_which_row_is_meant(path):
    with Store(path, readonly=True) as store:
        with pytest.raises(StoreError, match="builtin/"):
            replay(store, "nopool/1", CPU)
        with pytest.raises(StoreError, match="graphs"):
            replay(store, "nopool/fresh/1", CPU)


def test_rows_that_differ_in_settings_are_told_apart(tmp_path):
    path = tmp_path / "bench.sqlite"
    jobs = [*small_jobs(["topkpool"], epochs=1, ratio=0.25), *small_jobs(["topkpool"], epochs=1)]
    sweep(path, jobs)
    quarter, half = (job.cells[0].id for job in jobs)
    name = "builtin/hierarchical/gcn/topkpool/shared/0/1"
    with Store(path, readonly=True) as store:
        with pytest.raises(StoreError) as caught:
            find(store, "topkpool/1")
        said = str(caught.value)
        assert said.count(name) == 2
        assert re.search(rf"{name}[^/]*ratio=0\.25[^/]*{quarter}", said)
        assert re.search(rf"{name}[^/=]*{half}", said)
        assert find(store, f"{half}/1")["cell"] == half
        assert find(store, "topkpool/ratio=0.25/1")["cell"] == quarter
        assert find(store, "topkpool/ratio=0.5/1")["cell"] == half
