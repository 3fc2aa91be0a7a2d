"""``train``: what goes in, what comes out, and what is refused."""

import inspect
import math
import random
import re
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from lcpool.data import DataWarning, builtin, checks, load_dataset, split
from lcpool.models import Architecture
from lcpool.train import Model, Protocol, Trainer, checkpoint, train, train_runs
from lcpool.train.device import pick_device, stack_size

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
import random
import numpy as np
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

class Shared(Pooling):
    def __init__(self, channels):
        super().__init__(channels)
        self.one = self.other = torch.nn.Linear(channels, channels)

    def change(self, x):
        return self.other(self.one(x))

class Drawing(Pooling):
    def change(self, x):
        return x * random.random() * np.random.random() * torch.rand(())

class DroppingLC(LCPooling):
    def forward(self, x, *args, **kwargs):
        x = torch.nn.functional.dropout(x, 0.5, self.training)
        return super().forward(x, *args, **kwargs)

class TiedScore(LCPooling):
    def __init__(self, channels, ratio):
        super().__init__(channels, ratio)
        self.score.lin_x.weight = self.score.lin_fd.weight

class Summing(LCPooling):
    def __init__(self, channels, ratio):
        super().__init__(channels, ratio)
        self.register_buffer("steps", torch.tensor(0.0), persistent=False)

    def forward(self, x, *args, **kwargs):
        if self.training:
            self.steps += 1
        return super().forward(x * (1 + self.steps), *args, **kwargs)

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
    for given in (Architecture(), Protocol()):
        for name, value in vars(given).items():
            assert defaults[name] == value, name
            assert f"{name}: " in train.__doc__
    assert defaults["runs"] == 10
    assert (defaults["hidden"], defaults["ratio"], defaults["epochs"]) == (128, 0.5, 500)


def test_every_option_arrives():
    result = train(
        GRAPHS, "lcpool", "plain", "graphconv", 2, ratio=0.25, hidden=6, norm="layer", poolings=2,
        score_channels=3, self_loops=False, rescale=True, hops=2, epochs=1, patience=7, lr=0.01,
        batch_size=9, split="fresh", seed=4, device="cpu", stack=1,
    )  # fmt: skip
    assert result.architecture == Architecture(
        backbone="plain", conv="graphconv", pool="lcpool", hidden=6, norm="layer", poolings=2,
        ratio=0.25, score_channels=3, self_loops=False, rescale=True, hops=2,
    )  # fmt: skip
    assert result.protocol == Protocol(
        lr=0.01, batch_size=9, epochs=1, patience=7, split="fresh", seed=4
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
        ({"runs": 0}, "'runs'"),
        ({"epochs": 0}, "'epochs'"),
        ({"stack": 0}, "'stack'"),
        ({"stack": -1, "runs": 1}, "'stack'"),
        ({"patience": 0}, "'patience'"),
        ({"batch_size": 1}, "'batch_size'"),
        ({"lr": -1.0}, "'lr'"),
        ({"split": "other"}, "'other'.*shared, fresh"),
        ({"pool": "toppool"}, "'toppool'"),
        ({"backbone": "deep"}, "'deep'"),
        ({"epoch": 1}, "'epoch'.*epochs"),
        ({"seeds": 1}, "'seeds'.*seed"),
        ({"hidden": "8"}, "'hidden'"),
        ({"hidden": [8, 16]}, "lcpool bench"),
        ({"pool": "nopool,lcpool"}, "lcpool bench"),
        ({"ratio": "0.25,0.5"}, "lcpool bench"),
        ({"score_channels": 0}, "'score_channels'"),
        ({"seed": 2**32}, "'seed'"),
        ({"stack": "2"}, "'stack'"),
        ({"stack": 1.5}, "'stack'"),
        ({"ratio": 1.5}, "'ratio'.*1.5"),
        ({"hidden": 0}, "'hidden'"),
    ],
)
def test_bad_options_are_refused_before_training(options, words, monkeypatch):
    monkeypatch.setattr(Trainer, "train_epoch", None)
    with pytest.raises(ValueError, match=words):
        train(GRAPHS, **{"pool": "nopool"} | QUICK | options)


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device(None) == pick_device("cpu") == torch.device("cpu")
    for device in ("cuda:1", "abacus", "meta", 0, None.__class__):
        with pytest.raises(ValueError, match="device"):
            train(GRAPHS, **QUICK | {"device": device})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device(None) == torch.device("cuda")
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        (as_data(GRAPHS, label=lambda y: 3), r"graphs.*one class"),
        (as_data(GRAPHS, label=lambda y: None), r"graphs.*labels"),
        (as_data(GRAPHS)[:5], r"\b6\b.*\b5\b"),
        ([], "no graphs"),
    ],
)
def test_graphs_that_cannot_be_trained_on(graphs, words):
    with pytest.raises(ValueError, match=words):
        train(graphs, "nopool", **QUICK)


@pytest.mark.parametrize("pool", ["lcpool", "mincutpool", "torch_geometric.nn:SAGPooling"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_batches_of_graphs_without_nodes_train(pool):
    graphs, none = as_data(GRAPHS), torch.empty(2, 0, dtype=torch.long)
    for n, graph in enumerate(graphs):
        if n % 4:
            graphs[n] = Data(x=graph.x[: n % 2], edge_index=none, y=graph.y)
    result = train(graphs, pool, **QUICK, batch_size=2)
    assert all(run.diverged is None and run.epochs == 2 for run in result.runs)
    assert all(value.isfinite().all() for value in result.model.network.state_dict().values())


def test_numbers_may_be_numpys():
    """``for seed in np.arange(3)`` is how people write it."""
    options = {"seed": 1, "hidden": 8, "epochs": 2}
    numpys = {name: np.int64(value) for name, value in options.items()}
    found, expected = (train(GRAPHS, "nopool", **QUICK | of) for of in (numpys, options))
    assert found.runs == expected.runs


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
    with pytest.warns(UserWarning, match="TopKPooling"):
        result = train(GRAPHS, FOREIGN, **options)
    assert result.stack == 1
    assert result.architecture.pool == FOREIGN
    assert [run.number for run in result.runs] == [0, 1]
    assert result.runs[0].curves != result.runs[1].curves
    protocol = Protocol(epochs=3, lr=0.01)
    alone = train_runs(GRAPHS, result.architecture, protocol, [1], torch.device("cpu"))
    assert alone.runs == result.runs[1:]
    assert result.model.predict(GRAPHS).shape == (40,)


def test_a_single_run_of_what_cannot_be_stacked_needs_no_warning():
    assert train(GRAPHS, FOREIGN, **QUICK | {"runs": 1}).stack == 1  # warnings are errors here
    with pytest.warns(UserWarning, match="TopKPooling"):
        assert train(GRAPHS, FOREIGN, **QUICK, stack=2).stack == 1


DOCS = Path(__file__).parents[2] / "docs" / "experiments.md"


def example_with(word):
    """The example of the documentation in which a word occurs."""
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (found,) = (block for block in blocks if word in block)
    return found


def test_the_documented_adapter_makes_edge_pooling_fit(tmp_path, monkeypatch):
    (tmp_path / "documented.py").write_text(example_with("EdgePooling"))
    monkeypatch.syspath_prepend(tmp_path)
    result = train(GRAPHS, "documented:MyPool", runs=1, epochs=1, hidden=8, device="cpu")
    assert result.runs[0].epochs == 1
    sys.modules.pop("documented", None)


def test_the_documented_way_to_watch_a_training(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"train": lambda _, **given: train(GRAPHS, **given | QUICK)}
    exec(example_with("on_epoch"), names)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["1", "2"]
    assert Path("checkpoints").is_dir()


@pytest.mark.usefixtures("own_poolings")
@pytest.mark.parametrize("pool", ["Counting", "Tied", "Shared", "Normed", "Summing", "TiedScore"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_poolings_of_the_users_own_give_a_network_at_the_end(pool, tmp_path):
    result = train(GRAPHS, f"own_poolings:{pool}", **QUICK)
    assert result.stack == 1
    assert train(GRAPHS, f"own_poolings:{pool}", **QUICK, stack=1).runs == result.runs
    best = max(
        result.runs, key=lambda r: (r.choices["accuracy"].value, -r.choices["accuracy"].loss)
    )
    test = GRAPHS.subset(result.protocol.split_of(GRAPHS, best.number).test)
    result.model.save(tmp_path / "model.pt")
    for model in (result.model, Model.load(tmp_path / "model.pt", trust=True)):
        chosen = model.probabilities(test)
        loss = -chosen[torch.arange(len(test)), test.y].log().mean()
        assert float(loss) == pytest.approx(best.test["accuracy"][1], rel=1e-5)


@pytest.mark.usefixtures("own_poolings")
@pytest.mark.parametrize(
    ("pool", "words"),
    [
        ("Normed", r"'pools\.0\.norm'.*BatchNorm1d"),
        ("Summing", r"'pools\.0'.*Summing"),
        ("TiedScore", r"'pools\.0\.score\.lin_x\.weight'"),
    ],
)
def test_what_a_stack_would_get_wrong_is_not_stacked(pool, words):
    with pytest.warns(UserWarning, match=words):
        train(GRAPHS, f"own_poolings:{pool}", **QUICK)


@pytest.mark.usefixtures("own_poolings")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("pool", ["Dropping", "Drawing", "DroppingLC"])
def test_what_a_pooling_draws_follows_the_seed_alone(pool):
    """Whatever the caller draws before and between, and whatever was drawn is left as it was."""
    found = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed), np.random.seed(global_seed), random.seed(global_seed)
        before = torch.get_rng_state(), np.random.random(), random.random()
        torch.manual_seed(global_seed), np.random.seed(global_seed), random.seed(global_seed)
        result = train(GRAPHS, f"own_poolings:{pool}", **QUICK, on_epoch=lambda _: None)
        assert torch.equal(torch.get_rng_state(), before[0])
        assert (np.random.random(), random.random()) == before[1:]
        found.append(result.runs)
    assert found[0] == found[1]
    assert found[0][0].curves != found[0][1].curves
    other = train(GRAPHS, f"own_poolings:{pool}", **QUICK, seed=1)
    assert other.runs[0].curves != found[0][0].curves


@pytest.mark.usefixtures("own_poolings")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_alone_draws_what_it_draws_after_others():
    whole = train(GRAPHS, "own_poolings:Dropping", **QUICK)
    alone = train_runs(GRAPHS, whole.architecture, whole.protocol, [1], torch.device("cpu"))
    assert alone.runs == whole.runs[1:]


@pytest.mark.usefixtures("own_poolings")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("pool", ["Dropping", "Drawing", "DroppingLC", "Summing"])
def test_what_is_drawn_or_counted_goes_on_after_an_interruption(pool, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", -1.0)
    options = QUICK | {"epochs": 4}
    expected = train(GRAPHS, f"own_poolings:{pool}", **options).runs
    for epoch in (1, 2, 3):  # every time one epoch further

        def stop(trainer, epoch=epoch):
            assert trainer.epoch == epoch
            torch.rand(3)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            train(GRAPHS, f"own_poolings:{pool}", **options, checkpoints=tmp_path, on_epoch=stop)
    assert train(GRAPHS, f"own_poolings:{pool}", **options, checkpoints=tmp_path).runs == expected


@pytest.mark.usefixtures("own_poolings")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_pooling_that_was_changed_starts_over(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", -1.0)
    epochs = []

    def stop(trainer):
        epochs.append(trainer.epoch)
        raise ZeroDivisionError

    for change in ("", "", "# a thought"):
        source = tmp_path / "own_poolings.py"
        source.write_text(source.read_text() + change)
        with pytest.raises(ZeroDivisionError):
            train(GRAPHS, "own_poolings:Tied", **QUICK, checkpoints=tmp_path, on_epoch=stop)
    assert epochs == [1, 2, 1]


# --- what comes out


@pytest.mark.parametrize("pool", ["nopool", "lcpool"])
@pytest.mark.parametrize("stack", [1, 3])
def test_the_model_is_the_best_run_at_its_chosen_epoch(pool, stack):
    """Its accuracies on validation and test graphs are those of the run, of no other."""
    result = train(
        GRAPHS, pool, **QUICK | {"runs": 3, "epochs": 5, "lr": 0.03, "batch_size": 8}, stack=stack
    )
    best = max(
        result.runs, key=lambda r: (r.choices["accuracy"].value, -r.choices["accuracy"].loss)
    )
    split = result.protocol.split_of(GRAPHS, best.number)
    chosen = best.choices["accuracy"]
    for index, expected in (
        (split.val, (chosen.value, chosen.loss)),
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
    assert result.best is None
    with pytest.raises(ValueError, match=r"\b2\b"):
        result.model.predict(GRAPHS)
    run = result.to_dict()["runs"][0]
    assert run["diverged"] == 1
    assert run["chosen"] == run["test"] == {"by_accuracy": None, "by_loss": None}


@pytest.mark.parametrize("stack", [1, 2])
def test_a_run_that_diverged_gives_the_network_of_the_epoch_chosen_before(stack):
    """Run 0 has the best validation accuracy, and then diverges."""

    def spoil(trainer):
        if trainer.epoch == 1 and trainer.runs[0].number == 0:
            trainer.runs[0].choices["accuracy"].value = 2.0
            with torch.no_grad():
                trainer.stack.tensors()["pre.0.weight"][0] = math.nan

    result = train(GRAPHS, "nopool", **QUICK, stack=stack, on_epoch=spoil)
    assert [run.diverged for run in result.runs] == [2, None]
    once = replace(result.protocol, epochs=1)
    alone = train_runs(GRAPHS, result.architecture, once, [0], torch.device("cpu"))
    assert torch.equal(result.model.probabilities(GRAPHS), alone.model.probabilities(GRAPHS))
    assert len(result.accuracies()) == 2


def test_the_same_call_gives_the_same_bits_and_another_seed_others():
    first, again, other = (train(GRAPHS, "lcpool", **QUICK, seed=seed) for seed in (0, 0, 1))
    assert first.runs == again.runs
    for name, value in first.model.network.state_dict().items():
        assert torch.equal(value, again.model.network.state_dict()[name])
    for run, differs in zip(first.runs, other.runs, strict=True):
        assert run.curves != differs.curves


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_integers_are_the_categories_of_the_training_data(tmp_path):
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    rows = [
        Data(x=torch.tensor([[n % 5, 0], [3, 1], [0, 1]]), edge_index=edges, y=n % 2)
        for n in range(20)
    ]
    options = {"runs": 1, "epochs": 1, "hidden": 8, "device": "cpu"}
    model = train(rows, "nopool", **options).model
    model.save(tmp_path / "model.pt")
    for one in (model, Model.load(tmp_path / "model.pt")):
        assert one.categories == (5, 2)
        expected = one.outputs(load_dataset(rows))
        assert torch.equal(one.outputs(rows), expected)
        # A part of the graphs has fewer categories, and other graphs one that is not known.
        torch.testing.assert_close(one.outputs(rows[:2]), expected[:2])
        assert len(one.predict([Data(x=torch.tensor([[9, 0]]), edge_index=edges[:, :0])])) == 1
        other = replace(load_dataset(rows), categories=(4, 3))
        with pytest.raises(ValueError, match=r"\(5, 2\) categories"):
            one.predict(other)


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
@pytest.mark.parametrize("x", [torch.ones(3, 2), torch.tensor([[4], [0], [1]]), None])
def test_integers_of_edges_are_categories_whatever_the_nodes_have(tmp_path, x):
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    kinds = [torch.tensor([n % 5, n % 5, 3, 3]) for n in range(20)]
    rows = [
        Data(x=x, edge_index=edges, edge_attr=kind, y=n % 2, num_nodes=3)
        for n, kind in enumerate(kinds)
    ]
    graphs = load_dataset(rows)
    assert (graphs.edge_categories, graphs.num_edge_features) == ((5,), 5)
    assert graphs.edge_attr.argmax(1).tolist() == torch.cat(kinds).tolist()
    train(graphs, "topkpool", conv="gine", **QUICK).model.save(tmp_path / "model.pt")
    model = Model.load(tmp_path / "model.pt")
    expected = model.outputs(graphs)
    assert torch.equal(model.outputs(rows), expected)
    torch.testing.assert_close(model.outputs(rows[:2]), expected[:2])  # with fewer categories
    with pytest.raises(ValueError, match=r"\(5,\) categories"):
        model.predict(replace(graphs, edge_categories=(3, 2)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ["gcn", "(fresh)"]),
        ({"conv": "gine", "split": "shared"}, ["(shared)"]),
        ({"conv": "gin", "split": "predefined"}, ["gin"]),
        ({"conv": "gine", "split": "predefined"}, []),
    ],
)
def test_what_the_data_has_and_the_training_does_not_use_is_said(settings, words):
    attributes = torch.ones(GRAPHS.edge_index.size(1), 2)
    data = replace(GRAPHS, edge_attr=attributes, splits=(split(len(GRAPHS), 0),), name="both")
    checks.warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train(data, "nopool", **QUICK, **settings)
    assert len(said) == len(words)
    for one, word in zip(said, words, strict=True):
        assert issubclass(one.category, DataWarning)
        assert str(one.message).startswith("both: ")
        assert word in str(one.message)
