"""Connect on a CPU: a search of depth three from each kept node."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.checks import Checks, check_max_edges
from lcpool.ops.cpu.compiled import compiled, in_parts
from lcpool.ops.edges import Edges
from lcpool.ops.topk import KeepPlan

# Fewer edges than this are connected sooner by one thread than by two that must be started.
EDGES_PER_THREAD = 131_072


def connect_clusters(
    edges: Edges,
    perm: Tensor,
    batch: Tensor,
    plan: KeepPlan,
    self_loops: bool,
    max_edges: int,
    checks: Checks,
) -> Tensor:
    """The pattern of S'ᵀAS' for S = I + A; graphs need not be told apart."""
    return search_clusters(edges.index, perm, edges.num_nodes, self_loops, max_edges)


def search_clusters(
    edge_index: Tensor, perm: Tensor, num_nodes: int, self_loops: bool, max_edges: int
) -> Tensor:
    """The pattern of S'ᵀAS' for S = I + A: from each kept node a search of depth three.

    Where the result might exceed ``max_edges`` it is counted first, in O(nodes) of memory.
    """
    kept = perm.contiguous().numpy()
    source, target = edge_index.contiguous().numpy()
    graph = prepare(source, target, kept, num_nodes)

    def search(store: bool) -> list[Any]:
        rows = partial(search_rows, kept=kept, graph=graph, self_loops=self_loops, store=store)
        return in_parts(rows, kept.size, source.size, EDGES_PER_THREAD)

    if most_edges(kept, *graph) > max_edges:
        check_max_edges(max_edges, sum(count for _, _, count in search(store=False)))
    parts = search(store=True)
    edges = np.empty((2, sum(count for _, _, count in parts)), dtype=np.int64)
    row = done = 0
    for lengths, found, count in parts:
        write_rows(row, lengths, found, edges, done)
        row, done = row + lengths.size, done + count
    return torch.from_numpy(edges)


@compiled
def prepare(source, target, kept, num_nodes):
    """A by rows, the clusters of kept nodes (rows of S'ᵀ), and the kept nodes' names by row of S'.

    Row m of S' lists the kept nodes that m contributes to: itself and the targets of its edges.
    """
    new_id = np.full(num_nodes, -1, np.int32)
    for i in range(kept.size):
        new_id[kept[i]] = i
    out_ptr = np.zeros(num_nodes + 2, np.int64)
    into_ptr = np.zeros(kept.size + 2, np.int64)
    onto_ptr = np.zeros(num_nodes + 2, np.int64)
    for e in range(source.size):
        out_ptr[source[e] + 2] += 1
        i = new_id[target[e]]
        if i >= 0:
            into_ptr[i + 2] += 1
            onto_ptr[source[e] + 2] += 1
    for i in range(kept.size):
        onto_ptr[kept[i] + 2] += 1
    # Cumulated one place late: filling row r advances ptr[r + 1] from its start to its end.
    for n in range(2, num_nodes + 2):
        out_ptr[n] += out_ptr[n - 1]
        onto_ptr[n] += onto_ptr[n - 1]
    for i in range(2, kept.size + 2):
        into_ptr[i] += into_ptr[i - 1]
    out = np.empty(source.size, np.int32)
    into = np.empty(into_ptr[kept.size + 1], np.int32)
    onto = np.empty(onto_ptr[num_nodes + 1], np.int32)
    for i in range(kept.size):
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
    return out_ptr, out, into_ptr, into, onto_ptr, onto


@compiled
def most_edges(kept, out_ptr, out, into_ptr, into, onto_ptr, onto):
    """A bound on the entries of S'ᵀAS': the number of ways to make one, or all pairs."""
    ways = np.zeros(out_ptr.size - 2, np.int64)
    for n in range(ways.size):
        for e in range(out_ptr[n], out_ptr[n + 1]):
            ways[n] += onto_ptr[out[e] + 1] - onto_ptr[out[e]]
    total = 0
    for p in range(kept.size):
        total += ways[kept[p]]
        for c in range(into_ptr[p], into_ptr[p + 1]):
            total += ways[into[c]]
    return min(total, kept.size * kept.size)


@compiled
def sort_into(sorted_row, row):
    """The first entries of ``row``, in order. Most rows are short: numpy's sort is slow there."""
    if sorted_row.size > 40:
        sorted_row[:] = row[: sorted_row.size]
        sorted_row.sort()
        return
    for i in range(sorted_row.size):
        value, j = row[i], i
        while j > 0 and sorted_row[j - 1] > value:
            sorted_row[j] = sorted_row[j - 1]
            j -= 1
        sorted_row[j] = value


@compiled
def search_rows(start, stop, kept, graph, self_loops, store):
    """Rows ``start`` to ``stop`` of A': their lengths, their columns in order, and their sum.

    Without ``store`` the columns are only counted.
    """
    out_ptr, out, into_ptr, into, onto_ptr, onto = graph
    seen = np.full(out_ptr.size - 2, -1, np.int32)
    hit = np.full(kept.size, -1, np.int32)
    reached = np.empty(out_ptr.size - 2, np.int32)
    row = np.empty(kept.size, np.int32)
    lengths = np.empty(stop - start, np.int64)
    found = np.empty(16 * (stop - start) if store else 0, np.int32)
    count = 0
    for p in range(start, stop):
        # (S'ᵀA)(p, :): the targets of edges out of the cluster of p.
        num_reached = 0
        for c in range(into_ptr[p] - 1, into_ptr[p + 1]):
            n = kept[p] if c < into_ptr[p] else into[c]
            for e in range(out_ptr[n], out_ptr[n + 1]):
                m = out[e]
                if seen[m] != p:
                    seen[m] = p
                    reached[num_reached] = m
                    num_reached += 1
        # A'(p, :): the kept nodes to whose clusters these belong.
        if not self_loops:
            hit[p] = p
        length = 0
        for r in range(num_reached):
            m = reached[r]
            for e in range(onto_ptr[m], onto_ptr[m + 1]):
                q = onto[e]
                if hit[q] != p:
                    hit[q] = p
                    row[length] = q
                    length += 1
        lengths[p - start] = length
        if store:
            if count + length > found.size:
                grown = np.empty(2 * (count + length), np.int32)
                grown[:count] = found[:count]
                found = grown
            sort_into(found[count : count + length], row)
        count += length
    return lengths, found, count


@compiled
def write_rows(start, lengths, found, edges, at):
    """Write rows from ``start`` on into ``edges``, beginning at column ``at``."""
    e = 0
    for r in range(lengths.size):
        for _ in range(lengths[r]):
            edges[0, at + e] = start + r
            edges[1, at + e] = found[e]
            e += 1
