"""A, S'ᵀ and S' by rows on a CPU."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from lcpool.ops.threads import compiled, in_parts

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
    edges, ptr = graph.out.size, list_ends(tuple(graph))
    if ptr[-1] > min(list_edges * edges, 2**32 - 1):
        return graph
    ptr, col = ptr.astype(np.uint32), np.empty(ptr[-1], np.uint32)
    in_parts(write_lists, ptr.size - 1, edges, EDGES_PER_THREAD, tuple(graph), ptr, col)
    return GraphRows(None, None, graph.into_ptr, graph.into, ptr, col)


def most_edges(graph: GraphRows) -> Any:
    """A bound on the entries of each row of A'."""
    ptr = graph.onto_ptr if graph.out is None else list_ends(tuple(graph))
    return count_ways(graph.into_ptr, graph.into, ptr)


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
    count = kept.size
    for e in range(source.size):
        count += new_id[target[e]] >= 0
    node, cluster = np.empty(count, np.uint32), np.empty(count, np.uint32)
    node[: kept.size], cluster[: kept.size] = kept, np.arange(kept.size)
    count = kept.size
    for e in range(source.size):
        i = new_id[target[e]]
        if i >= 0:
            node[count], cluster[count] = source[e], i
            count += 1
    return node, cluster


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
def list_ends(graph):
    """Where the list of each row of AS' begins, and the end of the last."""
    out_ptr, out, _, _, onto_ptr, _ = graph
    ptr = np.zeros(out_ptr.size, np.int64)
    for n in range(out_ptr.size - 1):
        ptr[n + 1] = ptr[n]
        for e in range(out_ptr[n], out_ptr[n + 1]):
            ptr[n + 1] += onto_ptr[out[e] + 1] - onto_ptr[out[e]]
    return ptr


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
