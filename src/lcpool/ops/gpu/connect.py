"""Connect on a GPU: sets of kept nodes as bits, a hop as an OR over neighbours.

Each node holds a row of bits, one for every kept node of its graph. Three sweeps give the rows of
S', AS' and S'ᵀAS'; a fourth writes down the bits that are set. Nothing is sorted, and the host
waits once, for the number of edges.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.ops.checks import Checks, check_max_edges
from lcpool.ops.edges import Edges
from lcpool.ops.topk import KeepPlan

BITS = 32
# Words of 32 bits that the rows may take together (1 GiB); what needs more is left to joins.
MAX_WORDS = 2**28
NODES = 128


def connect_clusters(
    edges: Edges,
    perm: Tensor,
    batch: Tensor | None,
    plan: KeepPlan | None,
    self_loops: bool,
    max_edges: int,
    checks: Checks,
) -> Tensor | None:
    """The pattern of S'ᵀAS' for S = I + A, or None where its bits take too much memory.

    Args:
        edges: A.
        perm: the kept nodes, by graph.
        batch: the graph of each node.
        plan: how many nodes each graph has and keeps. Without it, all are one graph.
        self_loops: keep the diagonal.
        max_edges: refuse more edges than this.
        checks: pending verdicts, read with the number of edges.
    """
    if plan is None:
        plan, batch = KeepPlan.of_one(edges.num_nodes, perm.numel(), perm.device), None
    batch = perm.new_zeros(edges.num_nodes) if batch is None else batch
    # As far apart as the longest rows need; the others leave a gap.
    stride = -(-int(plan.kept.counts.max()) // BITS) if plan.kept.counts.numel() else 0
    if not 0 < stride * edges.num_nodes <= MAX_WORDS:
        return None
    width = min(BITS, triton.next_power_of_2(stride))
    graph = (batch, plan.kept.ptr, stride)
    onto = torch.empty(stride * edges.num_nodes, dtype=torch.int32, device=perm.device)
    reach = torch.empty_like(onto)
    new_id = perm.new_full((edges.num_nodes,), -1)
    nodes, kept = (edges.num_nodes,), (perm.numel(),)
    into, out = edges.into, edges.out
    number[(triton.cdiv(perm.numel(), NODES),)](perm, new_id, perm.numel(), NODES)
    mark[nodes](out.ptr, out.node, new_id, *graph, onto, width, num_warps=1)
    hop[nodes](out.ptr, out.node, *graph, onto, reach, width, num_warps=1)
    counts = perm.new_empty(perm.numel() + 1)
    # The rows of S' have served: the ones of A' take their place.
    gather[kept](
        into.ptr, into.node, perm, *graph, reach, onto, counts, self_loops, width, num_warps=1
    )
    ptr = counts.cumsum(0)
    (total,) = checks.read(ptr[-1])
    check_max_edges(max_edges, total)
    found = torch.empty(2, total, dtype=torch.int64, device=perm.device)
    write[kept](perm, *graph, onto, ptr, found, total, width, num_warps=1)
    return found


@triton.jit
def number(perm, new_id, num_kept, NODES: tl.constexpr):
    """Where each kept node stands in perm."""
    p = tl.program_id(0).to(tl.int64) * NODES + tl.arange(0, NODES)
    tl.store(new_id + tl.load(perm + p, p < num_kept, 0), p, p < num_kept)


@triton.jit
def bits_of(g, first):
    """The first kept node of a graph, and the words of its rows."""
    zero = tl.load(first + g)
    return zero, (tl.load(first + g + 1) - zero + 31) // 32


@triton.jit
def mark(ptr, node, new_id, batch, first, stride, onto, WORDS: tl.constexpr):
    """S': the kept nodes that a node contributes to, itself and the targets of its edges."""
    i = tl.program_id(0).to(tl.int64)
    zero, length = bits_of(tl.load(batch + i), first)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    for block in range(0, length, WORDS):
        word = block + tl.arange(0, WORDS)
        bits = bit_of(tl.load(new_id + i), zero, word)
        for e in range(start, stop):
            bits |= bit_of(tl.load(new_id + tl.load(node + e)), zero, word)
        tl.store(onto + i * stride + word, bits, word < length)


@triton.jit
def bit_of(new_id, zero, word):
    """The bit of a kept node, nothing for others."""
    place = new_id - zero
    here = (new_id >= 0) & (place // 32 == word)
    return tl.where(here, 1 << (place % 32).to(tl.int32), 0)


@triton.jit
def hop(ptr, node, batch, first, stride, onto, reach, WORDS: tl.constexpr):
    """AS': the union over the targets of a node's edges."""
    i = tl.program_id(0).to(tl.int64)
    g = tl.load(batch + i)
    _, length = bits_of(g, first)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    for block in range(0, length, WORDS):
        word = block + tl.arange(0, WORDS)
        bits = tl.zeros((WORDS,), tl.int32)
        for e in range(start, stop):
            k = tl.load(node + e)
            # An edge that leaves its graph leads to a row of another length.
            here = word < tl.where(tl.load(batch + k) == g, length, 0)
            bits |= tl.load(onto + k * stride + word, here, 0)
        tl.store(reach + i * stride + word, bits, word < length)


@triton.jit
def gather(
    ptr, node, perm, batch, first, stride, reach, found, counts,
    SELF_LOOPS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """S'ᵀAS': the union over the cluster of a kept node, and how many it is."""
    p = tl.program_id(0).to(tl.int64)
    i = tl.load(perm + p)
    g = tl.load(batch + i)
    _, length = bits_of(g, first)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    count = tl.zeros((), tl.int64)
    for block in range(0, length, WORDS):
        word = block + tl.arange(0, WORDS)
        bits = tl.load(reach + i * stride + word, word < length, 0)
        for e in range(start, stop):
            k = tl.load(node + e)
            here = word < tl.where(tl.load(batch + k) == g, length, 0)
            bits |= tl.load(reach + k * stride + word, here, 0)
        if not SELF_LOOPS:
            bits &= ~bit_of(p, tl.load(first + g), word)
        tl.store(found + i * stride + word, bits, word < length)
        count += tl.sum((bits[:, None] >> tl.arange(0, 32)[None, :]) & 1)
    tl.store(counts + 1 + p, count)
    tl.store(counts + p * 0, 0, p == 0)


@triton.jit
def write(
    perm, batch, first, stride, found, ptr, edges, total, WORDS: tl.constexpr,
):  # fmt: skip
    """The bits that are set, as edges."""
    p = tl.program_id(0).to(tl.int64)
    i = tl.load(perm + p)
    zero, length = bits_of(tl.load(batch + i), first)
    done = tl.load(ptr + p)
    for block in range(0, length, WORDS):
        word = block + tl.arange(0, WORDS)
        bits = tl.load(found + i * stride + word, word < length, 0)
        flags = tl.reshape((bits[:, None] >> tl.arange(0, 32)[None, :]) & 1, (WORDS * 32,))
        q = zero + block * 32 + tl.arange(0, WORDS * 32)
        at = done + tl.cumsum(flags, 0) - 1
        tl.store(edges + at, tl.zeros((WORDS * 32,), tl.int64) + p, flags == 1)
        tl.store(edges + total + at, q.to(tl.int64), flags == 1)
        done += tl.sum(flags)
