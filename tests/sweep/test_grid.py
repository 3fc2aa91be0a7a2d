import json
from dataclasses import replace

import pytest
import torch
from sweep.sweeping import GRAPHS, small_jobs

from lcpool.data import builtin
from lcpool.sweep.grid import Dataset, Grid, make_jobs, read_config, read_grids


def test_the_paper_is_1920_trainings(monkeypatch):
    monkeypatch.setattr(Dataset, "of", lambda source, root: Dataset(source, source, 100, 1000, ""))
    jobs = make_jobs([Grid.of(**Grid.paper())])
    assert len(jobs) == 6 * 2 * 2 * 8
    assert sum(len(job.wanted) for job in jobs) == 1920
    assert len({cell.id for job in jobs for cell in job.cells}) == 192


def test_both_splits_of_a_cell_are_one_job():
    (job,) = small_jobs(["nopool"], splits=["shared", "fresh"], runs=3)
    assert [(cell.protocol.split, n) for cell, n in job.wanted] == [
        ("shared", 0), ("shared", 1), ("shared", 2), ("fresh", 0), ("fresh", 1), ("fresh", 2),
    ]  # fmt: skip
    assert str(job) == "builtin hierarchical gcn nopool shared+fresh"
    assert job.cells[0].settings == "hidden=8 lr=0.01 batch_size=16 max_epochs=4"


def test_a_cell_is_known_by_configuration_and_data_not_by_runs():
    def identity(**settings):
        (job,) = small_jobs(["nopool"], **settings)
        return job.cells[0].id

    assert identity() == identity(runs=7)
    others = [identity(), identity(lr=0.1), identity(splits="fresh"), identity(hidden=9),
              identity(seeds=1), identity(ratio=0.25)]  # fmt: skip
    assert len(set(others)) == len(others)
    (job,) = small_jobs(["nopool"])
    changed = Dataset.of(replace(GRAPHS, x=GRAPHS.x + 1))
    assert replace(job.cells[0], dataset=changed).id != job.cells[0].id


def test_a_configuration_reads_back():
    (job,) = small_jobs(["lcpool-star"], ratio=0.25, seeds=3)
    cell = job.cells[0]
    assert read_config(cell.config) == (cell.architecture, cell.protocol)
    assert list(json.loads(cell.config)) == ["architecture", "protocol"]


def test_cells_that_several_grids_name_are_trained_once():
    usual = {"datasets": [Dataset.of(GRAPHS)], "pools": ["nopool"]}
    (job,) = make_jobs([Grid.of(**usual, runs=2), Grid.of(**usual, runs=3)])
    assert [n for _, n in job.wanted] == [0, 1, 2]


def test_two_datasets_of_one_name_are_refused():
    two = [Dataset.of(GRAPHS), Dataset.of(builtin(seed=1, num_graphs=60))]
    with pytest.raises(ValueError, match="two different datasets are called builtin"):
        make_jobs([Grid.of(datasets=two, pools="nopool")])


def test_a_dataset_that_changed_meanwhile_is_noticed():
    dataset = Dataset.of(GRAPHS)
    assert torch.equal(dataset.load().x, GRAPHS.x)
    with pytest.raises(ValueError, match="not what it was"):
        replace(dataset, source=builtin(seed=1, num_graphs=60)).load()


def test_a_file_of_grids(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(
        'datasets = ["builtin"]\npools = ["lcpool"]\nruns = 3\n'
        "[[grid]]\nratio = 0.25\n[[grid]]\nratio = 0.75\nsplits = ['shared', 'fresh']\n"
    )
    first, second = read_grids(path, {"runs": 5})
    assert (first.ratio, first.runs, first.splits) == (0.25, 5, ("shared",))
    assert (second.ratio, second.pools, second.splits) == (0.75, ("lcpool",), ("shared", "fresh"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pols = ['lcpool']", "unknown setting 'pols' of a grid: did you mean pools"),
        ("runs = 0", "'runs' must be at least 1"),
        ("pools = []", "'pools' of a grid is empty"),
        ("grid = 3", r"write grids as \[\[grid\]\]"),
        ("runs = ", "is no TOML file"),
    ],
)
def test_what_is_wrong_in_a_file(tmp_path, text, message):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_grids(path, {})
