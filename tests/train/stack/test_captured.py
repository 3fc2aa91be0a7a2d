"""Steps of a fixed shape compute what steps of exact shapes compute; their kernels interpreted."""

import copy
import gc
import pickle
import weakref
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

pytest.importorskip("triton", reason="Triton is not installed")

from lcpool.data import DatasetError, GraphSet
from lcpool.models import Architecture, Backbone
from lcpool.train.loop import Trainer, run_losses
from lcpool.train.protocol import Protocol
from lcpool.train.result import Run
from lcpool.train.stack import Stack
from lcpool.train.stack.captured import Capturer, Steps, columns_of
from lcpool.train.stack.feed import Columns, Feed

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Rows that are no nodes hold anything, and numpy, which interprets kernels, warns of inf · 0.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
RUNS = 2
LOOSE = {"rtol": 1e-3, "atol": 1e-3}
CLOSE = {"rtol": 1e-5, "atol": 1e-6} if DEVICE.type == "cuda" else {"rtol": 1e-8, "atol": 1e-9}


@contextmanager
def on_gpu_kernels():
    """The kernels for a GPU; where there is none they are interpreted, which takes long."""
    with pytest.MonkeyPatch.context() as patch:
        if DEVICE.type != "cuda":
            from lcpool.ops import kernels
            from lcpool.ops.backends import gpu
            from lcpool.train.stack import gpu as of_stack
            from lcpool.train.stack import layers, rows

            patch.setattr(kernels, "cpu_kernels", lambda: gpu)
            patch.setattr(layers, "run_kernels", lambda x: of_stack)
            patch.setattr(rows.RunRows, "at_once", True)
        yield


@pytest.fixture
def gpu_kernels():
    with on_gpu_kernels():
        yield


@pytest.fixture(scope="module")
def graphs():
    """Trees of two to six nodes, some with a chord: interpreted kernels take long."""
    generator, made = torch.Generator().manual_seed(0), []
    for g in range(14):
        n = 2 + g % 5
        child = torch.arange(1, n)
        edges = torch.stack([child, (torch.rand(n - 1, generator=generator) * child).long()])
        if n > 4 and not ((edges[0] == n - 1) & (edges[1] == 0)).any():
            edges = torch.cat([edges, torch.tensor([[n - 1], [0]])], dim=1)
        x = torch.randn(n, 3, generator=generator)
        made.append(Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1), y=g % 2))
    found = GraphSet.from_graphs(made).to(DEVICE)
    return found if DEVICE.type == "cuda" else replace(found, x=found.x.double())


def networks(graphs, **options):
    models = []
    for run in range(RUNS):
        torch.manual_seed(run)
        models.append(Backbone.of(graphs, Architecture(**{"hidden": 4, **options})))
    return [m.to(graphs.x) for m in models]


def losses(out, batch):
    return run_losses(out, batch, RUNS)


def unexpected(error):
    """No capture may fail."""
    raise error


def test_a_feed_cuts_the_batch_that_a_set_cuts(graphs, gpu_kernels):
    feed = Feed(Columns(graphs), RUNS, 3)
    picked = torch.tensor([[3, 1, 4, 1, 5, 9]])
    feed.load(picked)
    found, wanted = feed.cut(picked[0].to(DEVICE)), graphs.batch(picked[0])
    n, m = wanted.graph.num_nodes, wanted.edge_index.size(1)
    assert torch.equal(found.x[:n], wanted.x)
    assert torch.equal(found.batch[:n], wanted.batch)
    assert torch.equal(found.target, wanted.target)
    rows = wanted.graph.edges.out
    assert torch.equal(found.graph.edges.out.ptr[: n + 1], rows.ptr)
    assert torch.equal(found.graph.edges.out.node[:m], rows.node)
    assert (found.graph.edges.out.ptr[n:] == m).all()


# Steps of one size, and one of another. On a GPU the second of a size is captured, and the third
# replayed.
ORDERS = [0, 5, 2, 7, 9], [10, 2, 8, 1, 13]
if DEVICE.type == "cuda":
    ORDERS = [0, 5, 2, 7, 9, 3, 11, 4, 6, 1, 8], [10, 2, 8, 1, 13, 12, 0, 3, 5, 7, 11]
POOLS = ["lcpool", "asapool", "diffpool"]
if DEVICE.type == "cuda":  # tests/pool/test_bounded.py has others of these in less time
    POOLS += [
        "nopool", "topkpool", "sagpool", "lcpool*", "mincutpool", "dmon", "cellpool", "kmis",
        "edgepool", "graclus",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pool", "conv"), [(pool, ("gcn", "graphconv")[i % 2]) for i, pool in enumerate(POOLS)]
)
def test_steps_are_those_of_exact_shapes(graphs, poisoned, pool, conv):
    models = networks(graphs, pool=pool, conv=conv)
    plain, fixed = Stack(copy.deepcopy(models)), Stack(models)
    optimizers = [
        torch.optim.Adam(stack.model.parameters(), lr=1e-3, capturable=DEVICE.type == "cuda")
        for stack in (plain, fixed)
    ]
    orders = [list(torch.split(torch.tensor(order), 3)) for order in ORDERS]
    val = [torch.tensor([7, 8, 9]), torch.tensor([11, 12, 13])]
    expected = torch.zeros(RUNS, dtype=torch.float64, device=DEVICE)
    for parts in zip(*orders, strict=True):
        batch = graphs.batch(torch.cat(parts))
        loss = run_losses(plain(batch, RUNS), batch, RUNS)
        optimizers[0].zero_grad()
        loss.sum().backward()
        optimizers[0].step()
        expected += loss.detach()
    plain.model.eval()
    with torch.no_grad():
        batch = graphs.batch(torch.cat(val))
        wanted = plain(batch, RUNS).logits.view(RUNS, 3, -1)
    with on_gpu_kernels():
        columns = Columns(graphs)
        steps = Steps(fixed, columns, losses, optimizers[1], unexpected)
        steps.prepare(orders, val, 2)
        total, found = steps.train(), steps.scores()
    torch.testing.assert_close(total, expected, **CLOSE)
    for (name, a), b in zip(plain.tensors().items(), fixed.tensors().values(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}")
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("pool", ["lcpool", "nopool"] if DEVICE.type == "cuda" else ["nopool"])
def test_rooms_grow_and_never_shrink(graphs, poisoned, pool):
    """Epochs of graphs of 2, 6 and 2 nodes: where a room is too small, the shape is made anew."""
    models = networks(graphs, pool=pool)
    plain, fixed = Stack(copy.deepcopy(models)), Stack(models)
    optimizers = [
        torch.optim.Adam(stack.model.parameters(), lr=1e-3, capturable=DEVICE.type == "cuda")
        for stack in (plain, fixed)
    ]
    with on_gpu_kernels():
        steps = Steps(fixed, Columns(graphs), losses, optimizers[1], unexpected)
    rooms = []
    for epoch in [([0, 5, 10], [10, 0, 5]), ([4, 9, 13], [3, 4, 9]), ([0, 5, 10], [10, 0, 5])]:
        parts = list(map(torch.tensor, epoch))
        batch = graphs.batch(torch.cat(parts))
        plain.model.train()
        expected = run_losses(plain(batch, RUNS), batch, RUNS)
        optimizers[0].zero_grad()
        expected.sum().backward()
        optimizers[0].step()
        with on_gpu_kernels():
            steps.prepare([[part] for part in parts], None, 2)
            total = steps.train()
        torch.testing.assert_close(total, expected.detach().double(), rtol=1e-5, atol=1e-6)
        rooms.append(steps.rooms()[True][3])
    assert rooms[0]["nodes"] < rooms[1]["nodes"]
    assert rooms[1] == rooms[2]


@pytest.mark.parametrize("pool", POOLS[-4:] if DEVICE.type == "cuda" else ["cellpool"])
def test_partitions_of_partitions(graphs, poisoned, pool):
    stack = Stack(networks(graphs, pool=pool, poolings=2))
    parts = torch.tensor([7, 8]), torch.tensor([9, 11])
    stack.model.eval()
    with torch.no_grad():
        wanted = stack(graphs.batch(torch.cat(parts)), RUNS).logits.view(RUNS, 2, -1)
    with on_gpu_kernels():
        steps = Steps(stack, Columns(graphs), losses, None, unexpected)
        steps.prepare([[torch.tensor([0, 1])], [torch.tensor([4, 3])]], parts, 2)
        found = steps.scores()
    torch.testing.assert_close(found, wanted, **CLOSE)


@pytest.mark.parametrize(
    "pool", ["random", "randomassign"] if DEVICE.type == "cuda" else ["randomassign"]
)
def test_steps_that_draw_numbers(graphs, gpu_kernels, poisoned, pool):
    """Steps of exact shapes draw other numbers: there is nothing to compare them with."""
    stack = Stack(networks(graphs, pool=pool))
    before = {name: value.clone() for name, value in stack.tensors().items()}
    optimizer = torch.optim.Adam(stack.model.parameters(), capturable=DEVICE.type == "cuda")
    steps = Steps(stack, Columns(graphs), losses, optimizer, unexpected)
    orders = [list(torch.split(torch.tensor(order), 4)) for order in ORDERS]
    part = torch.tensor([7, 8, 9])
    steps.prepare(orders, [part, part], 2)
    total = steps.train()
    assert total.isfinite().all()
    after = stack.tensors()
    assert all(value.isfinite().all() for value in after.values())
    assert not all(torch.equal(value, before[name]) for name, value in after.items())
    assert steps.scores().isfinite().all()


def both_ways(graphs, runs, **options):
    """Trained in exact shapes and in fixed ones; how many runs and places are left after epochs.

    Without norms: they leave a bias before them a gradient of rounding alone, which Adam follows.
    """
    architecture = Architecture(pool="nopool", hidden=4, norm="none")
    protocol = Protocol(epochs=9, batch_size=5, lr=0.01, **options)
    graphs = graphs[:10]
    for way in (nullcontext, on_gpu_kernels):
        with way():
            trainer = Trainer(graphs, architecture, protocol, range(runs), capture=False)
            trainer.capture, sizes = way is on_gpu_kernels, []
            while not trainer.ended:
                trainer.train_epoch()
                sizes.append((len(trainer.active), len(trainer.places)))
            trainer.test()
        yield trainer, sizes


def test_runs_that_end_leave_the_others_as_they_are(graphs, monkeypatch):
    """Ended runs get empty graphs; when half have ended, the stack shrinks."""
    monkeypatch.setattr(Run, "ended", lambda run, _: run.epochs >= 1 + run.number)
    graphs = replace(graphs, x=graphs.x.float())
    (plain, exact), (fixed, sizes) = both_ways(graphs, 3)
    assert exact == [(2, 2), (1, 1), (0, 1)]
    assert sizes == [(2, 3), (1, 1), (0, 1)]
    for a, b in zip(plain.runs, fixed.runs, strict=True):
        assert a.epochs == b.epochs == 1 + a.number
        torch.testing.assert_close(torch.tensor(b.curves), torch.tensor(a.curves), **LOOSE)
        for rule, figures in a.test.items():
            assert b.test[rule] == pytest.approx(figures, rel=1e-3, abs=1e-3)


def test_a_state_in_the_middle_goes_on(graphs):
    """With an ended run still in the stack; where steps are not captured, it is taken out."""
    graphs = graphs[:10]
    graphs = replace(graphs, x=graphs.x.float())
    protocol = Protocol(epochs=9, patience=9, batch_size=5)
    architecture = Architecture(pool="nopool", hidden=4)
    first, same, eager = (
        Trainer(graphs, architecture, protocol, range(3), capture=False) for _ in range(3)
    )
    first.capture = same.capture = True
    with on_gpu_kernels():
        first.train_epoch()
        first.runs[1].diverged = 1  # it ends
        first._drop_ended()
        assert (first.active, first.places) == ([0, 2], [0, 1, 2])
        for other in (same, eager):
            other.load_state(copy.deepcopy(first.state()))
        for trainer in (first, same):
            trainer.train_epoch()
    eager.train_epoch()
    assert same.places == [0, 1, 2]
    assert same._steps.rooms() == first._steps.rooms()
    assert eager.places == [0, 2]
    for a, b, c in zip(first.runs, same.runs, eager.runs, strict=True):
        assert a.curves == b.curves
        torch.testing.assert_close(torch.tensor(a.curves), torch.tensor(c.curves), **LOOSE)


def test_epochs_chosen_by_the_loss_of_training(graphs, monkeypatch):
    """The stack is evaluated as it trains, without the runs that have ended."""
    monkeypatch.setattr(Run, "ended", lambda run, _: run.epochs >= 1 + run.number)
    graphs = replace(graphs, x=graphs.x.float())
    (plain, _), (fixed, _) = both_ways(graphs, 2, selection_loss="total")
    for a, b in zip(plain.runs, fixed.runs, strict=True):
        torch.testing.assert_close(torch.tensor(b.curves), torch.tensor(a.curves), **LOOSE)


def test_a_stack_refuses_graphs_of_other_runs(graphs):
    stack = Stack(networks(graphs, pool="nopool"))
    with pytest.raises(ValueError, match="3"):
        stack(graphs.batch(torch.tensor([0, 1, 2])), 3)


@pytest.mark.parametrize("options", [{"readout": "mean+std"}, {"pool": "page_poolings:KMIS"}])
def test_parts_of_others_are_not_captured(graphs, gpu_kernels, options):
    """They may count rows that are no nodes; a note says so once, and training goes on."""
    graphs = graphs[:8]
    graphs = replace(graphs, x=graphs.x.float())
    architecture = Architecture(hidden=4, **options)
    trainer = Trainer(graphs, architecture, Protocol(batch_size=7), range(1), capture=False)
    trainer.capture = True
    trainer.train_epoch()
    assert not trainer.capture
    assert len(trainer.notes) == 1
    trainer.train_epoch()
    assert len(trainer.notes) == 1


class Pretends(Capturer):
    """Captures on a CPU: a replay is a call. Or it fails, with ``error``."""

    def __init__(self, failed, error=None):
        self.failed, self.works, self.error, self.replays = failed, True, error, 0

    def aside(self, work):
        work()

    def _graph_of(self, work):
        if self.error is not None:
            raise self.error

        def replay():
            self.replays += 1
            work()

        return SimpleNamespace(replay=replay, reset=lambda: None)


def pretending(graphs, runs, capturer):
    """A trainer whose steps are captured by what ``capturer(failed)`` returns."""
    graphs = replace(graphs, x=graphs.x.float())
    architecture = Architecture(pool="nopool", hidden=4)
    trainer = Trainer(graphs, architecture, Protocol(batch_size=4), range(runs), capture=False)
    trainer.capture, make = True, trainer._make_steps

    def steps():
        made = make()
        made.capturer = capturer(trainer._launch)
        return made

    trainer._make_steps = steps
    return trainer


@pytest.mark.skipif(DEVICE.type == "cuda", reason="a GPU captures itself")
def test_a_capture_that_fails(graphs, gpu_kernels):
    """The epoch goes on with launched steps, and computes the same; a note says so once."""
    errors = torch.OutOfMemoryError("full"), RuntimeError("CUDA error: odd")
    captured, *launched = trainers = [
        pretending(graphs[:8], 1, lambda failed, given=given: Pretends(failed, given))
        for given in (None, *errors)
    ]
    for trainer in trainers:
        for _ in range(2):
            trainer.train_epoch()
    assert captured._steps.capturer.replays > 0
    assert captured.notes == []
    for trainer in launched:
        assert len(trainer.notes) == 1
        assert trainer._steps.capturer.works is False
        assert captured.runs[0].curves == trainer.runs[0].curves


@pytest.mark.skipif(DEVICE.type == "cuda", reason="a GPU captures itself")
def test_a_smaller_stack_where_memory_does_not_suffice_for_a_capture(graphs, gpu_kernels):
    trainer = pretending(graphs, 2, lambda f: Pretends(f, torch.OutOfMemoryError("full")))
    with pytest.raises(torch.OutOfMemoryError):
        trainer.train_epoch()


def test_the_error_that_ended_a_capture_counts():
    """Not the one of the end of that capture, which follows from it."""
    found = []
    capturer = Pretends(found.append)

    def broken(_):
        try:
            raise torch.OutOfMemoryError("full")
        finally:
            raise RuntimeError("the capture was broken off")

    capturer._graph_of = broken
    assert capturer.capture(lambda: None) is None
    assert [type(error) for error in found] == [torch.OutOfMemoryError]


@pytest.mark.skipif(DEVICE.type != "cuda", reason="only a GPU captures")
def test_a_gpu_works_on_after_a_capture_that_failed():
    errors, x = [], torch.ones(3, device=DEVICE)
    capturer, before = Capturer(DEVICE, errors.append), torch.cuda.current_stream()
    for work in (lambda: x.new_empty(2**45), lambda: x.sum().item()):  # too large; not allowed
        assert capturer.capture(work) is None
        assert torch.cuda.current_stream() == before
        torch.nn.functional.dropout(x)
        assert x.sum().item() == 3
    assert len(errors) == 2
    assert isinstance(errors[0], torch.OutOfMemoryError)


def test_columns_are_freed_with_their_set(graphs, gpu_kernels):
    graphs, collects = replace(graphs), gc.isenabled()
    size = len(pickle.dumps(graphs))
    gc.disable()
    try:
        columns = weakref.ref(columns_of(graphs))
        assert columns_of(graphs) is columns()
        assert len(pickle.dumps(graphs)) == size
        del graphs
        assert columns() is None
    finally:
        if collects:
            gc.enable()


def test_columns_are_checked(graphs):
    """Kernels trust them. Here a graph has the edge of another, in both directions."""
    edges = graphs.edge_index.clone()
    edges[:, :2] += len(graphs.x) - 2
    damaged = replace(graphs, edge_index=edges)
    assert damaged.undirected
    with pytest.raises(DatasetError, match="edge_index"):
        Columns(damaged)
