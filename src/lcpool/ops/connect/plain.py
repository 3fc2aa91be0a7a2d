"""S'ᵀAS' by sorted joins, in plain torch: no ``torch.sparse``, gradients included.

Products of ``torch.sparse`` fault or run out of memory on GPUs, and have no gradient on a CPU for
the pattern needed here. In a join, entry (i, n) of the left matrix meets every entry (n, j) of row
n on the right, and meetings with the same (i, j) are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment, clusters
from lcpool.graph.checks import Checks, check_max_edges
from lcpool.graph.edges import Edges
from lcpool.graph.sizes import row_pointers
from lcpool.ops.topk import Kept

__all__ = [
    "cluster_search", "connect_assignment", "connect_assignment_backward", "connect_clusters",
    "takes_assignment",
]  # fmt: skip

# Meetings that a join holds at a time; each takes 16 to 40 bytes.
MAX_MEETINGS = 2**24


def connect_clusters(
    edges: Edges, kept: Kept, batch: object, plan: object, self_loops: bool, max_edges: int,
    checks: Checks, hops: int,
) -> Tensor:  # fmt: skip
    S = clusters(edges.index, kept.perm, edges.num_nodes, checks)
    itself = Assignment.of_nodes(kept.perm, edges.num_nodes)
    left, right = S if hops > 2 else itself, S if hops > 1 else itself
    return connect_by_joins(edges.index, None, right, self_loops, max_edges, checks, left)[0]


def cluster_search(edge_index: Tensor, perm: Tensor, num_nodes: int, self_loops: bool) -> Joins:
    edge_index = edge_index.long()
    return Joins(edge_index, None, clusters(edge_index, perm, num_nodes), self_loops)


def takes_assignment(*_: object) -> bool:
    return False


def connect_assignment(
    edge_index: Tensor, edge_weight: Tensor, S: Assignment, graphs: object, self_loops: bool,
    max_edges: int, checks: Checks,
) -> tuple[Tensor, Tensor, None]:  # fmt: skip
    edges, weight = connect_by_joins(edge_index, edge_weight, S, self_loops, max_edges, checks)
    assert weight is not None
    return weight, edges, None


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


class Joins:
    """(Lᵀ A) S by joins, some rows at a time; L is S unless ``left`` is given."""

    def __init__(
        self, edge_index: Tensor, edge_weight: Tensor | None, S: Assignment, self_loops: bool,
        left: Assignment | None = None,
    ) -> None:  # fmt: skip
        L = S if left is None else left
        self.A = SparseRows.of(edge_index[0], edge_index[1], edge_weight, S.num_nodes)
        self.S = SparseRows.of(S.node_index, S.cluster_index, S.weight, S.num_nodes)
        self.Lt = SparseRows.of(L.cluster_index, L.node_index, L.weight, L.num_clusters)
        self.shape, self.self_loops = (max(S.num_nodes, 1), max(S.num_clusters, 1)), self_loops

    def most_edges(self) -> Tensor:
        """A bound on the meetings of each row of Lᵀ in either join."""
        A, Lt = self.A, self.Lt
        through = A.lengths.index_add(0, A.entries.row, self.S.lengths[A.entries.col])
        work = through.new_zeros(Lt.ptr.numel() - 1)
        return work.index_add_(0, Lt.entries.row, through[Lt.entries.col])

    def rows(self, start: int, stop: int, in_pairs: bool = False) -> Tensor:
        """The edges of rows ``start`` to ``stop``, as :class:`~.blocks.RowSearch` says."""
        edges = self.product(int(self.Lt.ptr[start]), int(self.Lt.ptr[stop]), Checks())[0]
        return edges.t().to(torch.int32).contiguous().t() if in_pairs else edges

    def product(self, start: int, stop: int, checks: Checks) -> tuple[Tensor, Tensor | None]:
        """Edges and weights of the rows that the entries ``start`` to ``stop`` of Lᵀ make up."""
        half = multiply(self.Lt.entries.between(start, stop), self.A, self.shape[0], checks)
        whole = multiply(half, self.S, self.shape[1], checks)
        edges, weight = torch.stack([whole.row, whole.col]), whole.value
        if self.self_loops:
            return edges, weight
        off = (whole.row != whole.col).nonzero().view(-1)
        return edges[:, off], None if weight is None else weight.index_select(0, off)


def cuts(work: Tensor, total: int) -> Tensor:
    """Where to cut rows with this much ``work`` so that each block has about MAX_MEETINGS."""
    if total <= MAX_MEETINGS:
        return work.new_empty(0)
    block = (work.cumsum(0) - work) // MAX_MEETINGS
    return torch.nonzero(block.diff()).view(-1) + 1


def connect_by_joins(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    S: Assignment,
    self_loops: bool,
    max_edges: int,
    checks: Checks,
    left: Assignment | None = None,
) -> tuple[Tensor, Tensor | None]:
    """SᵀAS in blocks of whole rows, whose meetings fit in memory; ``left`` replaces the first S.

    It is counted first where it might exceed ``max_edges``.
    """
    joins = Joins(edge_index, edge_weight, S, self_loops, left)
    work, ptr = joins.most_edges(), joins.Lt.ptr
    total, size = checks.read(work.sum(), ptr[-1])
    blocks = list(pairwise([0, *ptr[cuts(work, total)].tolist(), size]))
    if total > max_edges:
        with torch.no_grad():
            count = sum(joins.product(*block, checks)[0].size(1) for block in blocks)
        check_max_edges(max_edges, count)
    edges, weights = zip(*(joins.product(*block, checks) for block in blocks), strict=True)
    return torch.cat(edges, dim=1), None if weights[0] is None else torch.cat(weights)


def connect_assignment_backward(
    grad: Tensor, edges: Tensor, edge_index: Tensor, edge_weight: Tensor, S: Assignment, *_: object
) -> tuple[Tensor, Tensor]:
    """The gradients of the weights of A and of the entries of S, from those of SᵀAS.

    An edge (n, m) of A makes entry (n, p) of S meet every entry (m, q): s_np a_nm s_mq is a summand
    of a'_pq, and the gradient of each factor is g_pq times the other two. Autograd can
    differentiate them again. ``edges`` are sorted; summands elsewhere have no gradient.
    """
    assert S.weight is not None
    numbers = torch.arange(S.node_index.numel(), device=S.node_index.device)
    by_node = SparseRows.of(S.node_index, numbers, None, S.num_nodes)
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
