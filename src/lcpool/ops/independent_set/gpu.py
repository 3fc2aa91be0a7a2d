"""A maximal k-independent set on a GPU: the rounds of plain torch inside one program per graph.

The host launches one kernel and does not synchronise. In every round the first free node of a graph
is kept, so the rounds end. Nodes that are not sorted by graph count as one graph, and a graph so
large that one program would take long goes through plain torch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.graph.sizes import inverse, longest, owners
from lcpool.ops.independent_set import plain
from lcpool.ops.launch import MAX_NODES, kernel

__all__ = ["independent_set"]

# Nodes or edges that a program looks at together.
BLOCK = 128


def independent_set(
    order: Tensor, ptr: Tensor, node: Tensor, k: int, counts: Tensor, first: Tensor
) -> Tensor:
    if longest(counts) > MAX_NODES:
        return plain.independent_set(order, ptr, node, k, counts, first)
    none, rank = order.numel(), inverse(order)
    joined = torch.full_like(order, none)  # the rank of a kept node
    values, before = torch.empty_like(order), torch.empty_like(order)
    if none:
        source = owners(ptr, node.numel())
        keep_first[(counts.numel(),)](
            rank, ptr, source, node, first, joined, values, before, none, min(k, none), BLOCK
        )
    # A padding row has joined nothing.
    return order[joined.clamp(max=none - 1)]


@kernel
def keep_first(
    rank, ptr, source, node, first, joined, values, before, none, k, BLOCK: tl.constexpr
):  # fmt: skip
    """Keep the free nodes that come first within k hops, until no node is free."""
    start, stop = tl.load(first + tl.program_id(0)), tl.load(first + tl.program_id(0) + 1)
    edge, end = tl.load(ptr + start), tl.load(ptr + stop)
    free = tl.full((), 1, tl.int32)
    while free > 0:
        for zero in range(start, stop, BLOCK):
            i = zero + tl.arange(0, BLOCK)
            is_free = tl.load(joined + i, i < stop, 0) == none
            tl.store(values + i, tl.where(is_free, tl.load(rank + i, i < stop, 0), none), i < stop)
        tl.debug_barrier()
        lower(source, node, values, before, start, stop, edge, end, k, BLOCK)
        for zero in range(start, stop, BLOCK):
            i = zero + tl.arange(0, BLOCK)
            own = tl.load(rank + i, i < stop, 0)
            is_free = tl.load(joined + i, i < stop, 0) == none
            wins = is_free & (tl.load(values + i, i < stop, 0) == own)
            tl.store(values + i, tl.where(wins, own, none), i < stop)
        tl.debug_barrier()
        lower(source, node, values, before, start, stop, edge, end, k, BLOCK)
        free = tl.full((), 0, tl.int32)
        for zero in range(start, stop, BLOCK):
            i = zero + tl.arange(0, BLOCK)
            # Nodes that were kept before may come later in the order than those of this round.
            least = tl.minimum(tl.load(joined + i, i < stop, 0), tl.load(values + i, i < stop, 0))
            # Along directed edges, one may reach a node that comes before it and is not decided.
            least = tl.where(least <= tl.load(rank + i, i < stop, 0), least, none)
            tl.store(joined + i, least, i < stop)
            free += tl.sum(((i < stop) & (least == none)).to(tl.int32))
        tl.debug_barrier()


@triton.jit
def lower(source, node, values, before, start, stop, edge, end, k, BLOCK: tl.constexpr):
    """Lower each value to the least of the nodes that reach it in at most k hops.

    A hop reads the values before it. Minima come out the same in whatever order they are taken.
    """
    hop, new = 0, tl.full((), 1, tl.int32)
    while (hop < k) & (new > 0):
        for zero in range(start, stop, BLOCK):
            i = zero + tl.arange(0, BLOCK)
            tl.store(before + i, tl.load(values + i, i < stop, 0), i < stop)
        tl.debug_barrier()
        new = tl.full((), 0, tl.int32)
        for zero in range(edge, end, BLOCK):
            e = zero + tl.arange(0, BLOCK)
            value = tl.load(before + tl.load(source + e, e < end, 0), e < end, 0)
            onto = values + tl.load(node + e, e < end, 0)
            # A look first: most values are low enough already, and atomic minima are slow.
            higher = (e < end) & (tl.load(onto, e < end, 0) > value)
            tl.atomic_min(onto, value, higher, sem="relaxed", scope="cta")
            new += tl.sum(higher.to(tl.int32))
        tl.debug_barrier()
        hop += 1
