"""Top-k on a CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.compiled import compiled
from lcpool.ops.message.cpu import array

__all__ = ["topk"]


def topk(
    rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> tuple[Tensor, Tensor]:
    perm, batch = (torch.empty(num_kept, dtype=torch.int64) for _ in range(2))
    graphs = (ptr.numpy(), kept_ptr.numpy())
    best_first(0, counts.numel(), array(rank), *graphs, perm.numpy(), batch.numpy())
    return perm, batch


@compiled
def best_first(start, stop, rank, ptr, kept_ptr, perm, batch):
    """Sort the nodes of each graph, and keep the first."""
    for g in range(start, stop):
        zero = ptr[g]
        keys = descending_keys(rank[zero : ptr[g + 1]])
        # Stable; and numba's other sort takes quadratic time where many scores are equal.
        order = np.argsort(keys, kind="mergesort")
        if kept_ptr[g + 1] - kept_ptr[g] > order.size:
            raise ValueError("a plan keeps more nodes of a graph than it has.")
        for k in range(kept_ptr[g + 1] - kept_ptr[g]):
            perm[kept_ptr[g] + k] = zero + order[k]
            batch[kept_ptr[g] + k] = g


@compiled
def descending_keys(values):
    """Integers in the opposite order of the numbers: −0 as 0, and NaN first, as torch sorts it."""
    keys = values.astype(np.float64).view(np.int64)
    for i in range(keys.size):
        magnitude = keys[i] & 0x7FFFFFFFFFFFFFFF
        key = magnitude if keys[i] < 0 else -magnitude
        keys[i] = key if values[i] == values[i] else -0x7FFFFFFFFFFFFFFF - 1
    return keys
