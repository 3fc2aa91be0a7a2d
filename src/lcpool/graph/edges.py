"""The edges of a graph, and each node's neighbours by rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lcpool.graph.lazy import lazy
from lcpool.graph.sizes import owners, row_pointers
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import operator


@dataclass(frozen=True, eq=False)
class Neighbours:
    """A list of nodes for each node: row i is ``node[ptr[i] : ptr[i + 1]]``.

    ``entry`` is the number of each in :class:`Entries`; None where these stand in order.
    """

    ptr: Tensor
    node: Tensor
    entry: Tensor | None = None

    @classmethod
    def of(cls, row: Tensor, node: Tensor, num_rows: int, in_order: bool = False) -> Neighbours:
        """Sort ``node`` by ``row``, unless it is; within a row the order stays."""
        if in_order:
            return cls(row_pointers(row, num_rows), node.contiguous())
        return cls(*sorted_rows(row, node, num_rows))

    @classmethod
    def numbered(cls, row: Tensor, node: Tensor, num_rows: int) -> Neighbours:
        """The same with the number of each entry."""
        numbers = torch.arange(row.numel(), device=row.device)
        ptr, entry = sorted_rows(row, numbers, num_rows)
        return cls(ptr, node.index_select(0, entry), entry)


class Entries:
    """The entries of a sparse matrix, M[source, target], whose values stand by their number.

    Args:
        source: the row of each entry.
        target: its column.
        num_sources: rows of M.
        num_targets: columns of M.
        out: the targets of each source, where they are known; sorted on first use otherwise.
        into: the sources of each target, likewise.
    """

    def __init__(
        self,
        source: Tensor,
        target: Tensor,
        num_sources: int,
        num_targets: int,
        out: Neighbours | None = None,
        into: Neighbours | None = None,
    ) -> None:
        self.source, self.target = source, target
        self.num_sources, self.num_targets = num_sources, num_targets
        if out is not None:
            self.out = out
        if into is not None:
            self.into = into

    @lazy
    def out(self) -> Neighbours:
        """The targets of each source."""
        return Neighbours.numbered(self.source, self.target, self.num_sources)

    @lazy
    def into(self) -> Neighbours:
        """The sources of each target."""
        return Neighbours.numbered(self.target, self.source, self.num_targets)

    @property
    def reversed(self) -> Entries:
        """Mᵀ, with the rows of M."""
        return Entries(
            self.target, self.source, self.num_targets, self.num_sources, self.into, self.out
        )

    @classmethod
    def by_target(cls, into: Neighbours, num_sources: int) -> Entries:
        """Entries that are numbered by target."""
        target, num_targets = owners(into.ptr, into.node.numel()), into.ptr.numel() - 1
        known = Neighbours(into.ptr, into.node)
        return cls(into.node, target, num_sources, num_targets, into=known)


class Edges:
    """A, and what is known of it.

    Args:
        index: source and target of each edge, ``[2, num_edges]``; A[source, target] ≠ 0.
        num_nodes: the number of nodes.
        symmetric: whether every edge is known to stand in both directions, equally often.
        in_order: whether the edges are known to be sorted by source.
        complete: k, where the edges are all k² of graphs of k nodes, sorted.
        out: the targets of each node's edges, where they are known; sorted on first use otherwise.
        into: the sources of the edges into each node, likewise.
    """

    def __init__(
        self,
        index: Tensor,
        num_nodes: int,
        symmetric: bool = False,
        in_order: bool = False,
        complete: int | None = None,
        out: Neighbours | None = None,
        into: Neighbours | None = None,
    ) -> None:
        self.index, self.num_nodes = index, num_nodes
        self.symmetric, self.in_order, self.complete = symmetric, in_order, complete
        if out is not None:
            self.out = out
        if into is not None:
            self.into = into

    @lazy
    def out(self) -> Neighbours:
        """The targets of each node's edges."""
        return Neighbours.of(self.index[0], self.index[1], self.num_nodes, self.in_order)

    @lazy
    def into(self) -> Neighbours:
        """The sources of the edges into each node."""
        if self.symmetric:
            return self.out
        return Neighbours.of(self.index[1], self.index[0], self.num_nodes)

    @lazy
    def entries(self) -> Entries:
        """The edges by their numbers, for weights."""
        known = self.out if self.in_order else None
        return Entries(self.index[0], self.index[1], self.num_nodes, self.num_nodes, out=known)

    @property
    def reversed(self) -> Edges:
        """Aᵀ, with the rows of A. Not kept: two that hold each other would outlive their use."""
        if self.symmetric:
            return self
        return Edges(self.index.flip(0), self.num_nodes, out=self.into, into=self.out)

    @classmethod
    def of_rows(cls, index: Tensor, num_nodes: int, rows: Sequence[Tensor]) -> Edges:
        """Edges with the rows that :meth:`rows` gave to an operator, or none."""
        if not rows:
            return cls(index, num_nodes)
        out_ptr, out_node, into_ptr, into_node = rows
        out, into = Neighbours(out_ptr, out_node), Neighbours(into_ptr, into_node)
        return cls(index, num_nodes, out=out, into=into)

    def rows(self) -> list[Tensor]:
        """The rows out of each node and into it, as an operator takes them."""
        return [self.out.ptr, self.out.node, self.into.ptr, self.into.node]


def loop_weights(index: Tensor, weight: Tensor, num_nodes: int) -> Tensor:
    """The weight of each node's self-loop, 1 where it has none."""
    # Edges that are no loops write to a row past the last.
    place = index[0].masked_fill(index[0] != index[1], num_nodes)
    return weight.new_ones(num_nodes + 1).scatter(0, place, weight)[:-1]


class SortedRows:
    """Where each row begins in nodes sorted by row, and these."""

    @staticmethod
    def forward(row: Tensor, node: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
        """By a kernel."""
        return kernels(row).sort_by_row(row, node, num_rows)

    @staticmethod
    def fake(row: Tensor, node: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
        return row.new_empty(num_rows + 1), node.new_empty(node.shape)


sorted_rows = operator(
    "sorted_rows(Tensor row, Tensor node, SymInt num_rows) -> (Tensor, Tensor)", SortedRows
)
