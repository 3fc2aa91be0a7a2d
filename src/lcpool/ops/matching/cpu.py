"""A maximal matching on a CPU: one edge after the other."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.threads import compiled

__all__ = ["matching"]


def matching(
    order: Tensor, edge_index: Tensor, ptr: Tensor, entry: Tensor | None, counts: Tensor,
    first: Tensor,
) -> Tensor:  # fmt: skip
    source, target = edge_index.numpy()
    return torch.from_numpy(take_edges(order.numpy(), source, target, ptr.numel() - 1))


@compiled
def take_edges(order, source, target, num_nodes):
    """Match an edge if both of its ends are free."""
    found = np.full(num_nodes, -1, np.int64)
    for e in order:
        u, v = source[e], target[e]
        if u != v and found[u] < 0 and found[v] < 0:
            found[u] = found[v] = e
    return found
