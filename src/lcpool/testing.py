"""``check_pooling``: whether a pooling of your own does what networks and people rely on.

from lcpool.testing import check_pooling

check_pooling(MyPooling)  # silent, or an AssertionError that lists what does not hold
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lcpool.pool import Pooled, Pooling
from lcpool.pool.foreign import ForeignPooling, as_pooling, make_layer

CHANNELS, RATIO, CLUSTERS = 8, 0.5, 3
Make = Callable[[], Pooling]


def check_pooling(cls: Callable[..., nn.Module], skip: Collection[str] = ()) -> None:
    """Raise an ``AssertionError`` that lists what does not hold of a pooling.

    ================  ==============================================================================
    check             what must hold
    ================  ==============================================================================
    output            a graph: indices in range, sorted by graph, no edge between graphs
    independence      a graph comes out as it does alone, whatever else is in the batch
    equivariance      renumbered nodes give the same pooled graph, up to its own numbering
    determinism       the same call gives the same bits
    odd graphs        graphs without nodes or edges, single nodes, gaps and disorder in ``batch``
    counts            ``pooled_counts`` tells how many nodes come out, or None
    gradients         finite, and they reach x; losses have one value per graph
    lift              ``out.lift`` gives a row per input node, ``out.labels`` a pooled node or −1
    dtypes            float32 and float64 come out as they went in
    training          a step of a network; in a stack of runs, what each run gives alone
    state             ``state_dict``, ``copy.deepcopy`` and ``pickle`` give the same layer again
    export            ``torch.export`` takes it, for graphs of other sizes too
    ================  ==============================================================================

    Args:
        cls: the class, called as ``cls(channels)``, with ``ratio=`` and ``num_clusters=`` where it
            takes them; or any function that is called so and gives a layer. A layer that is not
            derived from :class:`~lcpool.Pooling` is called as PyG's are, and need not lift.
        skip: names of checks to leave out, such as ``["export"]`` for a pooling with a loop whose
            length depends on the data.

    Example:
        >>> from lcpool import LCPooling
        >>> check_pooling(LCPooling)
    """
    unknown = sorted(set(skip) - set(CHECKS))
    if unknown:
        raise ValueError(f"there is no check '{unknown[0]}': skip some of {', '.join(CHECKS)}.")
    failed, title = [], getattr(cls, "__name__", repr(cls))
    with torch.random.fork_rng():
        try:
            _make(cls)
        except Exception as error:
            raise AssertionError(
                f"{title}: it cannot be made as {title}({CHANNELS}): {error}"
            ) from error
        for name, check in CHECKS.items():
            if name in skip:
                continue
            try:
                check(lambda: _make(cls))
            except Exception as error:
                text = " ".join(str(error).split()) or type(error).__name__
                failed.append(f"  {name}: {text[:500]}")
    if failed:
        held = len(CHECKS) - len(skip) - len(failed)
        raise AssertionError(
            f"{title}: {held} checks hold, {len(failed)} do not:\n" + "\n".join(failed)
        )


def _make(cls: Callable[..., nn.Module]) -> Pooling:
    torch.manual_seed(0)
    return as_pooling(make_layer(cls, CHANNELS, RATIO, CLUSTERS)).double()


def _call(pool: Pooling, batch: Batch) -> Pooled:
    torch.manual_seed(1)  # a pooling may draw
    out: Pooled = pool(batch.x, batch.edge_index, batch=batch.batch, batch_size=batch.size)
    return out


class Batch:
    """Random graphs of the given sizes, undirected, without self-loops."""

    def __init__(self, *sizes: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.size, self.num_nodes = len(sizes), sum(sizes)
        counts = torch.tensor(sizes, dtype=torch.long)
        self.batch = torch.arange(len(sizes)).repeat_interleave(counts)
        self.x = torch.randn(self.num_nodes, CHANNELS, generator=generator, dtype=torch.float64)
        pairs = torch.cartesian_prod(*[torch.arange(self.num_nodes)] * 2).view(-1, 2)
        inside = (self.batch[pairs[:, 0]] == self.batch[pairs[:, 1]]) & (pairs[:, 0] < pairs[:, 1])
        pairs = pairs[inside]
        pairs = pairs[torch.rand(len(pairs), generator=generator) < 0.4]
        both = torch.cat([pairs, pairs.flip(1)]).t()
        self.edge_index = both[:, (both[0] * self.num_nodes + both[1]).argsort()]


def check_output(make: Make) -> None:
    """The items make up a graph."""
    pool, batch = make(), Batch(7, 5, 1, 6)
    out = _call(pool, batch)
    x, edge_index, edge_attr, of_node, *_ = out
    _require(x.dim() == 2 and x.size(0) == of_node.numel(), "x and batch differ in their rows")
    _require(bool((of_node.diff() >= 0).all()), "the pooled nodes are not sorted by graph")
    _require(out.batch_size == batch.size, f"{out.batch_size} graphs of {batch.size} came out")
    _require(edge_index.shape[0] == 2, "edge_index has no two rows")
    low, high = (int(v) for v in edge_index.aminmax()) if edge_index.numel() else (0, 0)
    _require(0 <= low <= high < max(x.size(0), 1), "edges name nodes that are not there")
    _require(bool((of_node[edge_index[0]] == of_node[edge_index[1]]).all()), "edges join graphs")
    rows = edge_index.size(1)
    _require(edge_attr is None or edge_attr.size(0) == rows, "edge_attr has other rows than edges")


def check_independence(make: Make) -> None:
    """Each graph alone is what it is in the batch."""
    pool, sizes = make(), (7, 5, 6)
    batch = Batch(*sizes)
    together, start = _call(pool, batch), 0
    for g, size in enumerate(sizes):
        alone = Batch(size)
        inside = (batch.edge_index[0] >= start) & (batch.edge_index[0] < start + size)
        alone.x = batch.x[start : start + size]
        alone.edge_index = batch.edge_index[:, inside] - start
        mine = (together.batch == g).nonzero().view(-1)
        here, there = _matrices(together, mine), _matrices(_call(pool, alone))
        _require_close(here, there, f"graph {g} comes out otherwise alone than in a batch")
        start += size


def check_equivariance(make: Make) -> None:
    """Numbering the nodes anew gives the same pooled graph."""
    pool, batch, moved = make(), Batch(7, 5, 6), Batch(7, 5, 6)
    generator = torch.Generator().manual_seed(2)
    parts = batch.batch.bincount().tolist()
    starts = np.cumsum([0, *parts[:-1]])
    order = torch.cat([
        int(start) + torch.randperm(n, generator=generator)
        for start, n in zip(starts, parts, strict=True)
    ])  # fmt: skip
    there = torch.empty_like(order)
    there[order] = torch.arange(len(order))
    moved.x = batch.x[order]
    moved.edge_index = there[batch.edge_index]
    here, again = _matrices(_call(pool, batch)), _matrices(_call(pool, moved))
    _require_close(here, again, "nodes that are numbered otherwise give another pooled graph")


def check_determinism(make: Make) -> None:
    """The same call, the same bits."""
    pool, batch = make(), Batch(7, 5, 6)
    for one, other in zip(_call(pool, batch), _call(pool, batch), strict=True):
        if one is None or other is None:
            _require(one is other, "two equal calls differ")
        else:
            _require(torch.equal(one, other), "two equal calls differ")


def check_odd_graphs(make: Make) -> None:
    """What real batches contain now and then."""
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
        case = f"batch={of_node}, edges={edges}, batch_size={size}"
        odd = Batch()
        odd.size, odd.num_nodes = size, len(of_node)
        odd.batch = torch.tensor(of_node, dtype=torch.long)
        odd.x = torch.randn(len(of_node), CHANNELS, dtype=torch.float64, requires_grad=True)
        odd.edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
        pool = make()
        try:
            out = _call(pool, odd)
            _require(bool(out.x.isfinite().all()), "x is not finite")
            if out.x.requires_grad:
                torch.autograd.backward(out.x.square().sum() + out.loss)
        except Exception as error:
            raise AssertionError(f"{case}: {error}") from error
        finite = odd.x.grad is None or bool(odd.x.grad.isfinite().all())
        _require(finite, f"{case}: the gradient is not finite")


def check_counts(make: Make) -> None:
    """What is promised is what comes out."""
    pool, sizes = make(), (7, 5, 1, 0, 6)
    counts = pool.pooled_counts(torch.tensor(sizes))
    if counts is not None:
        found = _call(pool, Batch(*sizes)).batch.bincount(minlength=len(sizes))
        _require(
            torch.equal(counts, found),
            f"pooled_counts says {counts.tolist()}, but {found.tolist()} nodes come out",
        )


def check_gradients(make: Make) -> None:
    """They are finite and reach the input."""
    pool, batch = make(), Batch(7, 5, 6)
    batch.x.requires_grad_()
    out = _call(pool, batch)
    attr = out.edge_attr
    total = out.x.square().sum() + out.loss
    total = total if attr is None or not attr.requires_grad else total + attr.sum()
    torch.autograd.backward(total)
    grads = {"x": batch.x.grad, **{n: p.grad for n, p in pool.named_parameters()}}
    _require(batch.x.grad is not None and bool(batch.x.grad.any()), "no gradient reaches x")
    for name, grad in grads.items():
        _require(grad is None or bool(grad.isfinite().all()), f"the gradient of {name} has NaN")
    if out.graph_loss is not None:
        _require(out.graph_loss.shape == (batch.size,), "losses need one value per graph")


def check_lift(make: Make) -> None:
    """The way back."""
    pool, batch = make(), Batch(7, 5, 6)
    if isinstance(pool, ForeignPooling):
        return
    out = _call(pool, batch)
    _require(out.lift().shape == batch.x.shape, "lift gives no row per input node")
    S = out.assignment
    _require((S.num_nodes, S.num_clusters) == (18, out.x.size(0)), "S has another shape")
    labels = out.labels()
    _require(labels.shape == (18,) and int(labels.max()) < out.x.size(0), "labels are no nodes")
    owner = out.batch[labels[labels >= 0]]
    _require(torch.equal(owner, batch.batch[labels >= 0]), "a node belongs to another graph's")


def check_dtypes(make: Make) -> None:
    """What goes in comes out."""
    for dtype in (torch.float32, torch.float64):
        batch = Batch(7, 5)
        batch.x = batch.x.to(dtype)
        out = _call(make().to(dtype), batch)
        _require(out.x.dtype == dtype, f"{dtype} became {out.x.dtype}")


def check_training(make: Make) -> None:
    """A network with it takes a step, and runs that are trained as one are what they are alone."""
    from lcpool.data import builtin
    from lcpool.models import Architecture, Backbone
    from lcpool.train.stack.rows import CannotStackError
    from lcpool.train.stack.stack import Stack, compare_with_runs

    graphs, models = builtin(num_graphs=6), []
    for seed in range(2):
        model = Backbone.of(graphs, Architecture(hidden=CHANNELS, pool="nopool"))
        pool = make().float()
        torch.manual_seed(seed)
        pool.reset_parameters()
        model.pools[0] = pool
        models.append(model)
    batch = graphs.batch(torch.arange(6))
    out = models[0].train()(batch)
    loss = out.logits.square().sum() if out.graph_loss is None else out.graph_loss.sum()
    torch.autograd.backward(loss + out.logits.sum())
    try:
        Stack(models)
    except CannotStackError:
        return  # Its runs are trained one at a time.
    compare_with_runs(models, graphs)


def check_state(make: Make) -> None:
    """A layer can be saved and copied."""
    pool, batch = make(), Batch(7, 5)
    wanted = _call(pool, batch).x
    other = make()
    other.reset_parameters()
    other.load_state_dict(pool.state_dict())
    for what, copied in (
        ("load_state_dict", other),
        ("copy.deepcopy", copy.deepcopy(pool)),
        ("pickle", pickle.loads(pickle.dumps(pool))),
    ):
        _require(torch.equal(_call(copied, batch).x, wanted), f"{what} gives another layer")


class _Exported(nn.Module):
    """A network of one layer, of tensors alone."""

    def __init__(self, pool: Pooling) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        out = self.pool(x, edge_index, batch=batch)
        return out.x, out.edge_index


def check_export(make: Make) -> None:
    """One program for graphs of all sizes."""
    net = _Exported(make()).eval()
    one, other = Batch(7, 5, 6), Batch(4, 9, seed=1)
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=3)
    shapes = ({0: nodes}, {1: edges}, {0: nodes})
    with torch.no_grad():
        program = torch.export.export(
            net, (one.x, one.edge_index, one.batch), dynamic_shapes=shapes, strict=False
        )
        given = (other.x, other.edge_index, other.batch)
        results = []
        for call in (program.module(), net):
            torch.manual_seed(1)
            results.append(call(*given))
        same = all(torch.equal(a, b) for a, b in zip(*results, strict=True))
        _require(same, "the exported program gives something else")


CHECKS: dict[str, Callable[[Make], None]] = {
    "output": check_output,
    "independence": check_independence,
    "equivariance": check_equivariance,
    "determinism": check_determinism,
    "odd graphs": check_odd_graphs,
    "counts": check_counts,
    "gradients": check_gradients,
    "lift": check_lift,
    "dtypes": check_dtypes,
    "training": check_training,
    "state": check_state,
    "export": check_export,
}


def _matrices(out: Pooled, nodes: Tensor | None = None) -> list[Any]:
    """X' and A' of some pooled nodes, in an order that does not depend on their numbers."""
    nodes = torch.arange(out.x.size(0)) if nodes is None else nodes
    weight = out.edge_attr
    if weight is None or weight.dim() > 1:
        weight = out.x.new_ones(out.edge_index.size(1))
    size = out.x.size(0)
    dense = out.x.new_zeros(size, size).index_put(tuple(out.edge_index), weight, accumulate=True)
    X, A = (values.detach().numpy() for values in (out.x[nodes], dense[nodes][:, nodes]))
    # By their features, and by the features of their neighbours where these are equal.
    of_node = out.batch[nodes].view(-1, 1)
    keys = np.hstack([X, A @ X, of_node])
    order = np.lexsort(np.round(keys, 6).T[::-1])
    return [X[order], A[order][:, order]]


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def _require_close(one: list[Any], other: list[Any], otherwise: str) -> None:
    for a, b in zip(one, other, strict=True):
        _require(a.shape == b.shape and np.allclose(a, b, rtol=1e-7, atol=1e-7), otherwise)
