"""S'ᵀAS' on a GPU: sets of clusters as bits, a hop as an OR over neighbours.

Each node has a row of bits, one per cluster of its graph. Three kernels give the rows of S', AS'
and S'ᵀAS'; a fourth writes the bits that are set as edges. Nothing is sorted, and the host
synchronises once, for the number of edges.

For the weights each node has a dense row of k_g numbers, one per cluster of its graph g. These rows
are summed over the entries of A and S', which one sort brings into rows; one thread sums an entry
of A' or of a gradient. All sums are made in the order of the entries, without atomics: the same
input gives the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.graph.assignment import Assignment, positions
from lcpool.graph.checks import Checks, check_max_edges
from lcpool.graph.edges import Edges, Neighbours
from lcpool.graph.sizes import longest, owners, row_pointers
from lcpool.ops.connect import plain
from lcpool.ops.connect.plain import cluster_search
from lcpool.ops.connect.product import GraphSlices, SortedMatrices
from lcpool.ops.launch import cdiv, kernel, power_of_2
from lcpool.ops.topk import KeepPlan, Kept

__all__ = [
    "cluster_search", "connect_assignment", "connect_assignment_backward", "connect_clusters",
    "takes_assignment",
]  # fmt: skip

BITS = 32
# The most words of 32 bits in all rows (1 GiB); else joins.
MAX_WORDS = 2**28
# Added to the counts of edges if an edge leads out of its graph; larger than any count.
STRAY = tl.constexpr(2**62)
# The most numbers in the dense rows (1 GiB in 32 bits, twice that with gradients): else joins.
MAX_NUMBERS = 2**28
# Columns of a row, and entries, that a program takes at a time.
TILE_COLUMNS = 128
ENTRIES = 128


class ClusterLayout(NamedTuple):
    """Which rows and which bits belong together."""

    batch: Tensor  # the graph of each node
    of_cluster: Tensor  # the graph of each cluster, sorted
    first: Tensor  # the first cluster of each graph, and the end of the last
    most: int  # the largest number of clusters of a graph, on the host


class BitRows(NamedTuple):
    """Rows of bits, one per cluster of the graph of each cluster."""

    rows: Tensor
    counts: Tensor  # from the second on, how many bits of each row are set; the first is 0 or STRAY
    stride: int  # words of a row
    width: int  # words that a program takes at a time


def connect_clusters(
    edges: Edges, kept: Kept, batch: Tensor | None, plan: KeepPlan | None,
    self_loops: bool, max_edges: int, checks: Checks, hops: int,
) -> Tensor:  # fmt: skip
    perm, of_kept, place = kept
    options = (self_loops, max_edges, checks)
    if plan is None:
        plan, batch = KeepPlan.of_one(edges.num_nodes, perm.numel(), perm.device), None
    most, found = longest(plan.kept.counts), None
    if fits(edges.num_nodes, perm.numel(), most):
        batch = perm.new_zeros(edges.num_nodes) if batch is None else batch.contiguous()
        if place is None or of_kept is None:
            perm, place = perm.contiguous(), positions(perm, edges.num_nodes)
            of_kept = batch.index_select(0, perm)
        graphs = ClusterLayout(batch, of_kept, plan.kept.ptr, most)
        found = pattern(*layered(edges, hops), (place, perm), graphs, *options)
    if found is None:
        return plain.connect_clusters(edges, kept, batch, plan, *options, hops)
    return found


def layered(edges: Edges, hops: int) -> tuple[Neighbours, Neighbours, Neighbours]:
    """S', A and S'ᵀ by rows, without the node itself, for clusters within so many hops."""
    if hops == 3:
        return edges.out, edges.out, edges.into
    # The cluster of a node is only the node itself; no rows of Aᵀ are sorted for it.
    none = Neighbours(torch.zeros_like(edges.out.ptr), edges.out.node)
    return edges.out if hops == 2 else none, edges.out, none


def fits(num_nodes: int, num_clusters: int, most: int) -> bool:
    """Whether there are nodes and clusters, and their bits fit into ``MAX_WORDS``."""
    return num_nodes > 0 < cdiv(most, BITS) * (num_nodes + num_clusters) <= MAX_WORDS


def pattern(
    onto: Neighbours,
    out: Neighbours,
    members: Neighbours,
    names: tuple[Tensor, Tensor] | None,
    graphs: ClusterLayout,
    self_loops: bool,
    max_edges: int,
    checks: Checks,
) -> Tensor | None:
    """The edges of S'ᵀAS', sorted, or None if an edge or an entry leads out of its graph.

    ``onto``, ``out`` and ``members`` are S', A and S'ᵀ by rows. For S = I + A, where the first and
    last are rows of A and Aᵀ, ``names`` are the cluster of each node, −1 for none, and the node of
    each cluster. Pending ``checks`` are read with the number of edges.
    """
    bits = mark_pattern(onto, out, members, names, graphs, self_loops)
    ptr = bits.counts.cumsum(0)
    (total,) = checks.read(ptr[-1:])
    if total >= STRAY.value:
        return None
    check_max_edges(max_edges, total)
    edges = ptr.new_empty(2, total)
    write_edges[(graphs.of_cluster.numel(),)](
        graphs.of_cluster, graphs.first, graphs.first.numel() - 1, bits.stride, bits.rows, ptr,
        edges, total, bits.width, num_warps=1,
    )  # fmt: skip
    return edges


def mark_pattern(
    onto: Neighbours,
    out: Neighbours,
    members: Neighbours,
    names: tuple[Tensor, Tensor] | None,
    graphs: ClusterLayout,
    self_loops: bool,
) -> BitRows:
    """The rows of S'ᵀAS' as bits."""
    batch, of_cluster, first, most = graphs
    # All rows have the length of the longest.
    stride = cdiv(most, BITS)
    # Words that a program takes at a time: those of an average row.
    width = min(BITS, power_of_2(cdiv(of_cluster.numel(), BITS * (first.numel() - 1))))
    local, (place, perm) = names is not None, names or (batch, batch)
    nodes, clusters = (batch.numel(),), (of_cluster.numel(),)
    words = (stride * batch.numel(), stride * batch.numel(), stride * of_cluster.numel())
    S, AS, found = (batch.new_empty(size, dtype=torch.int32) for size in words)
    counts = first.new_empty(of_cluster.numel() + 1)
    mark_clusters[nodes](
        onto.ptr, onto.node, place, batch, first, stride, S, counts, local, width, num_warps=1
    )
    or_over_targets[nodes](
        out.ptr, out.node, batch, first, stride, S, AS, counts, width, num_warps=1
    )
    or_over_members[clusters](
        members.ptr, members.node, perm, batch, of_cluster, first, first.numel() - 1, stride, AS,
        found, counts, self_loops, local, width, num_warps=1,
    )  # fmt: skip
    return BitRows(found, counts, stride, width)


def parts(rows: SortedMatrices, num_nodes: int) -> list[Neighbours]:
    """The four matrices."""
    return [Neighbours(rows.ptr[i * even(num_nodes) :], rows.column) for i in range(4)]


def even(number: int) -> int:
    """The next even number."""
    return number + number % 2


def takes_assignment(S: Assignment, graphs: GraphSlices | None) -> bool:
    # The dense rows and the bits must fit into memory, and the graphs must be those of S'.
    if graphs is None:
        n, k = np.array([S.num_nodes]), np.array([S.num_clusters])
    else:
        n, k = graphs.num_nodes.numpy(), graphs.num_clusters.numpy()
    room = (n + k) @ k <= MAX_NUMBERS and k.sum() == S.num_clusters
    return bool(room) and fits(S.num_nodes, S.num_clusters, int(k.max(initial=0)))


def connect_assignment(
    edge_index: Tensor, edge_weight: Tensor, S: Assignment, graphs: GraphSlices | None,
    self_loops: bool, max_edges: int, checks: Checks,
) -> tuple[Tensor, Tensor, SortedMatrices | None]:  # fmt: skip
    options = (self_loops, max_edges, checks)
    if not takes_assignment(S, graphs):
        return plain.connect_assignment(edge_index, edge_weight, S, graphs, *options)
    batch, sizes, kept, first = graphs or GraphSlices.of_one(S)
    most = longest(kept)
    known = ClusterLayout(batch, owners(first, S.num_clusters), first, most)
    rows = by_rows(edge_index, edge_weight, S, known)
    out, _, onto, members = parts(rows, S.num_nodes)
    edges = pattern(onto, out, members, None, known, *options)
    if edges is None:
        return plain.connect_assignment(edge_index, edge_weight, S, graphs, *options)
    graph, origin, entry = (batch, first, rows.origin), rows.origin, rows.entry
    size, width = int(sizes @ kept), columns(most)
    dense, AS = entry.new_empty(size), entry.new_empty(size)
    dense_rows[(S.num_nodes,)](onto.ptr, onto.node, entry, *graph, dense, width, num_warps=1)
    add_rows[(S.num_nodes, 1)](
        out.ptr, out.node, entry, *graph, origin, dense, AS, 0, width, num_warps=1
    )
    weight = entry.new_empty(edges.size(1))
    pattern_weights[blocks(weight)](
        edges, weight.numel(), members.ptr, members.node, entry, origin, AS, weight, ENTRIES
    )
    return weight, edges, rows


def connect_assignment_backward(
    grad: Tensor, edges: Tensor, edge_index: Tensor, edge_weight: Tensor, S: Assignment,
    graphs: GraphSlices | None, rows: SortedMatrices,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """With G the gradient of A', U = S'G and W = S'Gᵀ, the gradients are as follows.

    dA(n, m) = Σ_q u_nq s_mq and dS'(n, p) = Σ_{n → m} a_nm w_mp + Σ_{m → n} a_mn u_mp.
    """
    if not rows.ptr.numel():  # Joins were used.
        return plain.connect_assignment_backward(grad, edges, edge_index, edge_weight, S)
    assert S.weight is not None
    batch, sizes, kept, first = graphs or GraphSlices.of_one(S)
    out, into, onto, _ = parts(rows, S.num_nodes)
    origin, entry = rows.origin, rows.entry
    # U and the rows of G, W and those of Gᵀ.
    size = int((sizes + kept) @ kept)
    dense = entry.new_zeros(2, size)
    dense_gradient[blocks(grad)](
        edges, grad, grad.numel(), origin[S.num_nodes :], dense, size, ENTRIES
    )
    add_rows[(S.num_nodes, 2)](
        onto.ptr, onto.node, entry, batch, first, origin, origin[S.num_nodes :], dense, dense, size,
        columns(longest(kept)), num_warps=1,
    )  # fmt: skip
    of_weight, of_value = torch.empty_like(edge_weight), torch.empty_like(S.weight)
    edge_gradients[blocks(of_weight)](
        edge_index, of_weight.numel(), onto.ptr, onto.node, entry, origin, dense, of_weight, ENTRIES
    )
    entry_gradients[blocks(of_value)](
        S.node_index.contiguous(), S.cluster_index.contiguous(), of_value.numel(), out.ptr,
        into.ptr, out.node, entry, origin, dense, size, of_value, ENTRIES,
    )  # fmt: skip
    return of_weight, of_value


def by_rows(
    edge_index: Tensor, edge_weight: Tensor, S: Assignment, graphs: ClusterLayout
) -> SortedMatrices:
    """Sort all four matrices by rows at once, and lay out the dense rows."""
    assert S.weight is not None
    (source, target), n = edge_index, even(S.num_nodes)
    row = torch.cat([source, target + n, S.node_index + 2 * n, S.cluster_index + 3 * n])
    row, order = row.sort(stable=True)
    column = torch.cat([target, source, S.cluster_index, S.node_index])[order]
    entry = torch.cat([edge_weight, edge_weight, S.weight, S.weight])[order]
    graph, first = torch.cat([graphs.batch, graphs.of_cluster]), graphs.first
    # A dense row ends at the sum of all k_g up to its own, with the last q of its graph.
    origin = first.diff()[graph].cumsum(0) - first[1:][graph]
    return SortedMatrices(row_pointers(row, 3 * n + S.num_clusters), column, origin, entry)


def columns(most: int) -> int:
    """The number of columns of a program."""
    return min(TILE_COLUMNS, power_of_2(most))


def blocks(entries: Tensor) -> tuple[int]:
    """A program for each block of entries."""
    return (cdiv(entries.numel(), ENTRIES),)


@triton.jit
def clusters_of(g, first):
    """The first cluster of a graph, and their number."""
    zero = tl.load(first + g)
    return zero, tl.load(first + g + 1) - zero


@kernel
def mark_clusters(
    ptr, node, place, batch, first, stride, S, counts, LOCAL: tl.constexpr, WORDS: tl.constexpr
):
    """S': the clusters of each node. LOCAL: those of itself and of the targets of its edges."""
    i = tl.program_id(0).to(tl.int64)
    tl.store(counts, tl.zeros((), tl.int64), i == 0)  # STRAY if an edge leads out of its graph
    zero, size = clusters_of(tl.load(batch + i), first)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    for block in range(0, (size + 31) // 32, WORDS):
        word = block + tl.arange(0, WORDS)
        bits = tl.zeros((WORDS,), tl.int32)
        if LOCAL:
            bits |= bit_of(tl.load(place + i), zero, word)
        for e in range(start, stop):
            c = tl.load(node + e)
            if LOCAL:
                c = tl.load(place + c)
            bits |= bit_of(c, zero, word)
        tl.store(S + i * stride + word, bits, word * 32 < size)


@triton.jit
def bit_of(cluster, zero, word):
    """The bit of a cluster in a row, 0 for −1."""
    place = cluster - zero
    here = (cluster >= 0) & (place // 32 == word)
    return tl.where(here, 1 << (place % 32).to(tl.int32), 0)


@kernel
def or_over_targets(ptr, node, batch, first, stride, S, AS, counts, WORDS: tl.constexpr):
    """AS': the union over the targets of a node's edges."""
    i = tl.program_id(0).to(tl.int64)
    g = tl.load(batch + i)
    _, size = clusters_of(g, first)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    # At least once, to find edges that lead out of the graph.
    for block in range(0, tl.maximum((size + 31) // 32, 1), WORDS):
        word = block + tl.arange(0, WORDS)
        bits = tl.zeros((WORDS,), tl.int32)
        for e in range(start, stop):
            k = tl.load(node + e)
            tl.store(counts, STRAY, tl.load(batch + k) != g)
            bits |= tl.load(S + k * stride + word, word * 32 < size, 0)
        tl.store(AS + i * stride + word, bits, word * 32 < size)


@kernel
def or_over_members(
    ptr, node, perm, batch, of_cluster, first, graphs, stride, AS, found, counts,
    SELF_LOOPS: tl.constexpr, LOCAL: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """S'ᵀAS': the union over the nodes of a cluster, and its size; 0 for rows past the last."""
    p = tl.program_id(0).to(tl.int64)
    g = tl.load(of_cluster + p)
    zero, size = clusters_of(g, first)
    exists = p < tl.load(first + graphs)
    size = tl.where(exists, size, 0)
    tl.store(counts, STRAY, exists & ((p < zero) | (p >= zero + size)))
    i = p
    if LOCAL:
        i = tl.load(perm + p)
    start, stop = tl.load(ptr + i, exists, 0), tl.load(ptr + i + 1, exists, 0)
    count = tl.zeros((), tl.int64)
    for block in range(0, (size + 31) // 32, WORDS):
        word = block + tl.arange(0, WORDS)
        bits = tl.zeros((WORDS,), tl.int32)
        if LOCAL:
            bits |= tl.load(AS + i * stride + word, word * 32 < size, 0)
        for e in range(start, stop):
            k = tl.load(node + e)
            tl.store(counts, STRAY, tl.load(batch + k) != g)
            bits |= tl.load(AS + k * stride + word, word * 32 < size, 0)
        if not SELF_LOOPS:
            bits &= ~bit_of(p, zero, word)
        tl.store(found + p * stride + word, bits, word * 32 < size)
        count += tl.sum((bits[:, None] >> tl.arange(0, 32)[None, :]) & 1)
    tl.store(counts + 1 + p, count)


@kernel
def write_edges(of_cluster, first, graphs, stride, found, ptr, edges, total, WORDS: tl.constexpr):
    """The bits that are set, as edges."""
    p = tl.program_id(0).to(tl.int64)
    zero, size = clusters_of(tl.load(of_cluster + p), first)
    size = tl.where(p < tl.load(first + graphs), size, 0)
    done = tl.load(ptr + p)
    for block in range(0, (size + 31) // 32, WORDS):
        word = block + tl.arange(0, WORDS)
        bits = tl.load(found + p * stride + word, word * 32 < size, 0)
        flags = tl.reshape((bits[:, None] >> tl.arange(0, 32)[None, :]) & 1, (WORDS * 32,))
        q = zero + block * 32 + tl.arange(0, WORDS * 32)
        at = done + tl.cumsum(flags, 0) - 1
        here = (flags == 1) & (at < total)  # a bound that is too low must not break memory
        tl.store(edges + at, tl.zeros((WORDS * 32,), tl.int64) + p, here)
        tl.store(edges + total + at, q.to(tl.int64), here)
        done += tl.sum(flags)


@kernel
def dense_rows(ptr, node, entry, batch, first, origin, out, COLUMNS: tl.constexpr):
    """S' as dense rows; duplicate entries are added."""
    i = tl.program_id(0).to(tl.int64)
    g = tl.load(batch + i)
    end = tl.load(first + g + 1)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    out += tl.load(origin + i)
    for block in range(tl.load(first + g), end, COLUMNS):
        q = block + tl.arange(0, COLUMNS)
        total = tl.zeros((COLUMNS,), out.dtype.element_ty)
        for e in range(start, stop):
            total += tl.where(tl.load(node + e) == q, tl.load(entry + e), 0.0)
        tl.store(out + q, total, q < end)


@kernel
def add_rows(
    ptr, node, entry, batch, first, origin, x_origin, x, out, apart, COLUMNS: tl.constexpr
):
    """The sum of dense rows of x over a node's entries; a second x is ``apart`` from the first."""
    i = tl.program_id(0).to(tl.int64)
    x += tl.program_id(1).to(tl.int64) * apart
    out += tl.program_id(1).to(tl.int64) * apart + tl.load(origin + i)
    g = tl.load(batch + i)
    end = tl.load(first + g + 1)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    for block in range(tl.load(first + g), end, COLUMNS):
        q = block + tl.arange(0, COLUMNS)
        total = tl.zeros((COLUMNS,), out.dtype.element_ty)
        for e in range(start, stop):
            row = x + tl.load(x_origin + tl.load(node + e))
            total += tl.load(entry + e) * tl.load(row + q, q < end, 0.0)
        tl.store(out + q, total, q < end)


@triton.jit
def load_edges(edges, count, ENTRIES: tl.constexpr):
    """The numbers of a program's edges, their sources and targets, and which of them exist."""
    e = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    here = e < count
    return e, tl.load(edges + e, here, 0), tl.load(edges + count + e, here, 0), here


@triton.jit
def row_times_column(row, here, q, ptr, node, entry, origin, x):
    """Σ_k of the entries (row, k) times x(k, q)."""
    start, stop = tl.load(ptr + row, here, 0), tl.load(ptr + row + 1, here, 0)
    total = tl.zeros(row.shape, x.dtype.element_ty)
    for step in range(0, tl.max(stop - start)):
        e = start + step
        going = e < stop
        at = tl.load(origin + tl.load(node + e, going, 0), going, 0) + q
        total += tl.load(entry + e, going, 0.0) * tl.load(x + at, going, 0.0)
    return total


@kernel
def pattern_weights(edges, count, ptr, node, entry, origin, AS, weight, ENTRIES: tl.constexpr):
    """The weights of S'ᵀAS' at its edges: Σ_n s_np (AS')(n, q)."""
    e, p, q, here = load_edges(edges, count, ENTRIES)
    tl.store(weight + e, row_times_column(p, here, q, ptr, node, entry, origin, AS), here)


@kernel
def dense_gradient(edges, grad, count, origin, x, apart, ENTRIES: tl.constexpr):
    """G and, ``apart`` from it, Gᵀ as dense rows."""
    e, p, q, here = load_edges(edges, count, ENTRIES)
    value = tl.load(grad + e, here, 0.0)
    tl.store(x + tl.load(origin + p, here, 0) + q, value, here)
    tl.store(x + apart + tl.load(origin + q, here, 0) + p, value, here)


@kernel
def edge_gradients(edges, count, ptr, node, entry, origin, U, of_weight, ENTRIES: tl.constexpr):
    """dA(n, m) = Σ_q u_nq s_mq."""
    edge, n, m, here = load_edges(edges, count, ENTRIES)
    start, stop = tl.load(ptr + m, here, 0), tl.load(ptr + m + 1, here, 0)
    row = U + tl.load(origin + n, here, 0)
    total = tl.zeros((ENTRIES,), U.dtype.element_ty)
    for step in range(0, tl.max(stop - start)):
        e = start + step
        going = e < stop
        at = tl.load(node + e, going, 0)
        total += tl.load(entry + e, going, 0.0) * tl.load(row + at, going, 0.0)
    tl.store(of_weight + edge, total, here)


@kernel
def entry_gradients(
    nodes, clusters, count, out_ptr, into_ptr, node, entry, origin, U, apart, of_value,
    ENTRIES: tl.constexpr,
):  # fmt: skip
    """dS'(n, p) = Σ_{n → m} a_nm w_mp + Σ_{m → n} a_mn u_mp."""
    e = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    here = e < count
    n, p = tl.load(nodes + e, here, 0), tl.load(clusters + e, here, 0)
    total = row_times_column(n, here, p, out_ptr, node, entry, origin, U + apart)
    total += row_times_column(n, here, p, into_ptr, node, entry, origin, U)
    tl.store(of_value + e, total, here)
