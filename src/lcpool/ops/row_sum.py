"""Sums over rows in plain torch, in a fixed order: the same input gives the same bits."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.sizes import owners


def row_sum(values: Tensor, ptr: Tensor) -> Tensor:
    """The sum of the values ``ptr[i]`` to ``ptr[i + 1]`` for each row i."""
    if values.is_cuda:  # where index_add has no fixed order
        return torch.segment_reduce(values, "sum", offsets=ptr, axis=0, initial=0)
    total = values.new_zeros(ptr.numel() - 1, *values.shape[1:])
    return total.index_add(0, owners(ptr, values.size(0)), values)
