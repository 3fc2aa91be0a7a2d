import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from sweep.sweeping import GRAPHS, small_jobs, write_tu

from lcpool.data import DataWarning, builtin
from lcpool.data.checks import warn_once
from lcpool.models import Architecture
from lcpool.settings import SETTINGS
from lcpool.sweep.grid import Cell, Dataset, Grid, make_jobs, read_config, read_grids
from lcpool.train import Protocol


def test_the_paper_is_1920_trainings(monkeypatch):
    monkeypatch.setattr(Dataset, "of", lambda source, root, task: Dataset(source, source, ""))
    jobs = make_jobs([Grid.of(**Grid.paper())])
    assert len(jobs) == 6 * 2 * 8
    assert sum(len(job.wanted) for job in jobs) == 1920
    assert len({cell.id for job in jobs for cell in job.cells}) == 192


def test_workers_do_not_repeat_what_was_said_of_a_dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "cache"))
    folder = write_tu(tmp_path)
    edges = (folder / "RINGS_A.txt").read_text().splitlines()
    (folder / "RINGS_A.txt").write_text("\n".join(edges[:-1]))  # one without its reverse
    with pytest.warns(DataWarning, match="^MINE: "):
        dataset = Dataset.of(folder, name="MINE")
    warn_once.cache_clear()  # as in another process
    assert dataset.load().name == "MINE"  # A warning would be an error.


def test_both_splits_of_a_cell_are_one_job():
    (job,) = small_jobs(["nopool"], splits=["shared", "fresh"], runs=3)
    assert [(cell.protocol.split, n) for cell, n in job.wanted] == [
        ("shared", 0), ("shared", 1), ("shared", 2), ("fresh", 0), ("fresh", 1), ("fresh", 2),
    ]  # fmt: skip
    assert str(job) == "builtin hierarchical gcn nopool shared+fresh"


def test_both_backbones_are_one_job():
    (job,) = small_jobs(["nopool"], backbones=["hierarchical", "plain"], splits=["shared", "fresh"])
    assert len({cell.id for cell in job.cells}) == 4
    assert str(job) == "builtin hierarchical+plain gcn nopool shared+fresh"


@pytest.mark.parametrize(
    ("stack", "sizes"),
    [(None, [12]), (12, [12]), (11, [9, 3]), (6, [6, 6]), (5, [3] * 4), (2, [3] * 4)],
)
def test_what_does_not_fit_in_a_stack_is_several_jobs(stack, sizes):
    both = {"backbones": ["hierarchical", "plain"], "splits": ["shared", "fresh"]}
    grid = Grid.of(datasets=[Dataset.of(GRAPHS)], pools=["nopool"], runs=3, **both)
    jobs = make_jobs([grid], stack=stack)
    assert [len(job.wanted) for job in jobs] == sizes
    assert sum((job.wanted for job in jobs), ()) == make_jobs([grid])[0].wanted
    cells = [cell.id for job in jobs for cell in job.cells]
    assert len(set(cells)) == len(cells)  # claims and checkpoints are a cell's


def test_a_cell_is_known_by_configuration_and_data_not_by_runs():
    def identity(**settings):
        (job,) = small_jobs(["topkpool"], **settings)
        return job.cells[0].id

    assert identity() == identity(runs=7)
    others = [identity(), identity(lr=0.1), identity(splits="fresh"), identity(hidden=9),
              identity(seeds=1), identity(ratio=0.25)]  # fmt: skip
    assert len(set(others)) == len(others)
    (job,) = small_jobs(["nopool"])
    changed = Dataset.of(replace(GRAPHS, x=GRAPHS.x + 1))
    assert replace(job.cells[0], dataset=changed).id != job.cells[0].id


def test_settings_that_a_pooling_does_not_read_make_no_copies_of_its_cells():
    cells = [job.cells[0] for job in small_jobs(["nopool", "topkpool", "lcpool"],
                                                ratio=[0.25, 0.5], hops=[2, 3])]  # fmt: skip
    counts = Counter(cell.architecture.pool for cell in cells)
    assert counts == {"nopool": 1, "topkpool": 2, "lcpool": 4}
    assert {cell.architecture.hops for cell in cells if cell.architecture.pool == "topkpool"} == {3}


def test_a_configuration_reads_back():
    (job,) = small_jobs(["lcpool-star"], ratio=0.25, seeds=3)
    cell = job.cells[0]
    assert read_config(cell.config) == (cell.architecture, cell.protocol)
    first = [name for name, one in SETTINGS.items() if not one.later]
    assert list(json.loads(cell.config)) == sorted(first)


def test_cells_that_several_grids_name_are_trained_once():
    usual = {"datasets": [Dataset.of(GRAPHS)], "pools": ["nopool"]}
    (job,) = make_jobs([Grid.of(**usual, runs=2), Grid.of(**usual, runs=3)])
    assert [n for _, n in job.wanted] == [0, 1, 2]


def test_two_datasets_of_one_name_are_refused():
    two = [Dataset.of(GRAPHS), Dataset.of(builtin(seed=1, num_graphs=60))]
    with pytest.raises(ValueError, match="builtin"):
        make_jobs([Grid.of(datasets=two, pools="nopool")])


def test_a_dataset_that_changed_meanwhile_is_noticed():
    dataset = Dataset.of(GRAPHS)
    assert torch.equal(dataset.load().x, GRAPHS.x)
    with pytest.raises(ValueError, match="builtin"):
        replace(dataset, source=builtin(seed=1, num_graphs=60)).load()


def test_a_file_of_grids(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(
        'datasets = ["builtin"]\npools = ["lcpool"]\nruns = 3\n'
        "[[grid]]\nratio = 0.25\n[[grid]]\nratio = 0.75\nsplits = ['shared', 'fresh']\n"
    )
    first, second = read_grids(path, {"runs": 5})
    assert (first.runs, second.runs) == (5, 5)
    assert [first.settings[name] for name in ("ratio", "split")] == [(0.25,), ("fresh",)]
    assert [second.settings[name] for name in ("ratio", "pool", "split")] == [
        (0.75,), ("lcpool",), ("shared", "fresh"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("pols = ['lcpool']", "pools"),
        ("runs = 0", "runs"),
        ("pools = []", "pools"),
        ("grid = 3", "grid"),
        ("runs = ", "TOML"),
        ("epochs = 0", "epochs"),
        ('epochs = "5"', "epochs = 500"),
        ("runs = 2.0", "runs = 10"),
        ('runs = "ten"', "'ten'"),
        ("runs = true", "True"),
        ("hidden = 1.5", "1.5"),
        ("score_channels = 'wide'", "score_channels = 64"),
        ("lr = 'small'", "lr = 0.0005"),
        ("lr = false", "False"),
        ("norm = 3", 'norm = "batch"'),
        ('self_loops = "no"', "self_loops"),
        ("self_loops = 0", "self_loops"),
        ("datasets = 3", 'datasets = "PROTEINS"'),
        ("pools = [3]", 'pools = "lcpool"'),
        ("pools = [['lcpool']]", "pools"),
        ("pool = 'lcpool'\npools = 'lcpool'", "pools"),
        ("hops = [2, 4]", "hops"),
        ("seeds = ['a']", "seeds"),
    ],
)
def test_what_is_wrong_in_a_file(tmp_path, text, named):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"grid\.toml") as caught:
        read_grids(path, {})
    assert named in str(caught.value)


def test_numbers_of_all_kinds_are_numbers():
    grid = Grid.of(runs=np.int64(3), ratio=1, lr=np.float64(0.5), seeds=[np.int64(1)])
    assert grid.runs == 3
    assert [grid.settings[name] for name in ("ratio", "lr", "seed")] == [(1,), (0.5,), (1,)]
    assert [type(grid.settings[name][0]) for name in ("ratio", "lr", "seed")] == [int, float, int]
    assert Grid.of(score_channels=[None, 8]).settings["score_channels"] == (None, 8)


def test_jobs_say_what_tells_them_apart():
    one = {"datasets": [Dataset.of(GRAPHS)], "pools": ["lcpool"], "hidden": 8}
    jobs = make_jobs(
        [Grid.of(**one, ratio=0.25, epochs=3), Grid.of(**one), Grid.of(**one, seeds=1)]
    )
    assert [str(job) for job in jobs] == [
        "builtin hierarchical gcn lcpool (ratio=0.25, epochs=3) fresh",
        "builtin hierarchical gcn lcpool fresh",
        "builtin hierarchical gcn lcpool (seed=1) fresh",
    ]


def test_a_list_of_any_setting_is_a_product(monkeypatch):
    monkeypatch.setattr(Dataset, "of", lambda source, root, task: Dataset(source, source, ""))
    several = {name: MORE.get(name, one.choices[:2]) for name, one in SETTINGS.items()}
    for name, values in several.items():
        grid = Grid.of(**{"pool": "lcpool", name: list(values)})
        cells = [cell for job in make_jobs([grid]) for cell in job.cells]
        assert len({cell.id for cell in cells}) == 2, name
        found = [{**vars(cell.architecture), **vars(cell.protocol)}[name] for cell in cells]
        assert found == list(values), name


MORE = {
    "pool": ("lcpool", "topkpool"), "hidden": (8, 16), "poolings": (1, 2), "ratio": (1, 1.0),
    "score_channels": (None, 4), "self_loops": (True, False), "rescale": (False, True),
    "lr": (0.1, 0.2), "batch_size": (8, 16), "epochs": (3, 4), "patience": (5, 6), "seed": (0, 1),
    "depth": (1, 2), "readout": ("sum", "mean+std"), "dropout": (0.0, 0.5),
    "weight_decay": (0.0, 0.1), "metric": ("auto", "roc_auc"),
}  # fmt: skip


def test_a_plural_is_the_same_setting():
    for name, one in SETTINGS.items():
        if one.plural:
            assert Grid.of(**{one.plural: one.default}) == Grid.of(**{name: [one.default]})


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_edge_attributes_are_part_of_a_cell_that_reads_them():
    attributes = [torch.full((GRAPHS.edge_index.size(1), 2), value) for value in (0.0, 1.0)]
    several = [replace(GRAPHS, edge_attr=attr) for attr in attributes]
    datasets = [Dataset.of(graphs) for graphs in (GRAPHS, *several)]
    for conv, different in (("gcn", 1), ("gine", 3)):
        ids = {Cell(dataset, Architecture(conv=conv), Protocol()).id for dataset in datasets}
        assert len(ids) == different, conv
    changed = replace(datasets[1], source=several[1])
    with pytest.raises(ValueError, match="changed"):
        changed.load()


def test_the_default_metric_by_its_name_is_the_same_cell():
    (job,) = small_jobs(["nopool"], metric=["auto", "accuracy"], runs=2)
    (alone,) = small_jobs(["nopool"], runs=2)
    assert job.wanted == alone.wanted
    assert len(small_jobs(["nopool"], metric=["accuracy", "roc_auc"], runs=2)) == 2
