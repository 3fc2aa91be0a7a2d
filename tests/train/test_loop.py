"""The training loop: who stops when, what is looked at, and what is reported."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from lcpool.data import GraphSet, Split, builtin
from lcpool.graph.edges import Edges
from lcpool.graph.sizes import Sizes
from lcpool.models import POOLINGS, Architecture, Backbone, Output
from lcpool.train import RULES, Protocol, Run, Trainer, train_runs
from lcpool.train.checkpoint import Checkpoint
from lcpool.train.loop import Evaluation, initial_model, run_losses, training
from lcpool.train.tasks import Classes

GRAPHS = builtin(num_graphs=60)
CPU = torch.device("cpu")
OPTIONS = {"lr": 0.01, "batch_size": 16, "epochs": 4, "patience": 2, "split": "fresh"}
LENGTHS = (4, 1, 3)
EXACT = ("nopool", "sagpool", "lcpool")
RANDOM = ("random", "randomassign")  # a stack draws other numbers than its runs alone
NAN, INF = math.nan, math.inf


@pytest.fixture
def leaving(monkeypatch):
    """Three runs leave the stack after 4, 1 and 3 epochs, whatever their figures."""
    monkeypatch.setattr(Run, "ended", lambda run, _: run.epochs >= LENGTHS[run.number])


def make(pool="nopool", runs=3, **protocol):
    architecture = Architecture(pool=pool, hidden=8)
    return Trainer(GRAPHS, architecture, Protocol(**protocol), range(runs))


def finish(trainer, on_epoch=None):
    for _ in training(trainer, Checkpoint(None, {}), pytest.fail):
        if on_epoch is not None:
            on_epoch(trainer)
    return trainer


def easy():
    """The graphs with other classes, and a feature that tells them."""
    y = torch.arange(60) // 2 % 2
    told = (2.0 * y - 1).repeat_interleave(GRAPHS.node_counts)
    return replace(GRAPHS, x=torch.cat([told.unsqueeze(-1), GRAPHS.x], dim=1), y=y)


def spoil(trainer, position):
    """Put NaN into the parameters of the run at a place of the stack."""
    with torch.no_grad():
        trainer.stack.tensors()["pre.0.weight"][position] = NAN


class Told(Classes):
    """Every metric is the number that the outputs have."""

    def measure(self, metric, outputs, target):
        return outputs[:, 0, 0]

    def final(self, metric, outputs, target):
        return float(outputs[0, 0])


class Scripted(Trainer):
    """Each run validates as its script says, ``(accuracy, loss)`` an epoch.

    Training an epoch writes its number and the run's into the parameters, and a test gives back
    what it finds there, in the place of accuracy and loss.
    """

    def __init__(self, *script, **protocol):
        architecture = Architecture(pool="nopool", hidden=2)
        super().__init__(GRAPHS, architecture, Protocol(**protocol), range(len(script)))
        self.script, self.train_losses = script, {}
        self.task = Told("classes", "accuracy")

    @property
    def marks(self):
        return self.stack.tensors()["post.3.bias"]

    def _train(self):
        with torch.no_grad():
            self.marks.copy_(torch.tensor([[self.epoch + 1.0, a] for a in self.active]))
        losses = [self.train_losses.get((a, self.epoch + 1), 1.0) for a in self.active]
        return torch.tensor(losses, dtype=torch.float64)

    def _evaluate(self, indices, total=False):
        if torch.equal(indices[0], self.splits[self.active[0]].test):
            epoch, run = self.marks.detach().double().unbind(1)
            return self._evaluated(run, epoch, indices)
        figures = [self.script[a][self.epoch] for a in self.active]
        accuracy, loss = torch.tensor(figures, dtype=torch.float64).unbind(1)
        return self._evaluated(loss, accuracy, indices)

    def _evaluated(self, loss, accuracy, indices):
        target = torch.stack([self.graphs.targets[index] for index in indices])
        return Evaluation(loss, accuracy.view(-1, 1, 1).expand(*target.shape, 2), target)

    def lengths(self):
        return [run.epochs for run in self.runs]

    def chosen(self, rule):
        return [run.choices[rule].epoch for run in self.runs]


def script(accuracies, losses=None):
    """Figures of 20 epochs; the last ones given repeat, and losses follow accuracies."""
    losses = losses or [1 - accuracy for accuracy in accuracies]
    accuracies, losses = ([*given, *[given[-1]] * 20][:20] for given in (accuracies, losses))
    return list(zip(accuracies, losses, strict=True))


def best_at(epoch):
    """Figures that get better up to an epoch, and are worst from then on."""
    return script([e / 20 for e in range(1, epoch + 1)] + [0.0])


# --- early stopping


@pytest.mark.parametrize("patience", [1, 3, 7])
def test_a_run_that_never_improves_ends_after_patience_epochs(patience):
    trainer = finish(Scripted(script([0.5]), epochs=20, patience=patience))
    assert trainer.lengths() == [1 + patience]


def test_a_run_that_always_improves_ends_with_the_last_epoch():
    rising = script([e / 20 for e in range(20)])
    assert finish(Scripted(rising, epochs=12, patience=1)).lengths() == [12]


@pytest.mark.parametrize(
    ("accuracies", "losses", "by_accuracy", "by_loss"),
    [
        ([0.1, 0.9, 0.1], [0.9, 0.8, 0.7, 0.6, 0.2, 0.9], 2, 5),
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.1], [0.9, 0.1, 0.9], 5, 2),
        ([0.1, 0.2, 0.9, 0.1], [0.9, 0.8, 0.1, 0.9], 3, 3),
        ([0.5, 0.4, 0.4, 0.9, 0.1], [0.2], 4, 1),  # better at the last moment
    ],
)
def test_a_run_ends_patience_epochs_after_the_later_best_epoch(
    accuracies, losses, by_accuracy, by_loss
):
    trainer = finish(Scripted(script(accuracies, losses), epochs=20, patience=3))
    assert trainer.chosen("accuracy") == [by_accuracy]
    assert trainer.chosen("loss") == [by_loss]
    assert trainer.lengths() == [max(by_accuracy, by_loss) + 3]


def test_a_closed_rule_does_not_reopen():
    """Losses fall until epoch 8; the accuracy of epoch 7 is the best, but comes too late."""
    accuracies = [0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 1.0, 0.4]
    losses = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.9]
    trainer = finish(Scripted(script(accuracies, losses), epochs=20, patience=3))
    assert trainer.chosen("accuracy") == [1]
    assert trainer.chosen("loss") == [8]
    assert trainer.lengths() == [11]
    assert trainer.runs[0].test == {"accuracy": (1.0, 0.0), "loss": (8.0, 0.0)}


def test_only_a_lower_loss_makes_an_equal_accuracy_better():
    falling = script([0.5], [0.9, 0.8, 0.7, 0.6, 0.9])
    level = script([0.5], [0.6, 0.6, 0.7, 0.6, 0.9])
    trainer = finish(Scripted(falling, level, epochs=20, patience=2))
    assert trainer.chosen("accuracy") == [4, 1]
    assert trainer.lengths() == [6, 3]


def test_runs_stop_independently_and_leave_the_stack():
    peaks = (4, 1, 6, 2)
    scripts = [best_at(peak) for peak in peaks]
    trainer = Scripted(*scripts, epochs=20, patience=2)
    active, stacked = [], []
    while not trainer.ended:
        trainer.train_epoch()
        active.append(list(trainer.active))
        stacked.append({value.size(0) for value in trainer.stack.tensors().values()})
    assert active == [
        [0, 1, 2, 3], [0, 1, 2, 3], [0, 2, 3], [0, 2], [0, 2], [2], [2], [],
    ]  # fmt: skip
    assert stacked[:-1] == [{4}, {4}, {3}, {2}, {2}, {1}, {1}]
    assert trainer.lengths() == [peak + 2 for peak in peaks]


def test_curves_hold_the_figures_of_every_epoch():
    trainer = finish(Scripted(script([0.5, 0.25], [0.75, 0.875]), epochs=20, patience=2))
    assert trainer.runs[0].curves == [(1.0, 0.75, 0.5), (1.0, 0.875, 0.25), (1.0, 0.875, 0.25)]


# --- what is reported


def test_each_run_is_tested_with_its_own_parameters_of_the_chosen_epochs():
    scripts = [
        script([0.1, 0.9, 0.1], [0.9, 0.8, 0.7, 0.1, 0.9]),
        script([0.9, 0.1], [0.1, 0.9]),
        script([0.1, 0.2, 0.9, 0.1], [0.1, 0.9]),
    ]
    trainer = finish(Scripted(*scripts, epochs=20, patience=2))
    assert [run.test["accuracy"] for run in trainer.runs] == [(2.0, 0.0), (1.0, 1.0), (3.0, 2.0)]
    assert [run.test["loss"] for run in trainer.runs] == [(4.0, 0.0), (1.0, 1.0), (1.0, 2.0)]


def test_the_accuracy_reported_is_that_of_the_chosen_epoch_and_not_the_best():
    """Measured here after every epoch, with plain networks. Test graphs have the wrong label: the
    better a network does on all others, the worse on them."""
    protocol = Protocol(lr=0.005, batch_size=16, epochs=8, patience=8, split="shared")
    graphs, architecture = easy(), Architecture(pool="nopool", hidden=8)
    test = protocol.split_of(graphs, run=0).test
    graphs = replace(graphs, y=graphs.y.index_copy(0, test, 1 - graphs.y[test]))
    trainer = Trainer(graphs, architecture, protocol, range(3))
    batch, seen = graphs.batch(test), [[], [], []]
    while not trainer.ended:
        trainer.train_epoch()
        for run, accuracies in enumerate(seen):
            network = Backbone.of(graphs, architecture).eval()
            network.load_state_dict({n: v[run] for n, v in trainer.stack.tensors().items()})
            accuracies.append(
                float((network(batch).logits.argmax(-1) == batch.target).double().mean())
            )
    trainer.test()
    for run, accuracies in zip(trainer.runs, seen, strict=True):
        for rule in RULES:
            assert run.test[rule][0] == pytest.approx(accuracies[run.choices[rule].epoch - 1])
    reported = [run.test["accuracy"][0] for run in trainer.runs]
    assert max(map(max, seen)) > max(reported)


@pytest.mark.usefixtures("leaving")
def test_test_graphs_are_not_touched_before_the_end(monkeypatch):
    trainer, batches = make(**OPTIONS), GraphSet.batches
    looked = []  # (training, run, graphs) since the last epoch

    def spy(graphs, parts):
        for index in parts:
            rows = index.view(len(trainer.active), -1).tolist()
            training = trainer.stack.model.training
            looked.extend((training, a, row) for a, row in zip(trainer.active, rows, strict=True))
        return batches(graphs, parts)

    def count(training, run):
        return Counter(g for t, a, row in looked if (t, a) == (training, run) for g in row)

    monkeypatch.setattr(GraphSet, "batches", spy)
    lengths = []
    while not trainer.ended:
        active = list(trainer.active)
        trainer.train_epoch()
        for run in active:
            assert count(True, run) == Counter(trainer.splits[run].train.tolist())
            assert count(False, run) == Counter(trainer.splits[run].val.tolist())
        assert {a for _, a, _ in looked} == set(active)  # runs that have ended cost nothing
        lengths.append(len(active))
        looked.clear()
    assert lengths == [3, 2, 2, 1]
    trainer.test()
    for run in range(3):
        assert not count(True, run)
        assert count(False, run) == Counter(2 * trainer.splits[run].test.tolist())


def test_test_figures_are_those_of_evaluation_mode_over_all_test_graphs(monkeypatch):
    monkeypatch.setattr("lcpool.train.loop.EVAL_BATCH", 4)  # 6 test graphs: 4, and 2
    trainer = finish(make(runs=2, epochs=2))
    for position, run in enumerate(trainer.runs):
        network = Backbone.of(GRAPHS, Architecture(pool="nopool", hidden=8)).eval()
        network.load_state_dict({n: v[position] for n, v in trainer.best["loss"].items()})
        test = GRAPHS.batch(trainer.splits[position].test)
        logits = network(test).logits.detach()
        accuracy, loss = run.test["loss"]
        assert accuracy == pytest.approx(float((logits.argmax(-1) == test.target).float().mean()))
        assert loss == pytest.approx(float(F.cross_entropy(logits, test.target)), rel=1e-5)


# --- one class for everything


def few_of_one_class():
    """The graphs with other classes: every fourth is of the smaller, and labels are 3 and 7."""
    number = (torch.arange(60) % 4 == 0).long()
    return replace(GRAPHS, y=torch.tensor([3, 7])[number], classes=(3, 7))


@pytest.mark.parametrize("split", ["shared", "fresh"])
def test_the_share_of_the_largest_class_is_that_among_the_test_graphs_of_the_run(split):
    graphs = few_of_one_class()
    architecture = Architecture(pool="nopool", hidden=8)
    trainer = Trainer(graphs, architecture, Protocol(epochs=1, split=split), range(4))
    assert all(math.isnan(run.largest_class) and run.constant == {} for run in trainer.runs)
    finish(trainer)
    for run, parts in zip(trainer.runs, trainer.splits, strict=True):
        counts = Counter(graphs.y[parts.test].tolist())
        assert run.largest_class == max(counts.values()) / 6
        assert run.num_test == 6
    if split == "fresh":
        assert len({run.largest_class for run in trainer.runs}) > 1


def test_networks_that_give_one_class_to_all_test_graphs_are_marked(monkeypatch):
    """By each rule, as plain networks show; some are made to prefer a class whatever they see."""
    monkeypatch.setattr("lcpool.train.loop.EVAL_BATCH", 4)
    graphs, architecture = easy(), Architecture(pool="nopool", hidden=8)
    protocol = Protocol(lr=0.03, batch_size=16, epochs=15, split="fresh")
    trainer = Trainer(graphs, architecture, protocol, range(3))
    while not trainer.ended:
        trainer.train_epoch()
    for rule, position, preferred in (("accuracy", 1, 0), ("loss", 1, 1), ("loss", 2, 0)):
        trainer.best[rule]["post.3.bias"][position, preferred] = 1000.0
    trainer.test()
    for position, run in enumerate(trainer.runs):
        for rule in RULES:
            network = Backbone.of(graphs, architecture).eval()
            network.load_state_dict({n: v[position] for n, v in trainer.best[rule].items()})
            given = network(graphs.batch(trainer.splits[position].test)).logits.argmax(-1)
            assert run.constant[rule] == (len(set(given.tolist())) == 1)
    assert [run.constant["accuracy"] for run in trainer.runs] == [False, True, False]
    assert [run.constant["loss"] for run in trainer.runs] == [False, True, True]


def test_classes_that_change_from_batch_to_batch_are_not_constant(monkeypatch):
    """The first test graphs are all of one class, the others of the other, and predicted so."""
    graphs = easy()
    parts = Protocol().split_of(graphs, run=0)
    zeros, ones = ((graphs.y == c).nonzero().flatten() for c in (0, 1))
    test = torch.cat([zeros[:4], ones[:2]])
    splits = [Split(parts.train, parts.val, index) for index in (test, zeros[:6])]
    architecture = Architecture(pool="nopool", hidden=8)
    protocol = Protocol(lr=0.03, batch_size=16, epochs=15)
    trainer = finish(Trainer(graphs, architecture, protocol, [0, 1], splits))
    assert [run.test["accuracy"][0] for run in trainer.runs] == [1.0, 1.0]
    for size in (128, 4):
        monkeypatch.setattr("lcpool.train.loop.EVAL_BATCH", size)
        trainer.test()
        assert [run.constant["accuracy"] for run in trainer.runs] == [False, True]
        assert [run.largest_class for run in trainer.runs] == [4 / 6, 1.0]


def test_what_was_found_in_the_test_survives_a_checkpoint():
    trainer = finish(make(epochs=1))
    again = make(epochs=1)
    again.load_state(trainer.state())
    assert again.runs == trainer.runs
    assert set(again.runs[0].constant) == set(RULES)


# --- losses


@torch.no_grad()
def losses_of(network, index):
    """Cross entropy and auxiliary loss, means over graphs."""
    batch = GRAPHS.batch(index)
    out = network(batch)
    return float(F.cross_entropy(out.logits, batch.target)), float(out.graph_loss.mean())


@pytest.mark.parametrize("pool", ["diffpool", "mincutpool"])
def test_auxiliary_losses_count_in_training_but_not_in_validation(pool):
    """One epoch of one step, so that the training loss is that of the first parameters."""
    trainer = make(pool, runs=2, batch_size=48, epochs=1)
    trainer.train_epoch()
    for run in trainer.runs:
        train_loss, val_loss, _ = run.curves[0]
        architecture = Architecture(pool=pool, hidden=8)
        network = initial_model(GRAPHS, architecture, trainer.protocol, run.number)
        plain, auxiliary = losses_of(network, trainer.splits[run.number].train)
        assert auxiliary > 0.1
        assert train_loss == pytest.approx(plain + auxiliary, rel=1e-5)
        network.load_state_dict({n: v[run.number] for n, v in trainer.best["loss"].items()})
        plain, auxiliary = losses_of(network.eval(), trainer.splits[run.number].val)
        assert val_loss == pytest.approx(plain, rel=1e-5)


def test_the_loss_of_a_run_is_the_mean_over_its_own_graphs():
    batch = GRAPHS.batch(torch.arange(6))
    logits = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    expected = torch.stack(
        [F.cross_entropy(logits[part], batch.target[part]) for part in (slice(0, 3), slice(3, 6))]
    )
    torch.testing.assert_close(run_losses(Output(logits, None), batch, 2), expected)
    aux = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    expected = expected + torch.tensor([2.0, 5.0])
    torch.testing.assert_close(run_losses(Output(logits, aux), batch, 2), expected)


def test_empty_graphs_do_not_thin_out_auxiliary_losses():
    batch = GRAPHS.batch(torch.arange(4))
    sizes = Sizes(torch.tensor([0, 3, 0, 0]), torch.device("cpu"))
    edges = Edges(torch.empty(2, 0, dtype=torch.long), 3)
    graph = replace(batch.graph, x=batch.x[:3], edges=edges, batch=sizes.batch, sizes=sizes)
    batch = batch._replace(graph=graph, target=torch.zeros(4).long())
    logits = torch.tensor([[100.0, 0.0]] * 4)  # cross entropy 0
    losses = run_losses(Output(logits, torch.tensor([0.0, 2.0, 0.0, 0.0])), batch, 2)
    assert losses.tolist() == [2.0, 0.0]


def test_the_training_loss_of_an_epoch_is_the_mean_over_its_steps(monkeypatch):
    trainer, losses = make(runs=2, batch_size=16), []

    def spy(*arguments):
        losses.append(run_losses(*arguments))
        return losses[-1]

    monkeypatch.setattr("lcpool.train.loop.run_losses", spy)
    trainer.train_epoch()
    assert len(losses) == 3
    expected = torch.stack(losses).double().mean(0).tolist()
    assert [run.curves[0][0] for run in trainer.runs] == pytest.approx(expected)


def test_training_learns():
    graphs, architecture = easy(), Architecture(pool="nopool", hidden=8)
    trainer = finish(Trainer(graphs, architecture, Protocol(lr=0.01, epochs=12), range(2)))
    assert [run.test["accuracy"][0] for run in trainer.runs] == [1.0, 1.0]
    assert all(run.curves[-1][0] < 0.5 * run.curves[0][0] for run in trainer.runs)


# --- a stack is its runs


@pytest.mark.usefixtures("leaving")
@pytest.mark.parametrize("pool", EXACT)
def test_a_stack_gives_bit_for_bit_what_its_runs_alone_give(pool):
    architecture, protocol = Architecture(pool=pool, hidden=8), Protocol(**OPTIONS)
    together = train_runs(GRAPHS, architecture, protocol, range(3), CPU)
    assert together.stack == 3
    assert [run.epochs for run in together.runs] == [4, 1, 3]
    for number, run in enumerate(together.runs):
        alone = train_runs(GRAPHS, architecture, protocol, [number], CPU)
        assert alone.stack == 1
        assert run == alone.runs[0]


@pytest.mark.usefixtures("leaving")
@pytest.mark.parametrize("pool", [pool for pool in POOLINGS if pool not in (*EXACT, *RANDOM)])
def test_a_stack_of_the_other_poolings_gives_the_same_figures(pool):
    """In float64, and with a norm under which no bias has a gradient of mere rounding errors: Adam
    would make whole steps of these."""
    torch.set_default_dtype(torch.float64)
    try:
        graphs = replace(GRAPHS, x=GRAPHS.x.double())
        architecture = Architecture(pool=pool, hidden=8, norm="layer")
        protocol = Protocol(**OPTIONS)
        together = train_runs(graphs, architecture, protocol, range(3), CPU)
        singles = [train_runs(graphs, architecture, protocol, [n], CPU).runs[0] for n in range(3)]
    finally:
        torch.set_default_dtype(torch.float32)
    assert [run.epochs for run in together.runs] == [4, 1, 3]
    for run, expected in zip(together.runs, singles, strict=True):
        assert run.epochs == expected.epochs
        assert run.number == expected.number
        found, alone = (torch.tensor(r.curves, dtype=torch.float64) for r in (run, expected))
        torch.testing.assert_close(found, alone, rtol=0, atol=1e-8)
        for rule in RULES:
            assert run.choices[rule].epoch == expected.choices[rule].epoch
            assert run.test[rule] == pytest.approx(expected.test[rule], abs=1e-8)


def test_all_poolings_see_the_same_splits_and_orders(monkeypatch):
    seen = []
    batches = GraphSet.batches
    for pool in ("nopool", "sagpool"):
        indices = []

        def spy(graphs, parts, indices=indices):
            indices += [part.tolist() for part in parts]
            return batches(graphs, parts)

        monkeypatch.setattr(GraphSet, "batches", spy)
        trainer = make(pool, runs=2, split="fresh")
        trainer.train_epoch()
        seen.append(indices)
    assert len(seen[0]) > 2
    assert seen[0] == seen[1]


# --- divergence


@pytest.mark.parametrize("pool", POOLINGS)
def test_a_run_that_diverges_ends_alone(pool):
    """The others do not feel it. From then on they are a smaller stack, which for some poolings
    sums in another order."""
    options = {"epochs": 3, "patience": 3, "batch_size": 24}
    sound = finish(make(pool, **options))

    def spoil_run_1(trainer):
        if trainer.epoch == 1:
            spoil(trainer, position=1)

    trainer = finish(make(pool, **options), spoil_run_1)
    assert [run.diverged for run in trainer.runs] == [None, 2, None]
    for run in (0, 2):
        assert trainer.runs[run].curves[:2] == sound.runs[run].curves[:2]
        assert trainer.runs[run].epochs == 3
        if pool in EXACT:
            assert trainer.runs[run] == sound.runs[run]
    lost = trainer.runs[1]
    assert lost.curves[0] == sound.runs[1].curves[0]
    assert lost.epochs == 2
    assert math.isnan(lost.curves[1][0])
    assert all(choice.epoch == 1 for choice in lost.choices.values())
    assert all(math.isfinite(loss) for _, loss in lost.test.values())  # the best until then


def test_a_run_alone_that_diverges_ends_too():
    trainer = finish(make("lcpool", runs=1, epochs=4), lambda t: spoil(t, position=0))
    assert trainer.runs[0].diverged == trainer.runs[0].epochs == 2
    assert math.isfinite(trainer.runs[0].test["accuracy"][1])


def test_a_run_that_diverges_after_others_have_left_is_the_right_one():
    peaks = (1, 5, 5)
    scripts = [best_at(peak) for peak in peaks]
    trainer = Scripted(*scripts, epochs=20, patience=2)
    trainer.train_losses[1, 5] = NAN  # by then run 0 has left: run 1 is first in the stack
    finish(trainer)
    assert [run.diverged for run in trainer.runs] == [None, 5, None]
    assert trainer.lengths() == [3, 5, 7]
    assert trainer.chosen("accuracy") == [1, 4, 5]
    assert [run.test["accuracy"] for run in trainer.runs] == [(1.0, 0.0), (4.0, 1.0), (5.0, 2.0)]


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("where", ["training", "validation"])
def test_a_loss_that_is_no_number_is_divergence(bad, where):
    worse = script([0.5, 0.4], [0.5, 0.6])
    lost = script([0.5, 0.4, 1.0], [0.5, 0.6, bad if where == "validation" else 0.1])
    trainer = Scripted(worse, lost, epochs=20, patience=5)
    if where == "training":
        trainer.train_losses[1, 3] = bad
    finish(trainer)
    assert [run.diverged for run in trainer.runs] == [None, 3]
    assert trainer.lengths() == [6, 3]
    assert trainer.chosen("accuracy") == trainer.chosen("loss") == [1, 1]


# --- reproducibility


@pytest.mark.parametrize("pool", ["nopool", "diffpool", "lcpool"])
def test_the_same_seed_gives_the_same_bits(pool):
    trainers = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        trainers.append(finish(make(pool, epochs=2)))
    first, second = trainers
    assert first.runs == second.runs
    for rule in RULES:
        for name, value in first.best[rule].items():
            assert torch.equal(value, second.best[rule][name])


def test_runs_and_seeds_give_different_numbers():
    curves = [
        tuple(run.curves) for seed in (0, 1) for run in finish(make(seed=seed, epochs=1)).runs
    ]
    assert len(set(curves)) == 6
