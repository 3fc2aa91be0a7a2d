"""``check_pooling``: test whether your own pooling does what networks and users rely on."""

from __future__ import annotations

import copy
import io
import logging
import pickle
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lcpool.pool import Pooled, Pooling
from lcpool.pool.foreign import ForeignPooling, as_pooling, make_layer

CHANNELS, RATIO, CLUSTERS = 8, 0.5, 3
Make = Callable[[], Pooling]


def check_pooling(cls: Callable[..., nn.Module], skip: Collection[str] = ()) -> None:
    """Check your own pooling; raise an ``AssertionError`` that lists what does not hold.

    ================  ==============================================================================
    check             what must hold
    ================  ==============================================================================
    output            a graph: indices in range, sorted by graph, no edge between graphs
    determinism       the same call gives the same bits
    independence      a graph alone is pooled as in a batch
    equivariance      renumbered nodes and shuffled edges give the same pooled graph, up to its
                      numbering
    odd graphs        graphs without nodes or edges, single nodes, gaps and disorder in ``batch``
    counts            ``pooled_counts`` returns the number of pooled nodes, or None
    gradients         finite, and they reach x; losses have one value per graph
    lift              ``out.lift`` has a row per input node, ``out.labels`` a pooled node or −1
    dtypes            float32 and float64 stay what they are
    state             ``state_dict``, ``copy.deepcopy`` and ``pickle`` restore the layer
    training          a network can be trained; a stack of runs gives what each run gives alone
    export            ``torch.export`` takes it, for graphs of other sizes too
    ================  ==============================================================================

    A check is left out if it would only repeat the failure of another: all but the first need a
    usable output, and most compare several calls.

    Args:
        cls: the class, called as ``cls(channels)``, with ``ratio=`` and ``num_clusters=`` if it has
            these arguments; or a function that is called so and returns a layer. A layer that is
            not an :class:`~lcpool.Pooling` is called as PyG's are, and need not lift.
        skip: names of checks to leave out, such as ``["export"]`` for a pooling with a loop whose
            length depends on the data.

    Example:
        >>> from lcpool import LCPooling
        >>> check_pooling(LCPooling)
    """
    if isinstance(cls, nn.Module):
        raise TypeError(f"pass the class {type(cls).__name__}, not a layer made from it.")
    if wrong := {skip} if isinstance(skip, str) else set(skip) - set(CHECKS):
        raise ValueError(f"'skip' must be a list of {', '.join(CHECKS)}; not '{min(wrong)}'.")
    title, held = getattr(cls, "__name__", repr(cls)), 0
    failed: dict[str, str] = {}
    with torch.random.fork_rng():
        try:
            _make(cls)
        except Exception as error:
            raise AssertionError(f"{title}({CHANNELS}) cannot be made: {error}") from error
        for name, check in CHECKS.items():
            needed = NEEDED.get(name, ("output", "determinism"))
            if name in skip or not failed.keys().isdisjoint(needed):
                continue
            try:
                check(lambda: _make(cls))
                held += 1
            except Exception as error:
                failed[name] = " ".join(str(error).split())[:500] or type(error).__name__
    if failed:
        lines = [f"  {name}: {text}" for name, text in failed.items()]
        raise AssertionError("\n".join([f"{title}: {held} checks hold, but not:", *lines]))


def _make(cls: Callable[..., nn.Module]) -> Pooling:
    torch.manual_seed(0)
    return as_pooling(make_layer(cls, CHANNELS, RATIO, CLUSTERS)).double()


class Batch(NamedTuple):
    """The arguments of a call."""

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    size: int


def _batch(*sizes: int, seed: int = 0) -> Batch:
    """Random graphs of the given sizes, undirected, without self-loops."""
    generator = torch.Generator().manual_seed(seed)
    n, batch = sum(sizes), torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    x = torch.randn(n, CHANNELS, generator=generator, dtype=torch.float64)
    A = (torch.rand(n, n, generator=generator) < 0.4).triu(1) & (batch == batch.view(-1, 1))
    return Batch(x, (A | A.T).nonzero().t(), batch, len(sizes))


def _call(pool: Pooling, batch: Batch) -> Pooled:
    torch.manual_seed(1)  # a pooling may be random
    out: Pooled = pool(batch.x, batch.edge_index, batch=batch.batch, batch_size=batch.size)
    return out


def _check_output(make: Make) -> None:
    out = _call(make(), _batch(7, 5, 1, 6))
    x, edge_index, edge_attr, batch, *_ = out
    _require(x.dim() == 2 and x.size(0) == batch.numel(), "x and batch have different lengths")
    _require(bool((batch.diff() >= 0).all()), "the pooled nodes are not sorted by graph")
    _require(out.batch_size == 4, f"4 graphs became {out.batch_size}")
    _require(edge_index.shape[0] == 2, "edge_index must have two rows")
    within = (edge_index >= 0) & (edge_index < x.size(0))
    _require(bool(within.all()), "edge_index is out of range")
    source, target = batch[edge_index]
    _require(torch.equal(source, target), "edges connect different graphs")
    rows = edge_index.size(1)
    _require(edge_attr is None or edge_attr.size(0) == rows, "edge_attr needs a row per edge")


def _check_independence(make: Make) -> None:
    pool, whole = make(), _batch(7, 5, 6)
    together = _call(pool, whole)
    for g, nodes in enumerate(torch.split(torch.arange(18), [7, 5, 6])):
        edges = whole.edge_index[:, whole.batch[whole.edge_index[0]] == g] - nodes[0]
        alone = Batch(whole.x[nodes], edges, torch.zeros_like(nodes), 1)
        here = _matrices(together, (together.batch == g).nonzero().view(-1))
        there = _matrices(_call(pool, alone))
        _require_close(here, there, f"graph {g} alone is pooled differently than in a batch")


def _check_equivariance(make: Make) -> None:
    pool, given = make(), _batch(7, 5, 6)
    generator = torch.Generator().manual_seed(2)
    order = torch.randperm(18, generator=generator)
    order = order[given.batch[order].argsort(stable=True)]
    edges = order.argsort()[given.edge_index]
    edges = edges[:, torch.randperm(edges.size(1), generator=generator)]
    moved = given._replace(x=given.x[order], edge_index=edges)
    here, again = _matrices(_call(pool, given)), _matrices(_call(pool, moved))
    _require_close(here, again, "renumbered nodes and shuffled edges give another pooled graph")


def _check_determinism(make: Make) -> None:
    pool, batch = make(), _batch(7, 5, 6)
    for one, other in zip(_call(pool, batch), _call(pool, batch), strict=True):
        same = one is other or (one is not None and other is not None and torch.equal(one, other))
        _require(same, "two equal calls differ")


def _check_odd_graphs(make: Make) -> None:
    cases: list[tuple[list[int], list[tuple[int, int]], int]] = [
        ([], [], 2),
        ([0], [], 1),
        ([0], [(0, 0)], 2),
        ([0, 0, 1, 1], [], 2),
        ([0, 0, 2], [(0, 1), (1, 0), (0, 1)], 3),
        ([1, 1, 1], [(0, 1), (1, 0)], 5),
        ([1, 0, 1, 0], [(0, 2), (2, 0), (1, 3), (3, 1)], 2),
    ]
    for of_node, edges, size in cases:
        x = torch.randn(len(of_node), CHANNELS, dtype=torch.float64, requires_grad=True)
        edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
        try:
            out = _call(make(), Batch(x, edge_index, torch.tensor(of_node).long(), size))
            _require(bool(out.x.isfinite().all()), "x is not finite")
            if out.x.requires_grad:
                torch.autograd.backward(out.x.square().sum() + out.loss)
            finite = x.grad is None or bool(x.grad.isfinite().all())
            _require(finite, "the gradient is not finite")
        except Exception as error:
            case = f"batch={of_node}, edges={edges}, batch_size={size}"
            raise AssertionError(f"{case}: {error}") from error


def _check_counts(make: Make) -> None:
    pool, sizes = make(), (7, 5, 1, 0, 6)
    counts = pool.pooled_counts(torch.tensor(sizes))
    if counts is not None:
        found = _call(pool, _batch(*sizes)).batch.bincount(minlength=len(sizes))
        said = f"pooled_counts returned {counts.tolist()}, but there are {found.tolist()} nodes"
        _require(torch.equal(counts, found), said)


def _check_gradients(make: Make) -> None:
    pool, batch = make(), _batch(7, 5, 6)
    batch.x.requires_grad_()
    out = _call(pool, batch)
    weights = 0 if out.edge_attr is None else out.edge_attr.sum()
    torch.autograd.backward(out.x.square().sum() + out.loss + weights)
    grads = {"x": batch.x.grad, **{n: p.grad for n, p in pool.named_parameters()}}
    _require(batch.x.grad is not None and bool(batch.x.grad.any()), "no gradient reaches x")
    for name, grad in grads.items():
        _require(grad is None or bool(grad.isfinite().all()), f"the gradient of {name} has NaN")
    if out.graph_loss is not None:
        _require(out.graph_loss.shape == (batch.size,), "losses need one value per graph")


def _check_lift(make: Make) -> None:
    pool, batch = make(), _batch(7, 5, 6)
    if isinstance(pool, ForeignPooling):
        return
    out = _call(pool, batch)
    _require(out.lift().shape == batch.x.shape, "lift must return a row per input node")
    S = out.assignment
    pooled, labels = out.x.size(0), out.labels()
    _require((S.num_nodes, S.num_clusters) == (18, pooled), "S has a wrong shape")
    _require(labels.shape == (18,) and int(labels.max()) < pooled, "labels are out of range")
    owner = out.batch[labels[labels >= 0]]
    _require(torch.equal(owner, batch.batch[labels >= 0]), "a node has a label of another graph")


def _check_dtypes(make: Make) -> None:
    for dtype in (torch.float32, torch.float64):
        batch = _batch(7, 5)
        out = _call(make().to(dtype), batch._replace(x=batch.x.to(dtype)))
        _require(out.x.dtype == dtype, f"{dtype} became {out.x.dtype}")


def _check_training(make: Make) -> None:
    from lcpool.data import builtin
    from lcpool.models import Architecture, Backbone
    from lcpool.train.stack import CannotStackError, Stack, compare_with_runs

    graphs, models = builtin(num_graphs=6), []
    for seed in range(2):
        models.append(Backbone.of(graphs, Architecture(hidden=CHANNELS, pool="nopool")))
        models[seed].pools[0] = pool = make().float()
        torch.manual_seed(seed)
        pool.reset_parameters()
    out = models[0].train()(graphs.batch(torch.arange(6)))
    loss = out.logits.square().sum() if out.graph_loss is None else out.graph_loss.sum()
    torch.autograd.backward(loss + out.logits.sum())
    try:
        Stack(models)
    except CannotStackError:
        return  # runs with it are trained one at a time
    try:
        compare_with_runs(models, graphs)
    except CannotStackError as error:
        raise AssertionError("runs trained as one give something else than alone") from error


def _check_state(make: Make) -> None:
    pool, batch = make(), _batch(7, 5)
    wanted = _call(pool, batch).x
    other = make()
    other.reset_parameters()
    other.load_state_dict(pool.state_dict())
    for what, copied in (
        ("load_state_dict", other),
        ("copy.deepcopy", copy.deepcopy(pool)),
        ("pickle", pickle.loads(pickle.dumps(pool))),
    ):
        _require(torch.equal(_call(copied, batch).x, wanted), f"{what} does not restore the layer")


class _Exported(nn.Module):
    """A network of one layer that returns tensors only, as ``torch.export`` needs."""

    def __init__(self, pool: Pooling) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        out = self.pool(x, edge_index, batch=batch)
        return out.x, out.edge_index


def _check_export(make: Make) -> None:
    net = _Exported(make()).eval()
    one, other = _batch(7, 5, 6), _batch(4, 9, seed=1)
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=3)
    shapes = ({0: nodes}, {1: edges}, {0: nodes})
    with torch.no_grad(), _quiet():
        program = torch.export.export(net, one[:3], dynamic_shapes=shapes, strict=False)
        results = []
        for call in (program.module(), net):
            torch.manual_seed(1)
            results.append([value.numpy() for value in call(*other[:3])])
        _require_close(results[0], results[1], "the exported program computes something else")


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing on stderr: where an export fails, torch writes hundreds of lines, and an error."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


CHECKS: dict[str, Callable[[Make], None]] = {
    "output": _check_output,
    "determinism": _check_determinism,
    "independence": _check_independence,
    "equivariance": _check_equivariance,
    "odd graphs": _check_odd_graphs,
    "counts": _check_counts,
    "gradients": _check_gradients,
    "lift": _check_lift,
    "dtypes": _check_dtypes,
    "state": _check_state,
    "training": _check_training,
    "export": _check_export,
}


# The checks that must hold before another is run; output and determinism if not listed.
NEEDED = {
    "output": (),
    "determinism": ("output",),
    "training": ("output", "determinism", "independence", "gradients", "state"),
}


def _matrices(out: Pooled, nodes: Tensor | None = None) -> list[Any]:
    """X' and A' of some pooled nodes, in an order that does not depend on their numbering."""
    size, weight = out.x.size(0), out.edge_attr
    nodes = torch.arange(size) if nodes is None else nodes
    if weight is None or weight.dim() > 1:
        weight = out.x.new_ones(out.edge_index.size(1))
    dense = out.x.new_zeros(size, size).index_put(tuple(out.edge_index), weight, accumulate=True)
    X, A = (values.detach().numpy() for values in (out.x[nodes], dense[nodes][:, nodes]))
    # By graph, then by the sums over neighbours, then by features: any order of these would do.
    keys = np.hstack([X, A @ X, out.batch[nodes].view(-1, 1)])
    order = np.lexsort(np.round(keys, 6).T[::-1])
    return [X[order], A[order][:, order]]


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def _require_close(one: list[Any], other: list[Any], otherwise: str) -> None:
    for a, b in zip(one, other, strict=True):
        _require(a.shape == b.shape and np.allclose(a, b, rtol=1e-7, atol=1e-7), otherwise)
