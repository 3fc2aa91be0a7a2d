"""Graphs padded to fixed sizes, for a step that is captured once and replayed.

The host knows upper bounds, the device the real sizes. The padding may hold anything; sums run over
graphs, neighbours or runs, so that none reads it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lcpool.graph.capture import NotCapturableError
from lcpool.graph.edges import Edges, Entries, Neighbours
from lcpool.graph.lazy import lazy
from lcpool.graph.sizes import Sizes, owners


class Bounded(Sizes):
    """Sizes of graphs that belong to several runs, run after run, as many in each.

    Attributes:
        counts: no graph has more nodes than this, on the host, the same number for each.
        ptr: the first node of each graph, and the end of the last, on the device.
        total: the rows of a tensor with a row per node; the first ``ptr[-1]`` are nodes.
        runs: the number of runs.
        longest: no run has more nodes than this.

    Sum over nodes by ``ptr``, or make padding rows zero (:func:`real_rows`): ``batch`` names a
    graph for these, too.
    """

    def __init__(self, ptr: Tensor, most: int, total: int, runs: int, longest: int) -> None:
        self.counts, self.ptr, self.total = torch.full((ptr.numel() - 1,), most), ptr, total
        self.runs, self.longest = runs, longest

    @lazy
    def batch(self) -> Tensor:
        """The graph of each node; that of the last graph for other rows."""
        return owners(self.ptr, self.total).clamp_(max=self.counts.numel() - 1)

    @lazy
    def real(self) -> Tensor:
        """Which rows are nodes, not padding, ``[total]``."""
        return torch.arange(self.total, device=self.ptr.device) < self.ptr[-1]


class BoundedEdges(Edges):
    """Undirected edges, as the neighbours of each node.

    Args:
        rows: the neighbours; ``node`` is padded, and padding rows have no neighbours.
        reach: a function of t: no more pairs of nodes than this are at most t hops apart; of
            infinity: no more pairs are in the same graph.
        distinct: no edge occurs twice.
        source: the node whose row each place is in, if it was written with the rows.
        loops: whether each node has a self-loop, or none has; None if that is not known.
        ascending: each row is sorted.
    """

    def __init__(
        self,
        rows: Neighbours,
        reach: Callable[[float], int],
        distinct: bool,
        source: Tensor | None = None,
        loops: bool | None = None,
        ascending: bool = False,
    ) -> None:
        self.out, self.num_nodes = rows, rows.ptr.numel() - 1
        self.reach, self.distinct = reach, distinct
        self.loops, self.ascending = loops, ascending
        self.symmetric = self.in_order = True
        if source is not None:
            self.source = source

    @property
    def room(self) -> int:
        return self.out.node.numel()

    @lazy
    def source(self) -> Tensor:
        """The node whose row each place is in."""
        return owners(self.out.ptr, self.room)

    @lazy
    def reverse(self) -> Tensor:
        """The number of the edge from j to i, for each edge from i to j."""
        if not self.distinct:
            raise NotCapturableError("some edges occur twice, and each has its own weight")
        from lcpool.ops.connect.bounded import reverse_edges

        return reverse_edges(self)

    @lazy
    def entries(self) -> Entries:
        """The edges by source, with their numbers, for weights."""
        into = self.out._replace(entry=self.reverse)
        n = self.num_nodes
        return Entries(self.source, self.out.node, n, n, out=self.out, into=into)

    @property
    def by_target(self) -> Entries:
        # A = Aᵀ: the row of a node has the sources of the edges into it.
        return self.entries.reversed

    @property
    def index(self) -> Tensor:  # type: ignore[override]
        """Not known: a tensor of its size would have to be made."""
        raise NotCapturableError("it asks for 'edge_index', whose size is not known")


def real_rows(values: Tensor, sizes: Sizes | None) -> Tensor:
    """Values per node, with zeros in padding rows, for sums over all rows."""
    if not isinstance(sizes, Bounded):
        return values
    real = sizes.real if values.dim() == 1 else sizes.real.unsqueeze(-1)
    return values.where(real, 0.0)
