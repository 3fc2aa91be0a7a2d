"""The candidates of the trial: plain torch, and the kernels of :mod:`lcpool.ops.cells`.

A candidate selects, connects and reduces in one of these ways (see ``README.md``):

- select: **top-k**, the best node of each component first, or a **cover**: every node is kept or
  has a kept neighbour;
- connect: **hops**, the three hops of LCPool, or **cells**: every node belongs to its nearest kept
  node, and cells are joined where an edge joins them;
- reduce: **kept**, the gated features of the kept nodes; **gathered**, the sum of the gated
  features over the cell; **ungated**, the plain sum over the cell, with the gate's gradient alone.

Graphs are taken as undirected. A cover takes rounds, and a GPU synchronises in each.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from lcpool import LCSMP, Assignment, LocalClusterPooling, Score
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph
from lcpool.ops.cells import cells, places, topk_of_components
from lcpool.ops.connect import connect_assignment
from lcpool.ops.topk import topk
from lcpool.pool.scored import KeptNodes
from lcpool.pool.selection import Selection


class Drawn(Score):
    """A random score, drawn in every call, and features as they are: the control."""

    def values(self, x: Tensor, graph: Graph) -> Tensor:
        return torch.rand(x.size(0), device=x.device, dtype=x.dtype)

    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        return torch.ones_like(rank)


class Candidate(LocalClusterPooling):
    """One way to select, connect and reduce; a subclass says which."""

    cover: ClassVar[bool] = False
    cells: ClassVar[bool] = False
    reduction: ClassVar[str] = "kept"
    drawn: ClassVar[bool] = False

    def __init__(self, in_channels: int, ratio: float = 0.5) -> None:
        super().__init__(Drawn() if self.drawn else LCSMP(in_channels), ratio=ratio)
        self.in_channels = in_channels

    def select(self, graph: Graph, attn: Tensor | None = None) -> KeptNodes:
        plan = self.plan(graph)
        assert plan is not None
        value = self.score.rank(graph.x, graph)
        h = self.score.gate(value, graph).to(graph.x.dtype)
        place = places(value)
        if self.cover:
            kept, n = plan.kept.counts.to(place.device), graph.num_nodes
            first = covering(graph.edge_index, place, graph.batch_vector(), kept)
            key = torch.where(first, 2 * n - place, n - place)  # whole numbers, exact in a double
            perm, batch = topk(key.double(), graph, plan)
        else:
            perm, batch = topk_of_components(place, graph, plan)
        label = cells(graph, place, perm)
        weight = h if self.reduction == "gathered" else 1 + h - h.detach()
        S = Assignment.of_labels(label, perm.numel())
        S = S.with_weight(weight[S.node_index])
        X = graph.x[perm] * h[perm, None] if self.reduction == "kept" else S.reduce(graph.x)
        return KeptNodes(
            lambda: S, batch, plan.kept, perm=perm, score=h[perm], x=X, plan=plan
        )  # fmt: skip

    def connect(self, graph: Graph, S: Selection) -> tuple[Edges, Tensor | None]:
        if not self.cells:
            return super().connect(graph, S)
        assert isinstance(S, KeptNodes)
        index, _ = connect_assignment(
            graph.edge_index, S.assignment.with_weight(None), None, graph.batch, S.plan, False,
            self.max_edges, graph.checks,
        )  # fmt: skip
        return Edges(index, S.num_pooled, graph.edges.symmetric, in_order=True), None

    def lift(self, x: Tensor, S: Assignment) -> Tensor:
        return S.with_weight(None).lift(x)


def least(values: Tensor, edge_index: Tensor) -> Tensor:
    """The least value of each node and its neighbours."""
    return values.scatter_reduce(0, edge_index[1], values[edge_index[0]], "amin")


def covering(edge_index: Tensor, place: Tensor, batch: Tensor, kept: Tensor) -> Tensor:
    """A small set that covers all nodes: each node is in it or has a neighbour in it.

    Nodes are dropped from the worst to the best as long as all stay covered. That leaves a minimal
    dominating set; where it has more nodes than may be kept, its complement has at most half of
    them, and covers too (Ore 1962). Isolated nodes are in both.

    A node's turn depends on no node more than two hops away, so all whose turn has come within two
    hops are decided at once; the result is that of one after the other.
    """
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    edges = torch.stack([source, target])
    n = place.numel()
    turn = n - 1 - place  # the worst first
    undecided = torch.ones_like(place, dtype=torch.bool)
    inside = torch.ones_like(undecided)
    while undecided.any():
        waiting = torch.where(undecided, turn, n)
        now = undecided & (least(least(waiting, edges), edges) == turn)
        # How many neighbours inside each node has, and whether a dropped one hangs on one alone.
        support = torch.zeros_like(place).index_add(0, target, inside[source].long())
        hangs = ~inside & (support == 1)
        needed = torch.zeros_like(place).index_add(0, target, hangs[source].long()) > 0
        drop = now & (support > 0) & ~needed
        inside = inside & ~drop
        undecided = undecided & ~now
    degree = torch.zeros_like(place).index_add(0, target, torch.ones_like(target))
    count = torch.zeros_like(kept).index_add(0, batch, inside.long())
    too_many = (count > kept)[batch]
    return torch.where(too_many, ~inside | (degree == 0), inside)


def _candidate(name: str, **ways: object) -> type[Candidate]:
    return type(name, (Candidate,), {"__module__": __name__, **ways})


# Top-k with three hops is LCPool itself.
TopkCellsKept = _candidate("TopkCellsKept", cells=True)
TopkCellsGathered = _candidate("TopkCellsGathered", cells=True, reduction="gathered")
TopkCellsUngated = _candidate("TopkCellsUngated", cells=True, reduction="ungated")
CoverHopsKept = _candidate("CoverHopsKept", cover=True)
CoverCellsKept = _candidate("CoverCellsKept", cover=True, cells=True)
CoverCellsGathered = _candidate("CoverCellsGathered", cover=True, cells=True, reduction="gathered")
CoverCellsUngated = _candidate("CoverCellsUngated", cover=True, cells=True, reduction="ungated")
# With a random score the gate is one, so that gathered and ungated are the same.
RandomHopsKept = _candidate("RandomHopsKept", drawn=True)
RandomCellsKept = _candidate("RandomCellsKept", drawn=True, cells=True)
RandomCellsGathered = _candidate(
    "RandomCellsGathered", drawn=True, cells=True, reduction="gathered"
)
RandomCoverHopsKept = _candidate("RandomCoverHopsKept", drawn=True, cover=True)
RandomCoverCellsKept = _candidate("RandomCoverCellsKept", drawn=True, cover=True, cells=True)
RandomCoverCellsGathered = _candidate(
    "RandomCoverCellsGathered", drawn=True, cover=True, cells=True, reduction="gathered"
)
CANDIDATES = [value for value in globals().values() if isinstance(value, type)
              and issubclass(value, Candidate) and value is not Candidate]  # fmt: skip
