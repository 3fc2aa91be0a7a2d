"""CPU kernels, compiled by numba on first use and cached on disk.

Threads, not numba's own parallel loops: those abort in a forked process (a data loader's workers)
or when two threads enter at once, depending on the threading layer. The kernels release the GIL, so
a plain thread pool gives the same speed with neither trap.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from numba import njit
from torch import Tensor

# Fewer edges than this are connected before a thread has started.
EDGES_PER_THREAD = 16_384


def connect_clusters(
    edge_index: Tensor, perm: Tensor, num_nodes: int, self_loops: bool, max_edges: int
) -> tuple[Tensor, int]:
    """The pattern of S'ᵀAS' for S = I + A: from each kept node a search of depth three.

    Returns:
        The edges, and their number; the edges are incomplete if that exceeds ``max_edges``.
    """
    kept = perm.numpy()
    source, target = edge_index[0].numpy(), edge_index[1].numpy()
    graph = prepare(source, target, kept, num_nodes)
    threads = min(torch.get_num_threads(), max(1, source.size // EDGES_PER_THREAD))
    cuts = [kept.size * t // threads for t in range(threads + 1)]
    ranges = list(pairwise(cuts))

    def search(rows: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, int]:
        return search_rows(*rows, kept, *graph, self_loops, max_edges)  # type: ignore[no-any-return]

    if threads == 1:
        parts = [search(ranges[0])]
    else:
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(search, ranges))
    count = sum(part[2] for part in parts)
    edges = np.empty((2, min(count, max_edges)), dtype=np.int64)
    done = 0
    for (start, _), (lengths, found, size) in zip(ranges, parts, strict=True):
        if count <= max_edges:
            write_rows(start, lengths, found, edges, done)
        done += size
    return torch.from_numpy(edges), count


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def search_rows(
    start, stop, kept, out_ptr, out, into_ptr, into, onto_ptr, onto, self_loops, max_edges
):
    """Rows ``start`` to ``stop`` of A', each sorted, as lengths and columns.

    Past ``max_edges`` the search goes on counting and stores nothing more.
    """
    seen = np.full(out_ptr.size - 2, -1, np.int32)
    hit = np.full(kept.size, -1, np.int32)
    reached = np.empty(out_ptr.size - 2, np.int32)
    row = np.empty(kept.size, np.int32)
    lengths = np.empty(stop - start, np.int64)
    found = np.empty(min(max_edges, 16 * (stop - start) + 16), np.int32)
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
        if count + length <= max_edges:
            if count + length > found.size:
                grown = np.empty(min(max_edges, 2 * (count + length)), np.int32)
                grown[:count] = found[:count]
                found = grown
            columns = found[count : count + length]
            columns[:] = row[:length]
            columns.sort()
        count += length
    return lengths, found, count


@njit(nogil=True, cache=True)
def write_rows(start, lengths, found, edges, at):
    """Write rows from ``start`` on into ``edges``, beginning at column ``at``."""
    e = 0
    for r in range(lengths.size):
        for _ in range(lengths[r]):
            edges[0, at + e] = start + r
            edges[1, at + e] = found[e]
            e += 1
