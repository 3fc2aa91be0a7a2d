"""The readout: one vector a graph."""

from __future__ import annotations

import torch
from torch import Tensor


def readout(x: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    """Mean ‖ max over the nodes of each graph, ``[batch_size, 2 · channels]``; zeros for none."""
    shape = (batch_size, x.size(-1))
    count = x.new_zeros(batch_size).index_add(0, batch, x.new_ones(batch.numel()))
    mean = x.new_zeros(shape).index_add(0, batch, x) / count.clamp(min=1).unsqueeze(-1)
    index = batch.unsqueeze(-1).expand_as(x)
    most = x.new_zeros(shape).scatter_reduce(0, index, x, "amax", include_self=False)
    return torch.cat([mean, most], dim=-1)
