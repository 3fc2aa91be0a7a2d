"""A maximal matching on a GPU: the rounds of plain torch inside one program per graph.

The host launches one kernel and does not synchronise. In every round the first edge of a graph
whose ends are free is matched, so the rounds end. Nodes that are not sorted by graph count as one
graph, and a graph so large that one program would take long goes through plain torch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.graph.sizes import inverse, longest
from lcpool.ops.launch import MAX_NODES, kernel
from lcpool.ops.matching import plain

__all__ = ["matching"]

# Edges that a program looks at together.
BLOCK = 128


def matching(
    order: Tensor, edge_index: Tensor, ptr: Tensor, entry: Tensor | None, counts: Tensor,
    first: Tensor,
) -> Tensor:  # fmt: skip
    if longest(counts) > MAX_NODES:
        return plain.matching(order, edge_index, ptr, entry, counts, first)
    found = order.new_full((ptr.numel() - 1,), -1)
    if order.numel():
        numbers = order if entry is None else entry
        match_edges[(counts.numel(),)](
            edge_index, inverse(order), ptr, numbers, first, torch.zeros_like(found), found,
            order.numel(), entry is not None, BLOCK,
        )  # fmt: skip
    return found


@kernel
def match_edges(
    edges, rank, ptr, entry, first, best, found, count, NUMBERED: tl.constexpr, BLOCK: tl.constexpr
):
    """Match the edges that come first at both of their ends, until no edge has free ends.

    A bid is an edge's rank minus the number of edges for each round: all bids of a round are lower
    than those of the rounds before, which need not be cleared.
    """
    g = tl.program_id(0)
    start, stop = tl.load(ptr + tl.load(first + g)), tl.load(ptr + tl.load(first + g + 1))
    shift, new = tl.full((), 0, tl.int64), tl.full((), 1, tl.int32)
    while new > 0:
        shift -= count
        for zero in range(start, stop, BLOCK):
            e, inside, u, v = ends(edges, entry, zero, stop, count, NUMBERED, BLOCK)
            free = inside & (u != v) & (tl.load(found + u, inside, 0) < 0)
            free &= tl.load(found + v, inside, 0) < 0
            bid = tl.load(rank + e, free, 0) + shift
            tl.atomic_min(best + u, bid, free, sem="relaxed", scope="cta")
            tl.atomic_min(best + v, bid, free, sem="relaxed", scope="cta")
        tl.debug_barrier()
        new = tl.full((), 0, tl.int32)
        for zero in range(start, stop, BLOCK):
            e, inside, u, v = ends(edges, entry, zero, stop, count, NUMBERED, BLOCK)
            bid = tl.load(rank + e, inside, 0) + shift
            wins = inside & (tl.load(best + u, inside, 0) == bid)
            wins &= tl.load(best + v, inside, 0) == bid
            tl.store(found + u, e, wins)
            tl.store(found + v, e, wins)
            new += tl.sum(wins.to(tl.int32))
        tl.debug_barrier()


@triton.jit
def ends(edges, entry, zero, stop, count, NUMBERED: tl.constexpr, BLOCK: tl.constexpr):
    """Some edges, which of them there are, and their ends."""
    e = zero + tl.arange(0, BLOCK)
    inside = e < stop
    if NUMBERED:
        e = tl.load(entry + e, inside, 0)
    return e, inside, tl.load(edges + e, inside, 0), tl.load(edges + count + e, inside, 0)
