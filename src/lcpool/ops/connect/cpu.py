"""Connect on a CPU: a search of depth three from each kept node.

Sets of nodes are bits: marking a node needs no branch, and read word by word the columns of a row
are in order, so that nothing is sorted. In a large graph every step to another node is a cache
miss. Therefore the last two steps are taken once per node, not once per kept node near it: the rows
of AS' are stored as lists. Batches of small graphs, whose sets are a few words, need no search: see
:mod:`lcpool.ops.connect.cpu_bitsets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numba.cpython.unsafe.numbers import trailing_zeros
from torch import Tensor

from lcpool.graph.checks import Checks, check_max_edges, out_of_range
from lcpool.graph.edges import Edges
from lcpool.ops.connect.cpu_bitsets import connect_small
from lcpool.ops.connect.cpu_rows import (
    EDGES_PER_THREAD,
    FEW_LIST_EDGES,
    LIST_EDGES,
    GraphRows,
    most_edges,
    prepare,
    with_lists,
)
from lcpool.ops.threads import compiled, in_parts
from lcpool.ops.topk import KeepPlan, Kept

__all__ = ["cluster_search", "connect_clusters"]

# Parts per thread: where nodes are kept by degree, the long rows of hubs are next to each other.
SHARE = 8


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


def search(
    graph: GraphRows, self_loops: bool, max_edges: int, values: Any = None
) -> tuple[Any, Any]:
    """All edges of A' and, with the ``values`` of A, S'ᵀ and S', their weights.

    They are counted first where there may be more than ``max_edges``.
    """
    work = graph.out.size
    graph = with_lists(graph, LIST_EDGES) if values is None else graph
    most = most_edges(graph)

    def run(room: Any, values: Any) -> list[Any]:
        part = partial(find_rows, graph=graph, self_loops=self_loops, room=room, values=values)
        return in_parts(part, most.size, work, EDGES_PER_THREAD, share=SHARE)

    if most.sum() > max_edges:
        counts = run(None, None)
        check_max_edges(max_edges, sum(lengths.sum() for lengths, _, _ in counts))
    return stack_rows(0, run(most, values))


def find_rows(
    start: int, stop: int, graph: GraphRows, self_loops: bool, room: Any, values: Any = None
) -> tuple[Any, Any, Any]:
    """Rows ``start`` to ``stop`` of A': their lengths, columns and, with ``values``, weights.

    Args:
        start: the first row.
        stop: the end of the last.
        graph: A, S'ᵀ and S' by rows, from :func:`prepare`, maybe :func:`with_lists`.
        self_loops: keep the diagonal.
        room: a bound on the length of each row (:func:`most_edges`), or None to count only.
        values: the entries of A, S'ᵀ and S'.
    """
    # Pages that are never written take no memory.
    size = 0 if room is None else room[start:stop].sum()
    found = np.empty(size, np.uint32)
    weight = None if values is None else np.empty(size, values[0].dtype)
    out_ptr, out, *clusters = graph
    A = None if out is None else (out_ptr, out)
    lengths = search_rows(start, stop, A, *clusters, self_loops, found, values, weight)
    return lengths, found, weight


def stack_rows(start: int, parts: list[Any]) -> tuple[Any, Any]:
    """Rows from ``start`` on, found in parts by :func:`find_rows`, as edges and weights."""
    rows = np.cumsum([start, *(lengths.size for lengths, _, _ in parts)])
    at = np.cumsum([0, *(lengths.sum() for lengths, _, _ in parts)])
    edges = np.empty((2, at[-1]), dtype=np.int64)
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

    def rows(self, start: int, stop: int) -> Tensor:
        def find(first: int, last: int) -> Any:
            return find_rows(start + first, start + last, self.graph, self.self_loops, self.room)

        size = stop - start
        work = self.edges * size // max(self.room.size, 1)
        edges, _ = stack_rows(start, in_parts(find, size, work, EDGES_PER_THREAD, share=SHARE))
        return torch.from_numpy(edges)


def cluster_search(
    edge_index: Tensor, perm: Tensor, num_nodes: int, self_loops: bool
) -> ClusterSearch:
    # Not made contiguous: edges that are mapped from a file are not copied.
    source, target = edge_index.numpy()
    graph = prepare(source, target, perm.contiguous().numpy(), num_nodes)
    graph = with_lists(graph, FEW_LIST_EDGES)
    return ClusterSearch(graph, source.size, most_edges(graph), self_loops)


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
