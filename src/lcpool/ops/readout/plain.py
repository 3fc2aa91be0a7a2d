"""Reductions over the nodes of each graph in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.sizes import owners
from lcpool.ops.message.plain import row_sum

__all__ = ["readout", "readout_backward", "softmax", "softmax_backward"]


def softmax(values: Tensor, ptr: Tensor) -> Tensor:
    batch = owners(ptr, values.numel())
    most = values.new_full((ptr.numel() - 1,), -torch.inf).scatter_reduce(0, batch, values, "amax")
    h = (values - most[batch]).exp()
    return h / row_sum(h, ptr)[batch]


def softmax_backward(grad: Tensor, h: Tensor, ptr: Tensor) -> Tensor:
    inner = row_sum(grad * h, ptr)
    return h * (grad - inner.index_select(0, owners(ptr, h.numel())))


def readout(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    batch, count = owners(ptr, x.size(0)), ptr.diff().unsqueeze(-1)
    mean = row_sum(x, ptr) / count.clamp(min=1)
    most = torch.full_like(mean, -torch.inf)
    most = most.scatter_reduce(0, batch.unsqueeze(-1).expand_as(x), x, "amax")
    ties = row_sum((x == most[batch]).to(x.dtype), ptr).clamp(min=1).int()
    return torch.cat([mean, most.where(count > 0, 0.0)], dim=-1), ties


def readout_backward(grad: Tensor, x: Tensor, ptr: Tensor, out: Tensor, ties: Tensor) -> Tensor:
    batch, count = owners(ptr, x.size(0)), ptr.diff().unsqueeze(-1)
    of_mean, of_most = grad.chunk(2, dim=-1)
    is_most = x == out.chunk(2, dim=-1)[1].index_select(0, batch)
    shared = (of_most / ties).index_select(0, batch).masked_fill(~is_most, 0.0)
    return (of_mean / count.clamp(min=1)).index_select(0, batch) + shared
