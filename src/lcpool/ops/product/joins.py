"""Sparse matrix products by sorted joins, in plain torch: no ``torch.sparse``, gradients included.

Products of ``torch.sparse`` fault or run out of memory on GPUs, and have no gradient on a CPU for
the pattern needed here. In a join, entry (i, n) of the left matrix meets every entry (n, j) of row
n on the right, and meetings with the same (i, j) are added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.checks import Checks, check_max_edges
from lcpool.graph.sizes import row_pointers

# Meetings that a join holds at a time; each takes 16 to 40 bytes.
MAX_MEETINGS = 2**24


@dataclass(frozen=True)
class Coordinates:
    """A sparse matrix in coordinates; ``value`` is None for ones."""

    row: Tensor
    col: Tensor
    value: Tensor | None

    def between(self, start: int, stop: int) -> Coordinates:
        """The entries ``start`` to ``stop``."""
        value = None if self.value is None else self.value[start:stop]
        return Coordinates(self.row[start:stop], self.col[start:stop], value)


@dataclass(frozen=True)
class SparseRows:
    """A sparse matrix by rows: row i holds the entries ``ptr[i]`` to ``ptr[i + 1]``."""

    ptr: Tensor
    entries: Coordinates

    @classmethod
    def of(cls, row: Tensor, col: Tensor, value: Tensor | None, num_rows: int) -> SparseRows:
        """Sort the entries by row; within a row they keep their order."""
        row, order = row.sort(stable=True)
        value = None if value is None else value.index_select(0, order)
        return cls(row_pointers(row, num_rows), Coordinates(row, col[order], value))

    @property
    def lengths(self) -> Tensor:
        """The number of entries of each row."""
        return self.ptr.diff()


def multiply(left: Coordinates, right: SparseRows, num_cols: int, checks: Checks) -> Coordinates:
    """The product, its entries sorted by row and column, each position once."""
    lengths = right.lengths[left.col]
    (total,) = checks.read(lengths.sum())
    meeting = torch.arange(lengths.numel(), device=lengths.device)
    here = meeting.repeat_interleave(lengths, output_size=total)
    first = right.ptr[left.col] - (lengths.cumsum(0) - lengths)
    there = torch.arange(total, device=lengths.device) + first[here]
    keys = left.row[here] * num_cols + right.entries.col[there]
    if left.value is None and right.entries.value is None:
        keys = torch.unique(keys)
        return Coordinates(keys // num_cols, keys % num_cols, None)
    keys, place = torch.unique(keys, return_inverse=True)
    sides = ((left.value, here), (right.entries.value, there))
    met = [value.index_select(0, at) for value, at in sides if value is not None]
    value = met[0] if len(met) == 1 else met[0] * met[1]
    value = value.new_zeros(keys.numel()).index_add(0, place, value)
    return Coordinates(keys // num_cols, keys % num_cols, value)


class TripleProduct:
    """(Sᵀ A) S in blocks of whole rows, so that a block's meetings fit in memory.

    Args:
        Sr: the rows of Sᵀ.
        A: the rows of A.
        S: the rows of S.
        num_cols: the number of columns of S.
        checks: pending checks, read with the first size.

    Attributes:
        work: the number of all meetings, a bound on the number of entries.
    """

    def __init__(
        self, Sr: SparseRows, A: SparseRows, S: SparseRows, num_cols: int, checks: Checks
    ) -> None:
        self.Sr, self.A, self.S, self.num_cols, self.checks = Sr, A, S, num_cols, checks
        work = meetings(Sr, A, S)
        self.work, size = checks.read(work.sum(), Sr.ptr[-1])
        self.cuts = [0, *Sr.ptr[cuts(work, self.work)].tolist(), size]

    def blocks(self) -> Iterator[Coordinates]:
        """The entries of the product, block after block, sorted."""
        num_nodes = max(self.A.ptr.numel() - 1, 1)
        for start, stop in pairwise(self.cuts):
            left = self.Sr.entries.between(start, stop)
            half = multiply(left, self.A, num_nodes, self.checks)
            yield multiply(half, self.S, self.num_cols, self.checks)


def cuts(work: Tensor, total: int) -> Tensor:
    """Where to cut rows with this much ``work`` so that each block has about MAX_MEETINGS."""
    if total <= MAX_MEETINGS:
        return work.new_empty(0)
    block = (work.cumsum(0) - work) // MAX_MEETINGS
    return torch.nonzero(block.diff()).view(-1) + 1


def meetings(Sr: SparseRows, A: SparseRows, S: SparseRows) -> Tensor:
    """A bound on the meetings of each row of Sᵀ in either join of (Sᵀ A) S."""
    through = A.lengths.index_add(0, A.entries.row, S.lengths[A.entries.col])
    work = through.new_zeros(Sr.ptr.numel() - 1)
    return work.index_add_(0, Sr.entries.row, through[Sr.entries.col])


def connect_by_joins(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    S: Assignment,
    self_loops: bool,
    max_edges: int,
    checks: Checks,
    left: Assignment | None = None,
) -> tuple[Tensor, Tensor | None]:
    """SᵀAS by joins, block by block; counted first where it might exceed ``max_edges``.

    ``left`` replaces the first S; it has as many clusters.
    """
    left = S if left is None else left
    A = SparseRows.of(edge_index[0], edge_index[1], edge_weight, S.num_nodes)
    by_node = SparseRows.of(S.node_index, S.cluster_index, S.weight, S.num_nodes)
    by_cluster = SparseRows.of(left.cluster_index, left.node_index, left.weight, left.num_clusters)
    product = TripleProduct(by_cluster, A, by_node, max(S.num_clusters, 1), checks)
    if product.work > max_edges:
        with torch.no_grad():
            count = sum(off_diagonal(b, self_loops)[0].size(1) for b in product.blocks())
        check_max_edges(max_edges, count)
    found = [off_diagonal(block, self_loops) for block in product.blocks()]
    weights = [weight for _, weight in found if weight is not None]
    edges = torch.cat([edges for edges, _ in found], dim=1)
    return edges, torch.cat(weights) if weights else None


def off_diagonal(block: Coordinates, self_loops: bool) -> tuple[Tensor, Tensor | None]:
    """Edges and weights of a block of A', without the diagonal unless ``self_loops``."""
    edges, weight = torch.stack([block.row, block.col]), block.value
    if self_loops:
        return edges, weight
    off = (block.row != block.col).nonzero().view(-1)
    return edges[:, off], None if weight is None else weight.index_select(0, off)


def gradients_by_joins(
    grad: Tensor, edges: Tensor, edge_index: Tensor, edge_weight: Tensor, S: Assignment
) -> tuple[Tensor, Tensor]:
    """The gradients of the weights of A and of the entries of S, from those of SᵀAS.

    An edge (n, m) of A makes entry (n, p) of S meet every entry (m, q): s_np a_nm s_mq is a summand
    of a'_pq, and the gradient of each factor is g_pq times the other two. Autograd can
    differentiate them again.

    Args:
        grad: the gradient of the weights.
        edges: the edges of SᵀAS, sorted; summands elsewhere have no gradient.
        edge_index: the edges of A.
        edge_weight: its entries.
        S: the assignment, with values.
    """
    assert S.weight is not None
    by_node = SparseRows.of(
        S.node_index,
        torch.arange(S.node_index.numel(), device=S.node_index.device),
        None,
        S.num_nodes,
    )
    entry, lengths = by_node.entries.col, by_node.lengths
    keys = edges[0] * S.num_clusters + edges[1]
    work = lengths[edge_index[0]] * lengths[edge_index[1]]
    total = int(work.sum())
    of_weight, of_value = torch.zeros_like(edge_weight), torch.zeros_like(S.weight)
    if not keys.numel():
        return of_weight, of_value
    for start, stop in pairwise([0, *cuts(work, total).tolist(), work.numel()]):
        here, (source, target) = work[start:stop], edge_index[:, start:stop]
        first = here.cumsum(0) - here
        e = torch.arange(stop - start, device=work.device).repeat_interleave(here)
        met, right = torch.arange(e.numel(), device=work.device) - first[e], lengths[target][e]
        i = entry[by_node.ptr[source][e] + met // right]
        j = entry[by_node.ptr[target][e] + met % right]
        key = S.cluster_index[i] * S.num_clusters + S.cluster_index[j]
        at = torch.searchsorted(keys, key).clamp(max=keys.numel() - 1)
        found = keys[at] == key
        e, i, j, at = (t[found] for t in (e + start, i, j, at))
        g, a, s, t = (
            values.index_select(0, where)
            for values, where in ((grad, at), (edge_weight, e), (S.weight, i), (S.weight, j))
        )
        of_weight = of_weight.index_add(0, e, g * s * t)
        of_value = of_value.index_add(0, i, g * a * t).index_add(0, j, g * s * a)
    return of_weight, of_value
