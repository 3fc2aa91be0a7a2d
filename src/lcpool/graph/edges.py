"""The edges of a graph, and each node's neighbours in rows."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lcpool.graph.checks import Checks, check_count, check_edge_index
from lcpool.graph.lazy import lazy
from lcpool.graph.sizes import owners, row_pointers
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import as_operator, is_traced


class Neighbours(NamedTuple):
    """A list of nodes for each node: row i is ``node[ptr[i] : ptr[i + 1]]``.

    ``entry`` is the number of each in :class:`Entries`; None where they are numbered in this order.
    """

    ptr: Tensor
    node: Tensor
    entry: Tensor | None = None

    @classmethod
    def of(cls, row: Tensor, node: Tensor, num_rows: int, in_order: bool = False) -> Neighbours:
        """Sort ``node`` by ``row``, unless it is sorted; within a row the order stays."""
        if in_order:
            return cls(row_pointers(row, num_rows), node.contiguous())
        return cls(*sorted_rows(row, node, num_rows))

    @classmethod
    def numbered(cls, row: Tensor, node: Tensor, num_rows: int) -> Neighbours:
        """The same with the number of each entry."""
        numbers = torch.arange(row.numel(), device=row.device)
        ptr, entry = sorted_rows(row, numbers, num_rows)
        return cls(ptr, node.index_select(0, entry), entry)


class BothWays(NamedTuple):
    """The sources of edges into each node and, for gradients, the targets of edges out of it."""

    ptr: Tensor
    node: Tensor
    out_ptr: Tensor | None = None
    out_node: Tensor | None = None

    @property
    def reversed(self) -> tuple[Tensor | None, ...]:
        """Those of Aᵀ."""
        return self[2:] + self[:2]


class EntriesBothWays(NamedTuple):
    """The sources of entries into each target and, for gradients, the targets of each source."""

    ptr: Tensor
    node: Tensor
    entry: Tensor | None
    out_ptr: Tensor | None = None
    out_node: Tensor | None = None
    out_entry: Tensor | None = None

    @property
    def reversed(self) -> tuple[Tensor | None, ...]:
        """Those of Mᵀ."""
        return self[3:] + self[:3]


# How an operator declares them.
BOTH_WAYS = "Tensor ptr, Tensor node, Tensor? out_ptr, Tensor? out_node"
ENTRIES_BOTH_WAYS = (
    "Tensor ptr, Tensor node, Tensor? entry, Tensor? out_ptr, Tensor? out_node, Tensor? out_entry"
)


class Entries:
    """The numbered entries of a sparse matrix, M[source, target], without their values.

    The indices are trusted to be in range. ``out`` and ``into``, the targets of each source and the
    sources of each target, are sorted on first use unless they are known.
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
        return cls(into.node, target, num_sources, num_targets, into=into._replace(entry=None))

    def both_ways(self, *inputs: Tensor) -> EntriesBothWays:
        """The rows that a sum needs, and those of its gradient if one of ``inputs`` has one."""
        return EntriesBothWays(*self.into, *(self.out if _need_gradient(inputs) else ()))


class Edges:
    """The adjacency matrix A as a list of edges, and what is known about their order.

    A[source, target] ≠ 0 for each edge (source, target).

    Args:
        index: source and target of each edge, ``[2, num_edges]``.
        num_nodes: the number of nodes.
        symmetric: A = Aᵀ is known.
        in_order: the edges are known to be sorted by source.
        like: a tensor on the device where the edges must be.

    The indices are checked, for which a GPU synchronises; see :meth:`trusted`. ``complete`` is k
    where the edges are known to be all k² of graphs of k nodes, sorted. ``loops`` says whether each
    node is known to have a self-loop, or none. Both are None, as here, if that is not known.
    """

    complete: int | None = None
    loops: bool | None = None

    def __init__(
        self,
        index: Tensor,
        num_nodes: int,
        symmetric: bool = False,
        in_order: bool = False,
        like: Tensor | None = None,
    ) -> None:
        checks = Checks()
        if not is_traced():
            check_count("num_nodes", num_nodes)
        self.index = check_edge_index(index, num_nodes, checks, like)
        checks.settle()
        self.num_nodes, self.symmetric, self.in_order = num_nodes, symmetric, in_order

    @classmethod
    def trusted(
        cls,
        index: Tensor,
        num_nodes: int,
        symmetric: bool = False,
        in_order: bool = False,
        complete: int | None = None,
        out: Neighbours | None = None,
        into: Neighbours | None = None,
    ) -> Edges:
        """Edges whose indices are known to be in range: kernels read memory by them."""
        edges = cls.__new__(cls)
        edges.index, edges.num_nodes, edges.complete = index, num_nodes, complete
        edges.symmetric, edges.in_order = symmetric, in_order
        if out is not None:
            edges.out = out
        if into is not None:
            edges.into = into
        return edges

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
    def around(self) -> Neighbours:
        """The neighbours of each node, whatever the direction of the edges."""
        if self.symmetric:
            return self.out
        row, node = torch.cat([self.index, self.index.flip(0)], dim=1)
        return Neighbours.of(row, node, self.num_nodes)

    @lazy
    def entries(self) -> Entries:
        """The edges with their numbers, for weights."""
        known = self.out if self.in_order else None
        return Entries(self.index[0], self.index[1], self.num_nodes, self.num_nodes, out=known)

    @property
    def by_target(self) -> Entries:
        """The edges, numbered by target."""
        return Entries.by_target(self.into, self.num_nodes)

    @property
    def room(self) -> int:
        """The rows of a tensor with a row per edge."""
        return self.index.size(1)

    @property
    def reversed(self) -> Edges:
        """Aᵀ, with the rows of A. Not cached: two that hold each other would outlive their use."""
        if self.symmetric:
            return self
        return Edges.trusted(self.index.flip(0), self.num_nodes, out=self.into, into=self.out)

    @classmethod
    def of_rows(cls, index: Tensor, num_nodes: int, rows: BothWays | None) -> Edges:
        """Edges with the rows that an operator was given, if any."""
        if rows is None or rows.out_ptr is None or rows.out_node is None:
            return cls.trusted(index, num_nodes)
        out = Neighbours(rows.out_ptr, rows.out_node)
        return cls.trusted(index, num_nodes, out=out, into=Neighbours(rows.ptr, rows.node))

    def rows(self) -> BothWays:
        """The edges into each node and out of it, as an operator takes them."""
        return BothWays(self.into.ptr, self.into.node, self.out.ptr, self.out.node)

    def both_ways(self, *inputs: Tensor) -> BothWays:
        """The rows that a sum needs, and those of its gradient if one of ``inputs`` has one."""
        return self.rows() if _need_gradient(inputs) else BothWays(self.into.ptr, self.into.node)


def _need_gradient(inputs: tuple[Tensor, ...]) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in inputs)


def loop_weights(index: Tensor, weight: Tensor, num_nodes: int) -> Tensor:
    """The weight of each node's self-loop, 1 where it has none."""
    # Edges that are not loops write to a row past the last.
    place = index[0].masked_fill(index[0] != index[1], num_nodes)
    return weight.new_ones(num_nodes + 1).scatter(0, place, weight)[:-1]


@as_operator(
    "sorted_rows(Tensor row, Tensor node, SymInt num_rows) -> (Tensor, Tensor)",
    lambda row, node, num_rows: (row.new_empty(num_rows + 1), node.new_empty(node.shape)),
)
def sorted_rows(row: Tensor, node: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
    """Where each row begins among nodes sorted by row, and these nodes."""
    return kernels(row).sort_by_row(row, node, num_rows)
