"""A maximal k-independent set on a CPU: one node after the other."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.threads import compiled

__all__ = ["independent_set"]


def independent_set(
    order: Tensor, ptr: Tensor, node: Tensor, k: int, counts: Tensor, first: Tensor
) -> Tensor:
    return torch.from_numpy(take_nodes(order.numpy(), ptr.numpy(), node.numpy(), k))


@compiled
def take_nodes(order, ptr, node, k):
    """Keep a node if it is free; what it reaches in at most k hops is not free any more."""
    centre = np.full(order.size, -1, np.int64)
    seen = np.full(order.size, -1, np.int64)  # the last kept node that reached it
    queue = np.empty(order.size, np.int64)
    for u in order:
        if centre[u] >= 0:
            continue
        centre[u], seen[u], queue[0] = u, u, u
        begin, end = 0, 1
        for _ in range(k):
            stop = end
            for q in range(begin, stop):
                for e in range(ptr[queue[q]], ptr[queue[q] + 1]):
                    v = node[e]
                    if seen[v] != u:
                        seen[v] = u
                        queue[end] = v
                        end += 1
                        if centre[v] < 0:
                            centre[v] = u
            if end == stop:
                break
            begin = stop
    return centre
