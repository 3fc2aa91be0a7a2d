"""Connect on a CPU: a search of depth three from each kept node.

Sets of nodes are bits: marking a node needs no branch, and read word by word the columns of a row
are in order, so that nothing is sorted. In a large graph every step to another node is a cache
miss. Therefore the last two steps are taken once per node, not once per kept node near it: the rows
of AS' are stored as lists. Batches of small graphs, whose sets are a few words, need no search: see
:mod:`lcpool.ops.connect.cpu_bitsets`.

With weights each thread sums in two dense rows, of S'ᵀA and of A': no product is stored. Backward
walks over each row of A' again. Sums are made in the order of the entries: the same input and
number of threads give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numba.cpython.unsafe.numbers import trailing_zeros
from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.checks import Checks, check_max_edges, out_of_range
from lcpool.graph.edges import Edges
from lcpool.graph.sizes import row_pointers
from lcpool.ops.connect.cpu_bitsets import connect_small
from lcpool.ops.connect.product import GraphSlices
from lcpool.ops.threads import arrays, compiled, in_parts
from lcpool.ops.topk import KeepPlan, Kept

__all__ = [
    "cluster_search", "connect_assignment", "connect_assignment_backward", "connect_clusters",
    "takes_assignment",
]  # fmt: skip

# Parts per thread: where nodes are kept by degree, the long rows of hubs are next to each other.
SHARE = 8
# With fewer edges than this, waking a second thread does not pay.
EDGES_PER_THREAD = 8192
# Entries of 4 bytes that the lists of AS' may have per edge: around hubs they are too long. Fewer
# where A' is found in blocks, to save memory.
LIST_EDGES, FEW_LIST_EDGES = 16, 4
TOO_MANY = "a graph of 2³² edges or more cannot be connected at once: divide it into parts."


class GraphRows(NamedTuple):
    """``out`` is A, ``into`` S'ᵀ and ``onto`` S', by rows: where each begins, and its columns.

    Where ``out`` is None, ``onto`` is AS'. Compiled functions take it as a plain tuple, which numba
    dispatches faster.
    """

    out_ptr: Any
    out: Any
    into_ptr: Any
    into: Any
    onto_ptr: Any
    onto: Any


def connect_clusters(
    edges: Edges, kept: Kept, batch: Tensor | None, plan: KeepPlan | None,
    self_loops: bool, max_edges: int, checks: Checks, hops: int,
) -> Tensor:  # fmt: skip
    perm, num_nodes = kept.perm.contiguous().numpy(), edges.num_nodes
    if perm.size and not 0 <= perm.min() <= perm.max() < num_nodes:
        raise ValueError(out_of_range("perm", kept.perm, num_nodes, "node"))
    source, target = edges.index.contiguous().numpy()
    found = connect_small(source, target, perm, num_nodes, self_loops, max_edges, hops)
    if found is None:
        found, _ = search(prepare(source, target, perm, num_nodes, hops), self_loops, max_edges)
    return torch.from_numpy(found)


def prepare(source: Any, target: Any, kept: Any, num_nodes: int, hops: int = 3) -> GraphRows:
    """A, S'ᵀ and S' by rows, for S = I + A.

    Row m of S' lists the kept nodes whose cluster has m: itself and the targets of its edges. With
    two ``hops`` S'ᵀ is made from I, with one S' too.
    """
    if source.size + kept.size >= 2**32:
        raise ValueError(TOO_MANY)
    node, cluster = cluster_entries(source, target, kept, num_nodes)
    # The first entries, one per kept node, are those of I.
    left, right = None if hops > 2 else kept.size, None if hops > 1 else kept.size
    A = (source, target, None, num_nodes)
    St = (cluster[:left], node[:left], None, kept.size)
    return by_rows(A, St, (node[:right], cluster[:right], None, num_nodes))[0]


def by_rows(*matrices: tuple[Any, ...]) -> tuple[GraphRows, tuple[Any, ...]]:
    """A, S'ᵀ and S' by rows, and their values; they are given as :func:`to_rows` takes them."""

    # S' has about half as many entries as A: one thread sorts A, another S' twice.
    def part(start: int, stop: int) -> list[Any]:
        return [to_rows(*matrix, np.uint32) for matrix in matrices[start:stop]]

    work = min(matrices[0][0].size, 2 * EDGES_PER_THREAD)
    A, St, S = chain(*in_parts(part, len(matrices), work, EDGES_PER_THREAD))
    return GraphRows(*A[:2], *St[:2], *S[:2]), (A[2], St[2], S[2])


def with_lists(graph: GraphRows, list_edges: int) -> GraphRows:
    """The graph with AS' in place of S' and A, unless that takes too much memory."""
    edges, ptr = graph.out.size, list_ends(graph)
    if ptr[-1] > min(list_edges * edges, 2**32 - 1):
        return graph
    ptr, col = ptr.astype(np.uint32), np.empty(ptr[-1], np.uint32)
    in_parts(write_lists, ptr.size - 1, edges, EDGES_PER_THREAD, tuple(graph), ptr, col)
    return GraphRows(None, None, graph.into_ptr, graph.into, ptr, col)


def list_ends(graph: GraphRows) -> Any:
    """Where the list of each row of AS' begins, and the end of the last."""
    ptr = np.zeros(graph.out_ptr.size, np.int64)
    in_parts(list_lengths, ptr.size - 1, graph.out.size, EDGES_PER_THREAD, tuple(graph), ptr[1:])
    return np.cumsum(ptr, out=ptr)


def most_edges(graph: GraphRows) -> Any:
    """A bound on the entries of each row of A'."""
    ptr = graph.onto_ptr if graph.out is None else list_ends(graph)
    return count_ways(graph.into_ptr, graph.into, ptr)


def search(
    graph: GraphRows, self_loops: bool, max_edges: int, values: Any = None
) -> tuple[Any, Any]:
    """All edges of A' and, with the ``values`` of A, S'ᵀ and S', their weights.

    They are counted first where there may be more than ``max_edges``.
    """
    work = graph.out.size
    graph = with_lists(graph, LIST_EDGES) if values is None else graph
    most = most_edges(graph)

    rows = (0, most.size, work, graph, self_loops)
    if most.sum() > max_edges:
        counts = find_in_parts(*rows, None)
        check_max_edges(max_edges, sum(lengths.sum() for lengths, _, _ in counts))
    return stack_rows(0, find_in_parts(*rows, most, values))


def find_in_parts(start: int, stop: int, work: int, *given: Any) -> list[Any]:
    """:func:`find_rows` for parts of the rows ``start`` to ``stop``, in torch's threads."""

    def find(first: int, last: int) -> Any:
        return find_rows(start + first, start + last, *given)

    return in_parts(find, stop - start, work, EDGES_PER_THREAD, share=SHARE)


def find_rows(
    start: int, stop: int, graph: GraphRows, self_loops: bool, room: Any, values: Any = None
) -> tuple[Any, Any, Any]:
    """Rows ``start`` to ``stop`` of A': their lengths, columns and, with ``values``, weights.

    ``room`` is a bound on the length of each row (:func:`most_edges`), or None to count only.
    ``values`` are the entries of A, S'ᵀ and S'.
    """
    # Pages that are never written take no memory.
    size = 0 if room is None else room[start:stop].sum()
    found = np.empty(size, np.uint32)
    weight = None if values is None else np.empty(size, values[0].dtype)
    out_ptr, out, *clusters = graph
    A = None if out is None else (out_ptr, out)
    lengths = search_rows(start, stop, A, *clusters, self_loops, found, values, weight)
    return lengths, found, weight


def stack_rows(start: int, parts: list[Any], in_pairs: bool = False) -> tuple[Any, Any]:
    """Rows from ``start`` on, found in parts by :func:`find_rows`, as edges and weights.

    ``in_pairs``, the edges are 32-bit integers, the source and the target of each side by side.
    """
    rows = np.cumsum([start, *(lengths.size for lengths, _, _ in parts)])
    at = np.cumsum([0, *(lengths.sum() for lengths, _, _ in parts)])
    edges = np.empty((at[-1], 2), np.int32).T if in_pairs else np.empty((2, at[-1]), np.int64)
    weighted = parts[0][2] is not None
    weights = np.empty(at[-1], parts[0][2].dtype) if weighted else None

    def write(first: int, last: int) -> None:
        for i in range(first, last):
            lengths, found, weight = parts[i]
            write_rows(rows[i], lengths, found, edges, at[i])
            if weights is not None:
                weights[at[i] : at[i + 1]] = weight[: at[i + 1] - at[i]]

    in_parts(write, len(parts), edges.size, EDGES_PER_THREAD)
    return edges, weights


@dataclass(frozen=True)
class ClusterSearch:
    """Rows of S'ᵀAS' for S = I + A, by a search of depth three from each kept node."""

    graph: GraphRows
    edges: int
    room: Any
    self_loops: bool

    def most_edges(self) -> Tensor:
        return torch.from_numpy(self.room)

    def rows(self, start: int, stop: int, in_pairs: bool = False) -> Tensor:
        work = self.edges * (stop - start) // max(self.room.size, 1)
        found = find_in_parts(start, stop, work, self.graph, self.self_loops, self.room)
        return torch.from_numpy(stack_rows(start, found, in_pairs)[0])


def cluster_search(
    edge_index: Tensor, perm: Tensor, num_nodes: int, self_loops: bool
) -> ClusterSearch:
    # Not made contiguous: edges that are mapped from a file are not copied.
    source, target = edge_index.numpy()
    graph = prepare(source, target, perm.contiguous().numpy(), num_nodes)
    graph = with_lists(graph, FEW_LIST_EDGES)
    return ClusterSearch(graph, source.size, most_edges(graph), self_loops)


def takes_assignment(S: Assignment, graphs: GraphSlices | None) -> bool:
    return True


def connect_assignment(
    edge_index: Tensor, edge_weight: Tensor, S: Assignment, graphs: GraphSlices | None,
    self_loops: bool, max_edges: int, checks: Checks,
) -> tuple[Tensor, Tensor, None]:  # fmt: skip
    graph, values = weighted_rows(edge_index, edge_weight, S)
    edges, weight = search(graph, self_loops, max_edges, values)
    return torch.from_numpy(weight), torch.from_numpy(edges), None


def connect_assignment_backward(
    grad: Tensor, edges: Tensor, edge_index: Tensor, edge_weight: Tensor, S: Assignment, *_: Any
) -> tuple[Tensor, Tensor]:
    graph, values = weighted_rows(edge_index, edge_weight, S)
    rows = (row_pointers(edges[0], S.num_clusters).numpy(), edges[1].numpy())
    given = (tuple(graph), values, rows, grad.numpy())
    parts = in_parts(row_gradients, S.num_clusters, grad.numel(), EDGES_PER_THREAD, *given)
    a, left, right = (sum(grads[1:], start=grads[0]) for grads in zip(*parts, strict=True))
    source, n, c = (t.contiguous().numpy() for t in (edge_index[0], S.node_index, S.cluster_index))
    value_grad = from_rows(c, graph.into_ptr, left) + from_rows(n, graph.onto_ptr, right)
    return torch.from_numpy(from_rows(source, graph.out_ptr, a)), torch.from_numpy(value_grad)


def weighted_rows(
    edge_index: Tensor, edge_weight: Tensor, S: Assignment
) -> tuple[GraphRows, tuple[Any, ...]]:
    """A, S'ᵀ and S' by rows, and the entries of each."""
    source, target, n, c, a, s = (
        t.contiguous() for t in (*edge_index, S.node_index, S.cluster_index, edge_weight, S.weight)
    )
    A, St = (*arrays(source, target, a), S.num_nodes), (*arrays(c, n, s), S.num_clusters)
    return by_rows(A, St, (*arrays(n, c, s), S.num_nodes))


@compiled
def to_rows(row, col, value, num_rows, index):
    """Sort entries by row: where each row begins, its columns and, if any, its values.

    The order within a row stays. ``index`` is the integer type; with an unsigned one, numba omits
    the check for negative indices.
    """
    if row.size >= 2**32:
        raise ValueError(TOO_MANY)
    ptr = np.zeros(num_rows + 2, index)
    for e in range(row.size):
        ptr[row[e] + 2] += 1
    # Summed one place late: filling row r advances ptr[r + 1] from its start to its end.
    for r in range(2, num_rows + 2):
        ptr[r] += ptr[r - 1]
    cols = np.empty(row.size, index)
    values: Any = None if value is None else np.empty_like(value)
    for e in range(row.size):
        at = ptr[row[e] + 1]
        ptr[row[e] + 1] += 1
        cols[at] = col[e]
        if value is not None:
            values[at] = value[e]
    return ptr[:-1], cols, values


@compiled
def cluster_entries(source, target, kept, num_nodes):
    """The nodes and clusters of the entries of S': first each kept node, then by edge."""
    new_id = np.full(num_nodes, -1, np.int32)
    for i in range(kept.size):
        new_id[kept[i]] = i
    # Room for all edges: pages that are never written take no memory.
    node, cluster = np.empty((2, kept.size + source.size), np.uint32)
    node[: kept.size], cluster[: kept.size] = kept, np.arange(kept.size)
    count = kept.size
    for e in range(source.size):
        i = new_id[target[e]]
        if i >= 0:
            node[count], cluster[count] = source[e], i
            count += 1
    return node[:count], cluster[:count]


@compiled
def count_ways(into_ptr, into, ptr):
    """The length of the lists of AS' of each cluster's nodes, at most the number of clusters."""
    most = np.zeros(into_ptr.size - 1, np.int64)
    for p in range(most.size):
        for c in range(into_ptr[p], into_ptr[p + 1]):
            most[p] += ptr[into[c] + 1] - ptr[into[c]]
        most[p] = min(most[p], most.size)
    return most


@compiled
def list_lengths(start, stop, graph, lengths):
    """How many clusters the targets of each node's edges have, duplicates included."""
    out_ptr, out, _, _, onto_ptr, _ = graph
    for n in range(start, stop):
        for e in range(out_ptr[n], out_ptr[n + 1]):
            lengths[n] += onto_ptr[out[e] + 1] - onto_ptr[out[e]]


@compiled
def write_lists(start, stop, graph, ptr, col):
    """The rows of AS': the clusters of the targets of each node's edges, duplicates included."""
    out_ptr, out, _, _, onto_ptr, onto = graph
    for n in range(start, stop):
        at = ptr[n]
        for e in range(out_ptr[n], out_ptr[n + 1]):
            for f in range(onto_ptr[out[e]], onto_ptr[out[e] + 1]):
                col[at] = onto[f]
                at += 1


@compiled
def search_rows(
    start, stop, A, into_ptr, into, onto_ptr, onto, self_loops, found, values, weight
):  # fmt: skip
    """The lengths of rows ``start`` to ``stop`` of A'; their columns, in order, and weights.

    If ``found`` is empty, they are only counted. Without ``values`` there are no weights; without
    ``A``, ``onto`` holds AS'. Numba compiles these cases without the code of the others.
    """
    num_nodes, num_kept = onto_ptr.size - 1, into_ptr.size - 1
    seen = np.zeros(num_nodes // 64 + 1, np.int64)
    reached = np.empty(num_nodes, np.uint32)
    # A bit per kept node that is hit; which words of these are not zero; which words of those.
    hit = np.zeros(num_kept // 64 + 1, np.int64)
    words = np.zeros(hit.size // 64 + 1, np.int64)
    tops = np.zeros(words.size // 64 + 1, np.int64)
    if A is not None:
        out_ptr, out = A
    if values is not None:
        a, v, s = values
        half, total = np.zeros(num_nodes, a.dtype), np.zeros(num_kept, a.dtype)
    lengths = np.empty(stop - start, np.int64)
    count = 0
    for p in range(start, stop):
        # (S'ᵀA)(p, :): the targets of edges out of the cluster of p.
        num_reached = 0
        for c in range(into_ptr[p], into_ptr[p + 1]):
            n = into[c]
            if A is None:
                if not seen[n >> 6] & (1 << (n & 63)):
                    seen[n >> 6] |= 1 << (n & 63)
                    reached[num_reached] = n
                    num_reached += 1
                continue
            if values is not None:
                s_np = v[c]
            for e in range(out_ptr[n], out_ptr[n + 1]):
                m = out[e]
                word, bit = m >> 6, 1 << (m & 63)
                if not seen[word] & bit:
                    seen[word] |= bit
                    reached[num_reached] = m
                    num_reached += 1
                if values is not None:
                    half[m] += s_np * a[e]
        # A'(p, :): the kept nodes to whose clusters these belong.
        for r in range(num_reached):
            m = reached[r]
            seen[m >> 6] = 0
            if values is not None:
                t = half[m]
                half[m] = 0
            for e in range(onto_ptr[m], onto_ptr[m + 1]):
                q = onto[e]
                word = q >> 6
                words[word >> 6] |= 1 << (word & 63)
                tops[word >> 12] |= 1 << ((word >> 6) & 63)
                hit[word] |= 1 << (q & 63)
                if values is not None:
                    total[q] += t * s[e]
        if not self_loops:
            hit[p >> 6] &= ~(1 << (p & 63))
            if values is not None:
                total[p] = 0
        before = count
        for t in range(tops.size):
            top = tops[t]
            tops[t] = 0
            while top != 0:
                i = 64 * t + trailing_zeros(top)
                top &= top - 1
                left = words[i]
                words[i] = 0
                while left != 0:
                    word = 64 * i + trailing_zeros(left)
                    left &= left - 1
                    bits = hit[word]
                    hit[word] = 0
                    while bits != 0:
                        if found.size:
                            q = 64 * word + trailing_zeros(bits)
                            found[count] = q
                            if values is not None:
                                weight[count] = total[q]
                                total[q] = 0
                        count += 1
                        bits &= bits - 1
        lengths[p - start] = count - before
    return lengths


@compiled
def write_rows(start, lengths, found, edges, at):
    """Write rows from ``start`` on into ``edges``, beginning at column ``at``."""
    e = 0
    for r in range(lengths.size):
        for _ in range(lengths[r]):
            edges[0, at + e] = start + r
            edges[1, at + e] = found[e]
            e += 1


@compiled
def from_rows(row, ptr, values):
    """The entries in the order that they had before :func:`to_rows`."""
    at, value = ptr.copy(), np.empty_like(values)
    for e in range(row.size):
        value[e] = values[at[row[e]]]
        at[row[e]] += 1
    return value


@compiled
def reach_nodes(p, graph, values, half, seen, reached):
    """Write (S'ᵀA)(p, :) into ``half`` and its columns into ``reached``; returns their number."""
    out_ptr, out, into_ptr, into, _, _ = graph
    a, v, _ = values
    count = 0
    for c in range(into_ptr[p], into_ptr[p + 1]):
        n, s_np = into[c], v[c]
        for e in range(out_ptr[n], out_ptr[n + 1]):
            m = out[e]
            if seen[m] != p:
                seen[m] = p
                half[m] = 0
                reached[count] = m
                count += 1
            half[m] += s_np * a[e]
    return count


@compiled
def row_gradients(start, stop, graph, values, rows, grad):
    """The gradients of A, S'ᵀ and S', each by rows, from rows ``start`` to ``stop`` of A'.

    With g a row of the gradient, h = g S'ᵀ and t = (S'ᵀA)(p, :):
    dA(n, m) = s_np h_m, dS'ᵀ(p, n) = Σ_m a_nm h_m and dS'(m, q) = t_m g_q.
    """
    out_ptr, out, into_ptr, into, onto_ptr, onto = graph
    (a, v, s), (ptr, col) = values, rows
    grad_a, grad_v, grad_s = np.zeros_like(a), np.zeros_like(v), np.zeros_like(s)
    half, h = np.empty(out_ptr.size - 1, s.dtype), np.empty(out_ptr.size - 1, s.dtype)
    seen = np.full(out_ptr.size - 1, -1, np.int32)
    reached = np.empty(out_ptr.size - 1, np.uint32)
    g, zero = np.zeros(into_ptr.size - 1, s.dtype), s.dtype.type(0)
    for p in range(start, stop):
        for e in range(ptr[p], ptr[p + 1]):
            g[col[e]] = grad[e]
        for r in range(reach_nodes(p, graph, values, half, seen, reached)):
            m = reached[r]
            t, total = half[m], zero
            for e in range(onto_ptr[m], onto_ptr[m + 1]):
                g_q = g[onto[e]]
                total += g_q * s[e]
                grad_s[e] += g_q * t
            h[m] = total
        for c in range(into_ptr[p], into_ptr[p + 1]):
            n, s_np, total = into[c], v[c], zero
            for e in range(out_ptr[n], out_ptr[n + 1]):
                h_m = h[out[e]]
                total += a[e] * h_m
                grad_a[e] += s_np * h_m
            grad_v[c] = total
        for e in range(ptr[p], ptr[p + 1]):
            g[col[e]] = 0
    return grad_a, grad_v, grad_s
