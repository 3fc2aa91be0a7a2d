"""Top-k on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.cpu.compiled import compiled
from lcpool.ops.cpu.message import array


def select(
    rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> tuple[Tensor, Tensor]:
    """The nodes of highest rank of each graph, falling, ties to the lower index; and the graphs."""
    perm, batch = (torch.empty(num_kept, dtype=torch.int64) for _ in range(2))
    best_first(falling(rank), ptr.numpy(), kept_ptr.numpy(), perm.numpy(), batch.numpy())
    return perm, batch


def falling(rank: Tensor) -> Any:
    """Integers in the opposite order of the numbers: −0 as 0, and NaN first, as torch sorts it."""
    values = array(rank)
    code = (values + 0).view(f"i{values.itemsize}")
    rising = np.where(code < 0, code ^ np.iinfo(code.dtype).max, code)
    return np.where(np.isnan(values), np.iinfo(code.dtype).min, ~rising)


@compiled
def best_first(keys, ptr, kept_ptr, perm, batch):
    """Sort each graph, and take what it keeps."""
    for g in range(ptr.size - 1):
        order = np.argsort(keys[ptr[g] : ptr[g + 1]], kind="mergesort")
        for k in range(kept_ptr[g + 1] - kept_ptr[g]):
            perm[kept_ptr[g] + k] = ptr[g] + order[k]
            batch[kept_ptr[g] + k] = g
