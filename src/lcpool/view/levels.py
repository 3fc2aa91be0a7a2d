"""What the poolings of a network made of each graph: kept nodes, clusters, edges kept and new."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from lcpool.extras import MissingExtraError
from lcpool.graph.assignment import Assignment, positions
from lcpool.graph.graph import Graph
from lcpool.pool import NoPooling, Pooled


@dataclass(frozen=True, eq=False, repr=False)
class Level:
    """One graph after a pooling; "before" is the graph that went into it.

    Attributes:
        num_nodes: the number of pooled nodes.
        edge_index: the edges of A' between the pooled nodes 0, 1, …, ``[2, edges]``.
        edge_attr: weights or attributes of these edges, or None.
        new: whether each edge is new, ``[edges]``. It is not new if the graph before had an edge
            between the two kept nodes or, where a pooled node is all nodes of its cluster, from a
            node of the one to a node of the other. None where that has no meaning: nodes have a
            part in several clusters (DiffPool, MinCut, DMoN), or the layer does not tell.
        perm: the node before that each pooled node came from; None if there is no such node.
        score: h of the pooled nodes, or None.
        labels: the pooled node that each node before belongs to most, −1 for none; None if the
            layer does not tell.
        assignment: S, from the nodes before to the pooled nodes; None if the layer does not tell.
    """

    num_nodes: int
    edge_index: Tensor
    edge_attr: Tensor | None = None
    new: Tensor | None = None
    perm: Tensor | None = None
    score: Tensor | None = None
    labels: Tensor | None = None
    assignment: Assignment | None = None

    @property
    def weight(self) -> Tensor | None:
        """One weight per edge, ``[edges]``; None if there are none, or several attributes."""
        attr = self.edge_attr
        if attr is None or attr.numel() != self.edge_index.size(1):
            return None
        return attr.reshape(-1).float()

    @property
    def is_soft(self) -> bool:
        """Whether a node has a part in several clusters, and none of these is a kept node."""
        return self.perm is None and self.new is None and self.assignment is not None

    @property
    def has_cells(self) -> bool:
        """Whether some pooled node is made of several nodes, as far as the layer tells."""
        labels = self.labels
        return labels is not None and bool((labels[labels >= 0].bincount() > 1).any())

    def __repr__(self) -> str:
        new = "" if self.new is None else f", {int(self.new.sum())} of them new"
        return f"Level({self.num_nodes} nodes, {self.edge_index.size(1)} edges{new})"


@dataclass(frozen=True, eq=False, repr=False)
class PooledGraph:
    """One graph, what each pooling of a network made of it, and what the network says of it.

    Attributes:
        graph: the graph as it was; with ``y`` and, if the data had it, ``pos``.
        levels: the graph after each pooling; empty if the network does not pool.
        number: the number of the graph in its set.
        prediction: as :meth:`lcpool.train.Model.predict` gives it: a label, or a row of numbers.
        probabilities: one per class or label; None for values.
        truth: the label or the row of numbers that is known, or None.
    """

    graph: Data
    levels: tuple[Level, ...]
    number: int = 0
    prediction: Any = None
    probabilities: Tensor | None = None
    truth: Any = None

    def __repr__(self) -> str:
        counts = " → ".join(map(str, (self.graph.num_nodes, *(v.num_nodes for v in self.levels))))
        said = f"predicted {written(self.prediction)}, truth {written(self.truth)}"
        return f"PooledGraph(number {self.number}: {counts} nodes; {said})"

    def _repr_html_(self) -> str:
        """The drawing of :func:`lcpool.draw`, in a notebook."""
        words = html.escape(repr(self).partition("(")[2][:-1])
        try:
            from lcpool.view.figure import draw, svg
        except MissingExtraError as missing:
            return f"<p>{words} ({html.escape(str(missing))})</p>"
        return f"<p>{words}</p>{svg(draw(self.graph, self))}"


def written(value: Any) -> str:
    """A label or a row of numbers in words; a dash for None and NaN."""
    if isinstance(value, Tensor):
        return ", ".join(map(written, value.tolist()))
    if value is None or value != value:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Call(NamedTuple):
    """One call of a pooling: the graphs that went in, and what came out."""

    before: Graph
    out: Pooled


@contextmanager
def recorded(pools: nn.ModuleList) -> Iterator[list[Call]]:
    """A list of all calls of these poolings inside, but of :class:`NoPooling`."""
    calls: list[Call] = []

    def record(_: nn.Module, given: tuple[Any, ...], out: Pooled) -> None:
        calls.append(Call(given[1], out))

    hooks = [p.register_forward_hook(record) for p in pools if not isinstance(p, NoPooling)]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def level_of(graph: Graph, out: Pooled) -> Level:
    """The level of a batch of one graph."""
    if graph.batch_size != 1:
        raise ValueError(
            f"this is the output for {graph.batch_size} graphs; pool one at a time to draw it."
        )
    return levels_of(graph, out)[0]


def levels_of(before: Graph, out: Pooled) -> list[Level]:
    """What a pooling made of each graph of a batch, nodes numbered from 0 in each; on the host."""
    after, size = out.graph, before.batch_size
    of_node, of_pooled = before.batch_vector().cpu(), after.batch_vector().cpu()
    nodes, pooled = Rows.of(of_node, size), Rows.of(of_pooled, size)
    index = after.edge_index.cpu()
    edges = Rows.of(of_pooled[index[0]], size)
    perm = None if out.perm is None else out.perm.cpu()
    labels = S = None
    if out.made is not None:
        labels, S = out.labels().cpu(), out.assignment
    elif perm is not None:
        labels = positions(perm, before.num_nodes)
    by_cluster = labels is not None and (out.merges or perm is None)
    new = new_edges(before.edge_index.cpu(), index, perm, labels if by_cluster else None)
    news = edges.split(new)
    if by_cluster and S is not None:
        soft = shared(S, nodes, pooled, of_node)
        news = [None if soft[g] else part for g, part in enumerate(news)]
    columns = zip(
        pooled.counts,
        edges.split(pooled.place[index].t()),
        edges.split(None if after.edge_attr is None else after.edge_attr.detach().cpu()),
        news,
        pooled.split(None if perm is None else nodes.place[perm]),
        pooled.split(None if out.score is None else out.score.detach().cpu().view(-1)),
        nodes.split(None if labels is None else _places(labels, pooled)),
        assignments(S, nodes, pooled, of_node),
        strict=True,
    )
    return [Level(n, ends.t(), *others) for n, ends, *others in columns]


class Rows(NamedTuple):
    """Rows of a batch by graph."""

    order: Tensor  # all rows, sorted by graph
    counts: list[int]  # rows of each graph
    place: Tensor  # the number of each row in its graph, from 0

    @classmethod
    def of(cls, batch: Tensor, size: int) -> Rows:
        """From the graph of each row."""
        order, counts = batch.argsort(stable=True), batch.bincount(minlength=size)
        place = torch.empty_like(order)
        first = (counts.cumsum(0) - counts)[batch[order]]
        place[order] = torch.arange(order.numel()) - first
        return cls(order, counts.tolist(), place)

    def split(self, values: Tensor | None) -> list[Any]:
        """The rows of each graph; None for each if there are none."""
        if values is None:
            return [None] * len(self.counts)
        return list(torch.split(values[self.order], self.counts))


def _places(labels: Tensor, pooled: Rows) -> Tensor:
    """Labels that count from 0 in each graph; −1 stays."""
    return labels if not pooled.place.numel() else pooled.place[labels].where(labels >= 0, -1)


def assignments(S: Assignment | None, nodes: Rows, pooled: Rows, of_node: Tensor) -> list[Any]:
    """S of each graph."""
    if S is None:
        return [None] * len(nodes.counts)
    row, column = S.node_index.cpu(), S.cluster_index.cpu()
    entries = Rows.of(of_node[row], len(nodes.counts))
    parts = zip(
        entries.split(nodes.place[row]), nodes.counts,
        entries.split(pooled.place[column]), pooled.counts,
        entries.split(None if S.weight is None else S.weight.detach().cpu()), strict=True,
    )  # fmt: skip
    return [Assignment.trusted(*part) for part in parts]


def new_edges(
    before: Tensor, after: Tensor, perm: Tensor | None, labels: Tensor | None
) -> Tensor | None:
    """Whether each pooled edge is new: by the clusters of ``labels``, else by the kept nodes."""
    if labels is not None:
        known, ends = labels[before], after
        known = known[:, (known >= 0).all(0)]
    elif perm is not None:
        known, ends = before, perm[after]
    else:
        return None
    columns = 1 + max(int(part.max()) if part.numel() else 0 for part in (known, ends))
    return ~torch.isin(ends[0] * columns + ends[1], known[0] * columns + known[1])


def shared(S: Assignment, nodes: Rows, pooled: Rows, of_node: Tensor) -> list[bool]:
    """Whether each graph has a node in several clusters, or clusters and no node."""
    several = S.node_index.cpu().bincount(minlength=of_node.numel()) > 1
    found = of_node[several].bincount(minlength=len(nodes.counts)).tolist()
    return [
        bool(count or (after and not before))
        for count, before, after in zip(found, nodes.counts, pooled.counts, strict=True)
    ]


def pairs(ends: Tensor) -> tuple[Tensor, Tensor]:
    """Each pair of joined nodes once, without loops, ``[pairs, 2]``, and the edge that it is."""
    low, high = np.sort(ends.numpy(), axis=0)  # in a third of torch's time
    size = int(high.max(initial=0)) + 1
    key, first = np.unique(low * size + high, return_index=True)
    both = np.stack([key // size, key % size], axis=1)
    apart = both[:, 0] != both[:, 1]
    return torch.from_numpy(both[apart]), torch.from_numpy(first[apart])
