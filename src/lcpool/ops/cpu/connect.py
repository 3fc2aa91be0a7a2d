"""Connect on a CPU: a search of depth three from each kept node.

Sets of nodes are bits. Marking one is free of branches that no processor could foresee, and read
word by word the columns of a row come out in order: nothing is sorted. In a large graph every step
to another node is a miss of the cache, so the last two steps are taken once for each node, not for
each kept node that it is near to: the rows of AS' are written down as lists. Batches of small
graphs, whose sets are a few words, need no search: see :mod:`lcpool.ops.cpu.bits`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from numba.cpython.unsafe.numbers import trailing_zeros
from torch import Tensor

from lcpool.ops.checks import Checks, check_max_edges
from lcpool.ops.cpu.bits import connect_small
from lcpool.ops.cpu.compiled import compiled
from lcpool.ops.cpu.team import in_parts
from lcpool.ops.edges import Edges
from lcpool.ops.topk import KeepPlan

# Fewer edges than this are connected sooner by one thread than by two that must be woken.
EDGES_PER_THREAD = 8192
# Rows of hubs stand together where nodes are kept by their degree: each thread takes some of all.
SHARE = 8
# Entries that the lists of AS' may have for each edge: around hubs they are too long to keep.
LIST_EDGES = 16
TOO_MANY = "a graph of 2³² edges or more cannot be connected at once: take it in parts."


def connect_clusters(
    edges: Edges,
    perm: Tensor,
    batch: Tensor | None,
    plan: KeepPlan | None,
    self_loops: bool,
    max_edges: int,
    checks: Checks,
) -> Tensor:
    """The pattern of S'ᵀAS' for S = I + A; graphs need not be told apart."""
    return search_clusters(edges.index, perm, edges.num_nodes, self_loops, max_edges)


def search_clusters(
    edge_index: Tensor, perm: Tensor, num_nodes: int, self_loops: bool, max_edges: int
) -> Tensor:
    """The pattern of S'ᵀAS' for S = I + A, as bits or by a search."""
    kept = perm.contiguous().numpy()
    source, target = edge_index.contiguous().numpy()
    edges = connect_small(source, target, kept, num_nodes, self_loops, max_edges)
    if edges is None:
        edges, _ = search(prepare(source, target, kept, num_nodes), self_loops, max_edges)
    return torch.from_numpy(edges)


def search(graph: Any, self_loops: bool, max_edges: int, values: Any = None) -> tuple[Any, Any]:
    """All edges of A', and with the ``values`` of A, S'ᵀ and S' their weights.

    Where they might exceed ``max_edges`` they are counted first.
    """
    most, work = most_edges(graph), graph[1].size
    graph = with_lists(graph) if values is None else graph

    def run(room: Any, values: Any) -> list[Any]:
        part = partial(find_rows, graph=graph, self_loops=self_loops, room=room, values=values)
        return in_parts(part, most.size, work, EDGES_PER_THREAD, SHARE)

    if most.sum() > max_edges:
        counts = run(None, None)
        check_max_edges(max_edges, sum(lengths.sum() for lengths, _, _ in counts))
    return stack_rows(0, run(most, values))


def find_rows(
    start: int, stop: int, graph: Any, self_loops: bool, room: Any, values: Any = None
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
    # Numpy's memory comes in large pages, of which the system gives only those that are written.
    size = 0 if room is None else room[start:stop].sum()
    found = np.empty(size, np.uint32)
    weight = None if values is None else np.empty(size, values[0].dtype)
    A = None if graph[0] is None else graph[:2]
    lengths = search_rows(start, stop, A, *graph[2:], self_loops, found, values, weight)
    return lengths, found, weight


def with_lists(graph: Any) -> Any:
    """The graph with AS' in the place of S' and nothing in that of A, unless that is too much."""
    edges, ptr = graph[1].size, list_ends(graph)
    if ptr[-1] > min(LIST_EDGES * edges, 2**32 - 1):
        return graph
    ptr, col = ptr.astype(np.uint32), np.empty(ptr[-1], np.uint32)
    part = partial(write_lists, graph=graph, ptr=ptr, col=col)
    in_parts(part, ptr.size - 1, edges, EDGES_PER_THREAD)
    return None, None, *graph[2:4], ptr, col


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


@compiled
def prepare(source, target, kept, num_nodes):
    """A by rows, the clusters of kept nodes (rows of S'ᵀ), and the kept nodes' names by row of S'.

    Row m of S' lists the kept nodes that m contributes to: itself and the targets of its edges.
    """
    if source.size + kept.size >= 2**32:
        raise ValueError(TOO_MANY)
    new_id = np.full(num_nodes, -1, np.int32)
    for i in range(kept.size):
        new_id[kept[i]] = i
    out_ptr = np.zeros(num_nodes + 2, np.uint32)
    into_ptr = np.zeros(kept.size + 2, np.uint32)
    onto_ptr = np.zeros(num_nodes + 2, np.uint32)
    for e in range(source.size):
        out_ptr[source[e] + 2] += 1
        i = new_id[target[e]]
        if i >= 0:
            into_ptr[i + 2] += 1
            onto_ptr[source[e] + 2] += 1
    for i in range(kept.size):
        into_ptr[i + 2] += 1
        onto_ptr[kept[i] + 2] += 1
    # Cumulated one place late: filling row r advances ptr[r + 1] from its start to its end.
    for n in range(2, num_nodes + 2):
        out_ptr[n] += out_ptr[n - 1]
        onto_ptr[n] += onto_ptr[n - 1]
    for i in range(2, kept.size + 2):
        into_ptr[i] += into_ptr[i - 1]
    # Unsigned: numba need not ask of an index whether it counts from the end.
    out = np.empty(source.size, np.uint32)
    into = np.empty(into_ptr[kept.size + 1], np.uint32)
    onto = np.empty(onto_ptr[num_nodes + 1], np.uint32)
    for i in range(kept.size):
        into[into_ptr[i + 1]] = kept[i]
        into_ptr[i + 1] += 1
        onto[onto_ptr[kept[i] + 1]] = i
        onto_ptr[kept[i] + 1] += 1
    for e in range(source.size):
        s, t = source[e], target[e]
        out[out_ptr[s + 1]] = t
        out_ptr[s + 1] += 1
        i = new_id[t]
        if i >= 0:
            into[into_ptr[i + 1]] = s
            into_ptr[i + 1] += 1
            onto[onto_ptr[s + 1]] = i
            onto_ptr[s + 1] += 1
    return out_ptr[:-1], out, into_ptr[:-1], into, onto_ptr[:-1], onto


@compiled
def most_edges(graph):
    """A bound on the entries of each row of A': the number of ways to make one, or all columns."""
    out_ptr, out, into_ptr, into, onto_ptr, _ = graph
    ways = np.zeros(out_ptr.size - 1, np.int64)
    for n in range(ways.size):
        for e in range(out_ptr[n], out_ptr[n + 1]):
            ways[n] += onto_ptr[out[e] + 1] - onto_ptr[out[e]]
    most = np.zeros(into_ptr.size - 1, np.int64)
    for p in range(most.size):
        for c in range(into_ptr[p], into_ptr[p + 1]):
            most[p] += ways[into[c]]
        most[p] = min(most[p], most.size)
    return most


@compiled
def list_ends(graph):
    """Where the list of each node's row of AS' begins, and the end of the last."""
    out_ptr, out, _, _, onto_ptr, _ = graph
    ptr = np.zeros(out_ptr.size, np.int64)
    for n in range(out_ptr.size - 1):
        ptr[n + 1] = ptr[n]
        for e in range(out_ptr[n], out_ptr[n + 1]):
            ptr[n + 1] += onto_ptr[out[e] + 1] - onto_ptr[out[e]]
    return ptr


@compiled
def write_lists(start, stop, graph, ptr, col):
    """The kept nodes to whose clusters the targets of each node's edges belong, as often."""
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

    Where ``found`` has no room they are only counted. Without ``values`` there are no weights, and
    without ``A`` it is in ``onto`` already: numba leaves out all that is for them.
    """
    num_nodes, num_kept = onto_ptr.size - 1, into_ptr.size - 1
    seen = np.zeros(num_nodes // 64 + 1, np.int64)
    reached = np.empty(num_nodes, np.uint32)
    # The kept nodes that are hit, a bit each; which words of that are not zero, and of that.
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
