"""Sweeps by each scheme of splits: cells, stores, replays."""

import json
from dataclasses import replace

import pytest
import torch
from sweep.sweeping import CPU, sweep

import lcpool
from lcpool.data import DataWarning, builtin, checks, load_dataset
from lcpool.sweep.grid import Dataset, Grid, make_jobs
from lcpool.sweep.replay import replay
from lcpool.sweep.store import Store

GRAPHS = builtin(num_graphs=44)
SMALL = {"pools": ["topkpool", "nopool"], "hidden": 8, "epochs": 2}
SPLIT = {"train": list(range(20)), "val": [20, 21], "test": list(range(22, 44))}
OTHER = {"train": list(range(2, 22)), "val": [0, 1], "test": list(range(22, 44))}


def jobs(*datasets, **settings):
    return make_jobs([Grid.of(datasets=datasets, **{**SMALL, "runs": 2, **settings})])


def test_a_cell_is_of_one_scheme():
    dataset = Dataset.of(GRAPHS)
    schemes = ["shared", "fresh", "stratified", "2-fold", "repeated-2-fold"]
    (job,) = jobs(dataset, pools="nopool", splits=schemes)
    assert [cell.protocol.split for cell in job.cells] == schemes
    assert len({cell.id for cell in job.cells}) == 5


def test_other_predefined_splits_are_other_cells_of_the_same_data():
    one, other = (Dataset.of(GRAPHS, splits=given) for given in (SPLIT, OTHER))
    assert one.digest == other.digest
    assert one != other
    ids = {jobs(d, pools="nopool", split="predefined")[0].cells[0].id for d in (one, other)}
    assert len(ids) == 2
    assert len(one.load().splits) == 1


def test_what_a_dataset_cannot_do_is_refused_before_training():
    dataset = Dataset.of(GRAPHS)
    with pytest.raises(ValueError, match="builtin came without splits"):
        jobs(dataset, split="predefined")
    with pytest.raises(ValueError, match="not 3: pass runs=2"):
        jobs(dataset, split=["fresh", "2-fold"], runs=3)
    with pytest.raises(ValueError, match="graphs of each class"):
        jobs(dataset, split="30-fold")


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_compare_by_folds_and_by_the_splits_of_the_data(tmp_path):
    graphs, store = load_dataset(GRAPHS, splits=SPLIT), tmp_path / "runs.sqlite"
    common = {**SMALL, "device": "cpu", "store": store}
    folds = lcpool.compare(graphs, split="4-fold", runs=4, **common)
    assert folds.groupby("pool").num_test.sum().tolist() == [44, 44]
    own = lcpool.compare(graphs, split=["predefined", "fresh"], runs=2, **common)
    assert sorted(set(own["split"])) == ["fresh", Dataset.of(graphs).scheme("predefined", 1)]
    assert all(json.loads(row.config)["split"] == row.split for row in own.itertuples())
    other = lcpool.compare(load_dataset(GRAPHS, splits=OTHER), split="predefined", runs=2, **common)
    assert not set(other["split"]) & set(own["split"])
    with Store(store) as opened:
        assert len(opened.runs()) == 8 + 8 + 4


@pytest.mark.parametrize("splits", [SPLIT, [SPLIT], "splits.json"])
def test_compare_says_where_predefined_splits_go(splits):
    with pytest.raises(ValueError, match="go with their data"):
        lcpool.compare(GRAPHS, splits=splits)


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_a_run_on_passed_splits_is_replayed_with_them(tmp_path):
    path, dataset = tmp_path / "runs.sqlite", Dataset.of("builtin", splits=SPLIT)
    sweep(path, jobs(dataset, pools="nopool", split="predefined"))
    with Store(path, readonly=True) as store:
        stored, again = replay(store, "nopool/1", CPU, SPLIT)
        assert stored["curves"] == again["curves"]
        with pytest.raises(ValueError, match="came without splits"):
            replay(store, "nopool/1", CPU)
        with pytest.raises(ValueError, match="other splits"):
            replay(store, "nopool/1", CPU, OTHER)


def test_what_the_data_has_and_no_cell_uses_is_said():
    attributes = torch.ones(GRAPHS.edge_index.size(1), 2)
    data = load_dataset(replace(GRAPHS, edge_attr=attributes), splits=SPLIT, name="both")
    dataset = Dataset.of(data)
    checks.warn_once.cache_clear()
    with (
        pytest.warns(DataWarning, match="both: .* gcn and gin,"),
        pytest.warns(DataWarning, match="both: .*fresh and shared"),
    ):
        jobs(dataset, conv=["gcn", "gin"], split=["fresh", "shared"])
    jobs(dataset, conv=["gcn", "gine"], split=["fresh", "predefined"])  # A warning: an error


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_whole_numbers_as_values_are_replayed_as_values(tmp_path):
    tables = {
        "edges.csv": "graph,u,v\n" + "".join(f"{g},0,{v}\n" for g in range(12) for v in (1, 2)),
        "graphs.csv": "graph,label\n" + "".join(f"{g},{5 * g}\n" for g in range(12)),
    }
    for name, text in tables.items():
        (tmp_path / name).write_text(text)
    dataset = Dataset.of(tmp_path, name="counts", task="values")
    assert dataset.load().y.flatten().tolist() == list(range(0, 60, 5))
    path = tmp_path / "runs.sqlite"
    sweep(path, jobs(dataset, pools="nopool", runs=1))
    with Store(path, readonly=True) as store:
        stored, again = replay(store, "counts/0", CPU)
    assert stored["task"] == again["task"] == "values"
    assert stored["test_rmse"] == again["test_rmse"]
