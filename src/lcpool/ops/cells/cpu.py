"""Cells and components on a CPU: breadth-first searches that visit each edge once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.threads import compiled

__all__ = ["best_of_components", "nearest_kept"]


def nearest_kept(
    ptr: Tensor, node: Tensor, place: Tensor, perm: Tensor, counts: Tensor, first: Tensor
) -> Tensor:
    cell, order = torch.full_like(place, -1), place[perm].argsort()
    grow(ptr.numpy(), node.numpy(), perm.numpy(), order.numpy(), cell.numpy())
    return cell


def best_of_components(
    ptr: Tensor, node: Tensor, place: Tensor, counts: Tensor, first: Tensor
) -> Tensor:
    best = torch.zeros_like(place, dtype=torch.bool)
    mark_best(ptr.numpy(), node.numpy(), place.numpy(), best.numpy())
    return best


@compiled
def grow(ptr, node, perm, order, cell):
    """Search from all kept nodes at once, the best first.

    A queue keeps the order: nodes at distance t wait sorted by the places of their cells, so the
    first to reach a node is the best of those that are nearest.
    """
    queue = np.empty(cell.size, np.int64)
    last = order.size
    for k in range(last):
        queue[k] = perm[order[k]]
        cell[queue[k]] = order[k]
    first = 0
    while first < last:
        i = queue[first]
        first += 1
        for e in range(ptr[i], ptr[i + 1]):
            j = node[e]
            if cell[j] < 0:
                cell[j] = cell[i]
                queue[last] = j
                last += 1


@compiled
def mark_best(ptr, node, place, best):
    """Search from each node that no better one reached: it is the best of its component."""
    n = place.size
    queue, at = np.empty(n, np.int64), np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    for i in range(n):
        at[place[i]] = i
    for p in range(n):
        if seen[at[p]]:
            continue
        best[at[p]] = seen[at[p]] = True
        queue[0], first, last = at[p], 0, 1
        while first < last:
            i = queue[first]
            first += 1
            for e in range(ptr[i], ptr[i + 1]):
                if not seen[node[e]]:
                    seen[node[e]] = True
                    queue[last] = node[e]
                    last += 1
