"""Cells and components on a GPU: rounds over the nodes inside one program per graph.

The host does not wait for a round, and launches one kernel. Nodes that are not sorted by graph, or
a graph so large that one program would take long, go through plain torch.
"""

from __future__ import annotations

import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from lcpool.graph.assignment import positions
from lcpool.graph.sizes import inverse, longest
from lcpool.ops.cells import plain
from lcpool.ops.launch import MAX_NODES, kernel

__all__ = ["best_of_components", "nearest_kept"]

# Nodes that a program looks at together.
BLOCK = 128


def nearest_kept(
    ptr: Tensor, node: Tensor, place: Tensor, perm: Tensor, counts: Tensor, first: Tensor
) -> Tensor:
    if longest(counts) > MAX_NODES:
        return plain.nearest_kept(ptr, node, place, perm, counts, first)
    none, number = place.numel(), positions(perm, place.numel())
    owner = place.where(number >= 0, none)  # the place of the kept node
    distance = number.clamp(max=0).int()  # 0 for kept nodes, −1 for others
    if none:
        grow_cells[(counts.numel(),)](ptr, node, first, owner, distance, none, BLOCK)
    return pad(number[inverse(place)], (0, 1), value=-1)[owner]


def best_of_components(
    ptr: Tensor, node: Tensor, place: Tensor, counts: Tensor, first: Tensor
) -> Tensor:
    if longest(counts) > MAX_NODES:
        return plain.best_of_components(ptr, node, place, counts, first)
    best = place.clone()
    if place.numel():
        spread_best[(counts.numel(),)](ptr, node, first, inverse(place), best, BLOCK)
    return best == place


@kernel
def grow_cells(ptr, node, first, owner, distance, none, BLOCK: tl.constexpr):
    """Give each node the best owner of its neighbours that are one step nearer to a kept node."""
    start, stop = tl.load(first + tl.program_id(0)), tl.load(first + tl.program_id(0) + 1)
    t, new = 1, tl.full((), 1, tl.int32)
    while new > 0:
        new = tl.full((), 0, tl.int32)
        for zero in range(start, stop, BLOCK):
            i = zero + tl.arange(0, BLOCK)
            free = tl.load(distance + i, i < stop, 0) < 0
            edge, end = tl.load(ptr + i, free, 0), tl.load(ptr + i + 1, free, 0)
            best = tl.full((BLOCK,), 0, tl.int64) + none
            for step in range(tl.max(end - edge)):
                there = edge + step < end
                j = tl.load(node + edge + step, there, 0)
                # Nodes that this round reaches, at distance t, do not count yet.
                d = tl.load(distance + j, there, -1)
                known = (d >= 0) & (d < t)
                best = tl.minimum(best, tl.load(owner + j, known, none))
            reached = best < none
            tl.store(owner + i, best, reached)
            tl.store(distance + i, t, reached)
            new += tl.sum(reached.to(tl.int32))
        tl.debug_barrier()
        t += 1


@kernel
def spread_best(ptr, node, first, at, best, BLOCK: tl.constexpr):
    """Lower each node's best known place by its neighbours' until nothing changes.

    A node reads what others know before or after their change: the end is the same.
    """
    start, stop = tl.load(first + tl.program_id(0)), tl.load(first + tl.program_id(0) + 1)
    new = tl.full((), 1, tl.int32)
    while new > 0:
        new = tl.full((), 0, tl.int32)
        for zero in range(start, stop, BLOCK):
            i = zero + tl.arange(0, BLOCK)
            inside = i < stop
            edge, end = tl.load(ptr + i, inside, 0), tl.load(ptr + i + 1, inside, 0)
            now = tl.load(best + i, inside, 0)
            low = now
            for step in range(tl.max(end - edge)):
                there = edge + step < end
                j = tl.load(node + edge + step, there, 0)
                low = tl.where(there, tl.minimum(low, tl.load(best + j, there, 0)), low)
            # What the node of that place knows: long paths take few rounds.
            low = tl.minimum(low, tl.load(best + tl.load(at + low, inside, 0), inside, 0))
            better = inside & (low < now)
            tl.store(best + i, low, better)
            new += tl.sum(better.to(tl.int32))
        tl.debug_barrier()
