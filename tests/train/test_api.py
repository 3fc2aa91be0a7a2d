"""``train``: what goes in, what comes out, and what is refused."""

import inspect
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from lcpool.data import builtin
from lcpool.models import Architecture, PoolingOptions
from lcpool.train import Protocol, Trainer, train, train_runs
from lcpool.train.api import pick_device, stack_size

GRAPHS = builtin(num_graphs=40)
QUICK = {"runs": 2, "epochs": 2, "hidden": 8, "device": "cpu"}
FOREIGN = "torch_geometric.nn:TopKPooling"


@pytest.fixture
def own_poolings(tmp_path, monkeypatch):
    """A module ``own_poolings`` of the user's."""
    (tmp_path / "own_poolings.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_poolings", None)


OWN = """
import torch
from lcpool import LCPooling

class Pooling(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()

    def forward(self, x, edge_index, edge_attr, batch):
        return self.change(x), edge_index, edge_attr, batch

class Dropping(Pooling):
    def change(self, x):
        return torch.nn.functional.dropout(x, 0.5, self.training)

class Counting(Pooling):
    def __init__(self, channels):
        super().__init__(channels)
        self.register_buffer("ones", torch.ones(channels), persistent=False)

    def change(self, x):
        return x * self.ones

class Tied(Pooling):
    def __init__(self, channels):
        super().__init__(channels)
        self.one, self.other = (torch.nn.Linear(channels, channels) for _ in range(2))
        self.other.weight = self.one.weight

    def change(self, x):
        return self.other(self.one(x))

class Normed(LCPooling):
    def __init__(self, channels, ratio):
        super().__init__(channels, ratio)
        self.norm = torch.nn.BatchNorm1d(channels, affine=False)

    def forward(self, x, *args, **kwargs):
        return super().forward(self.norm(x), *args, **kwargs)
"""


def as_data(graphs, label=lambda y: y):
    return [Data(x=g.x, edge_index=g.edge_index, y=label(int(g.y))) for g in graphs.to_graphs()]


# --- what goes in


def test_the_defaults_are_the_papers():
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(train).parameters.items()
    }
    options, architecture, protocol = PoolingOptions(), Architecture(), Protocol()
    for given in (options, architecture, protocol):
        for name, value in vars(given).items():
            if name not in ("options", "max_epochs"):
                assert defaults[name] == value, name
    assert defaults["epochs"] == protocol.max_epochs
    assert defaults["runs"] == 10
    assert architecture.hidden == 128
    assert options.ratio == 0.5


def test_every_option_arrives():
    result = train(
        GRAPHS, "lcpool", "plain", "graphconv", 2, ratio=0.25, hidden=6, norm="layer", poolings=2,
        score_channels=3, self_loops=False, rescale=True, epochs=1, patience=7, lr=0.01,
        batch_size=9, split="fresh", seed=4, device="cpu", stack=1,
    )  # fmt: skip
    assert result.architecture == Architecture(
        backbone="plain", conv="graphconv", pool="lcpool", hidden=6, norm="layer", poolings=2,
        options=PoolingOptions(ratio=0.25, score_channels=3, self_loops=False, rescale=True),
    )  # fmt: skip
    assert result.protocol == Protocol(
        lr=0.01, batch_size=9, max_epochs=1, patience=7, split="fresh", seed=4
    )
    assert [run.number for run in result.runs] == [0, 1]
    assert (result.dataset, result.device, result.stack) == ("builtin", "CPU", 1)
    assert result.seconds > 0


def test_the_built_in_dataset_by_name():
    result = train("builtin", "nopool", runs=1, epochs=1, hidden=4, batch_size=240, device="cpu")
    assert result.dataset == "builtin"
    accuracy, _ = result.runs[0].test["accuracy"]
    assert (60 * accuracy) == pytest.approx(round(60 * accuracy))  # of 600 graphs, 60 test


def test_pyg_graphs_train_like_the_same_graphs_in_columns():
    expected = train(GRAPHS, "sagpool", **QUICK)
    listed = train(as_data(GRAPHS), "sagpool", **QUICK)
    drawn = train((graph for graph in as_data(GRAPHS)), "sagpool", **QUICK)
    assert listed.runs == drawn.runs == expected.runs
    assert listed.dataset == "graphs"


def test_on_epoch_sees_every_epoch_of_every_stack():
    seen = []
    train(
        GRAPHS, "nopool", **QUICK | {"runs": 3}, stack=2,
        on_epoch=lambda t: seen.append((t.epoch, [run.number for run in t.runs])),
    )  # fmt: skip
    assert seen == [(1, [0, 1]), (2, [0, 1]), (1, [2]), (2, [2])]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"runs": 0}, "'runs' must be at least 1, not 0"),
        ({"stack": 0}, "'stack' must be at least 1, not 0"),
        ({"stack": -1, "runs": 1}, "'stack' must be at least 1, not -1"),
        ({"patience": 0}, "'patience' must be at least 1"),
        ({"batch_size": 1}, "'batch_size' must be at least 2"),
        ({"lr": -1.0}, "'lr' must be positive"),
        ({"split": "other"}, "'shared' or 'fresh', not 'other'"),
        ({"pool": "toppool"}, "unknown pooling 'toppool'"),
        ({"backbone": "deep"}, "unknown backbone 'deep'"),
        ({"ratio": 1.5}, r"must lie in \(0, 1\]"),
        pytest.param(
            {"hidden": 0},
            "'hidden'",
        ),
    ],
)
def test_bad_options_are_refused_before_training(options, words, monkeypatch):
    monkeypatch.setattr(Trainer, "train_epoch", None)
    with pytest.raises(ValueError, match=words):
        train(GRAPHS, **{"pool": "nopool"} | QUICK | options)


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device(None) == pick_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="device 'cuda:1' was asked for, but torch sees no CUDA"):
        train(GRAPHS, **QUICK | {"device": "cuda:1"})
    with pytest.raises(RuntimeError, match=r"device type .*: abacus"):
        train(GRAPHS, **QUICK | {"device": "abacus"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device(None) == torch.device("cuda")
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        (as_data(GRAPHS, label=lambda y: 3), "graphs has 1 classes; training needs two"),
        (as_data(GRAPHS, label=lambda y: None), "graphs has 0 classes; training needs two"),
        (as_data(GRAPHS)[:5], "needs at least 6 graphs, not 5"),
        ([], "expected PyG Data objects, got nothing"),
    ],
)
def test_graphs_that_cannot_be_trained_on(graphs, words):
    with pytest.raises(ValueError, match=words):
        train(graphs, "nopool", **QUICK)


@pytest.mark.parametrize("option", ["seed", "hidden", "epochs"])
def test_numbers_may_be_numpys(option):
    """``for seed in np.arange(3)`` is how people write it."""
    options = QUICK | {"seed": 1}
    expected = train(GRAPHS, "nopool", **options).runs
    assert train(GRAPHS, "nopool", **options | {option: np.int64(options[option])}).runs == expected


# --- stacks


@pytest.mark.parametrize("pool", ["nopool", "lcpool"])
def test_a_limit_of_the_stack_does_not_change_the_result(pool):
    options = QUICK | {"runs": 3, "epochs": 4, "patience": 1, "lr": 0.01, "split": "fresh"}
    whole = train(GRAPHS, pool, **options)
    assert whole.stack == 3
    for limit in (1, 2, 5):
        limited = train(GRAPHS, pool, **options, stack=limit)
        assert limited.stack == min(limit, 3)
        assert limited.runs == whole.runs
        for name, value in limited.model.network.state_dict().items():
            assert torch.equal(value, whole.model.network.state_dict()[name])


def test_ten_runs_are_one_stack_and_more_are_several():
    architecture = Architecture(pool="nopool", hidden=8)
    found = [stack_size(GRAPHS, architecture, Protocol(), runs, None) for runs in (1, 10, 23)]
    assert found == [1, 10, 10]
    assert stack_size(GRAPHS, architecture, Protocol(), 23, 15) == 15


def test_what_cannot_be_stacked_trains_one_run_at_a_time_and_says_so():
    options = QUICK | {"epochs": 3, "lr": 0.01}
    with pytest.warns(UserWarning, match=r"one run at a time: TopKPooling.* not known beforehand"):
        result = train(GRAPHS, FOREIGN, **options)
    assert result.stack == 1
    assert result.architecture.pool == FOREIGN
    assert [run.number for run in result.runs] == [0, 1]
    assert result.runs[0].curves != result.runs[1].curves
    protocol = Protocol(max_epochs=3, lr=0.01)
    alone = train_runs(GRAPHS, result.architecture, protocol, [1], torch.device("cpu"))
    assert alone.runs == result.runs[1:]
    assert result.model.predict(GRAPHS).shape == (40,)


def test_a_single_run_of_what_cannot_be_stacked_needs_no_warning():
    assert train(GRAPHS, FOREIGN, **QUICK | {"runs": 1}).stack == 1  # warnings are errors here
    with pytest.warns(UserWarning, match="one run at a time"):
        assert train(GRAPHS, FOREIGN, **QUICK, stack=2).stack == 1


@pytest.mark.usefixtures("own_poolings")
@pytest.mark.parametrize(
    "pool",
    [
        pytest.param(
            "Counting",
            marks=pytest.mark.xfail(
                strict=True, raises=RuntimeError, reason="a buffer that is not saved is unexpected"
            ),
        ),
        pytest.param(
            "Tied",
            marks=pytest.mark.xfail(
                strict=True, raises=RuntimeError, reason="of tied weights only one name is kept"
            ),
        ),
        pytest.param(
            "Normed",
            marks=pytest.mark.xfail(
                strict=True,
                raises=RuntimeError,
                reason="buffers without parameters are not stacked",
            ),
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:training one run at a time")
def test_poolings_of_the_users_own_give_a_network_at_the_end(pool):
    result = train(GRAPHS, f"own_poolings:{pool}", **QUICK)
    assert result.model.predict(GRAPHS).shape == (40,)
    assert train(GRAPHS, f"own_poolings:{pool}", **QUICK, stack=1).runs == result.runs


@pytest.mark.usefixtures("own_poolings")
@pytest.mark.filterwarnings("ignore:training one run at a time")
@pytest.mark.xfail(strict=True, reason="what is drawn inside of a network does not follow the seed")
def test_dropout_in_a_pooling_of_the_users_own_follows_the_seed():
    first, second = (train(GRAPHS, "own_poolings:Dropping", **QUICK) for _ in range(2))
    assert first.runs == second.runs


# --- what comes out


@pytest.mark.parametrize("pool", ["nopool", "lcpool"])
@pytest.mark.parametrize("stack", [1, 3])
def test_the_model_is_the_best_run_at_its_chosen_epoch(pool, stack):
    """Its accuracies on validation and test graphs are those of the run, of no other."""
    result = train(
        GRAPHS, pool, **QUICK | {"runs": 3, "epochs": 5, "lr": 0.03, "batch_size": 8}, stack=stack
    )
    best = max(
        result.runs, key=lambda r: (r.choices["accuracy"].accuracy, -r.choices["accuracy"].loss)
    )
    split = result.protocol.split_of(len(GRAPHS), best.number)
    chosen = best.choices["accuracy"]
    for index, expected in (
        (split.val, (chosen.accuracy, chosen.loss)),
        (split.test, best.test["accuracy"]),
    ):
        graphs = GRAPHS.subset(index)
        probabilities = result.model.probabilities(graphs)
        accuracy = (probabilities.argmax(-1) == graphs.y).double().mean()
        loss = -probabilities[torch.arange(len(graphs)), graphs.y].log().mean()
        assert (float(accuracy), float(loss)) == pytest.approx(expected, rel=1e-4)
    others = [r for r in result.runs if r is not best]
    assert all(r.choices["accuracy"].loss != chosen.loss for r in others)


def test_a_training_in_which_all_runs_diverge_says_so():
    result = train(replace(GRAPHS, x=GRAPHS.x * math.inf), "nopool", **QUICK)
    assert [run.diverged for run in result.runs] == [1, 1]
    assert result.accuracies().tolist() == []
    assert math.isnan(result.mean())
    assert math.isnan(result.std())


def test_the_same_call_gives_the_same_bits_and_another_seed_others():
    first, again, other = (train(GRAPHS, "lcpool", **QUICK, seed=seed) for seed in (0, 0, 1))
    assert first.runs == again.runs
    for name, value in first.model.network.state_dict().items():
        assert torch.equal(value, again.model.network.state_dict()[name])
    for run, differs in zip(first.runs, other.runs, strict=True):
        assert run.curves != differs.curves
