"""The pattern of S'ᵀAS' on a GPU: sets of clusters as bits, a hop as an OR over neighbours.

Each node has a row of bits, one per cluster of its graph. Three kernels give the rows of S', AS'
and S'ᵀAS'; a fourth writes the bits that are set as edges. Nothing is sorted, and the host
synchronises once, for the number of edges.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.graph.assignment import positions
from lcpool.graph.checks import Checks, check_max_edges
from lcpool.graph.edges import Edges, Neighbours
from lcpool.graph.sizes import longest
from lcpool.ops.connect.plain import cluster_search
from lcpool.ops.launch import cdiv, kernel, power_of_2
from lcpool.ops.topk import KeepPlan, Kept

__all__ = ["cluster_search", "connect_clusters"]

BITS = 32
# The most words of 32 bits in all rows (1 GiB); else joins.
MAX_WORDS = 2**28
# Added to the counts of edges if an edge leads out of its graph; larger than any count.
STRAY = tl.constexpr(2**62)


class ClusterLayout(NamedTuple):
    """Which rows and which bits belong together.

    Attributes:
        batch: the graph of each node.
        of_cluster: the graph of each cluster, sorted.
        first: the first cluster of each graph, and the end of the last.
        most: the largest number of clusters of a graph, on the host.
    """

    batch: Tensor
    of_cluster: Tensor
    first: Tensor
    most: int


def connect_clusters(
    edges: Edges, kept: Kept, batch: Tensor | None, plan: KeepPlan | None,
    self_loops: bool, max_edges: int, checks: Checks, hops: int,
) -> Tensor | None:  # fmt: skip
    perm, of_kept, place = kept
    if plan is None:
        plan, batch = KeepPlan.of_one(edges.num_nodes, perm.numel(), perm.device), None
    most = longest(plan.kept.counts)
    if not fits(edges.num_nodes, perm.numel(), most):
        return None
    batch = perm.new_zeros(edges.num_nodes) if batch is None else batch.contiguous()
    if place is None or of_kept is None:
        perm, place = perm.contiguous(), positions(perm, edges.num_nodes)
        of_kept = batch.index_select(0, perm)
    graphs = ClusterLayout(batch, of_kept, plan.kept.ptr, most)
    if hops == 3:
        onto, members = edges.out, edges.into
    else:
        members = Neighbours(
            torch.zeros_like(edges.out.ptr), edges.out.node
        )  # only the node itself
        onto = edges.out if hops == 2 else members
    return pattern(onto, edges.out, members, (place, perm), graphs, self_loops, max_edges, checks)


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

    Args:
        onto: S' by rows: the clusters of each node.
        out: A by rows: the targets of each node's edges.
        members: S'ᵀ by rows: the nodes of each cluster.
        names: for S = I + A, where ``onto`` and ``members`` are rows of A and Aᵀ: the cluster of
            each node, −1 for none, and the node of each cluster.
        graphs: which nodes and clusters belong together.
        self_loops: keep the diagonal.
        max_edges: refuse more edges than this.
        checks: pending checks, read with the number of edges.
    """
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
        members.ptr, members.node, perm, batch, of_cluster, first, stride, AS, found, counts,
        self_loops, local, width, num_warps=1,
    )  # fmt: skip
    ptr = counts.cumsum(0)
    (total,) = checks.read(ptr[-1:])
    if total >= STRAY.value:
        return None
    check_max_edges(max_edges, total)
    edges = first.new_empty(2, total)
    write_edges[clusters](of_cluster, first, stride, found, ptr, edges, total, width, num_warps=1)
    return edges


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
    ptr, node, perm, batch, of_cluster, first, stride, AS, found, counts,
    SELF_LOOPS: tl.constexpr, LOCAL: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """S'ᵀAS': the union over the nodes of a cluster, and its size."""
    p = tl.program_id(0).to(tl.int64)
    g = tl.load(of_cluster + p)
    zero, size = clusters_of(g, first)
    tl.store(counts, STRAY, (p < zero) | (p >= zero + size))
    i = p
    if LOCAL:
        i = tl.load(perm + p)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
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
def write_edges(of_cluster, first, stride, found, ptr, edges, total, WORDS: tl.constexpr):
    """The bits that are set, as edges."""
    p = tl.program_id(0).to(tl.int64)
    zero, size = clusters_of(tl.load(of_cluster + p), first)
    done = tl.load(ptr + p)
    for block in range(0, (size + 31) // 32, WORDS):
        word = block + tl.arange(0, WORDS)
        bits = tl.load(found + p * stride + word, word * 32 < size, 0)
        flags = tl.reshape((bits[:, None] >> tl.arange(0, 32)[None, :]) & 1, (WORDS * 32,))
        q = zero + block * 32 + tl.arange(0, WORDS * 32)
        at = done + tl.cumsum(flags, 0) - 1
        tl.store(edges + at, tl.zeros((WORDS * 32,), tl.int64) + p, flags == 1)
        tl.store(edges + total + at, q.to(tl.int64), flags == 1)
        done += tl.sum(flags)
