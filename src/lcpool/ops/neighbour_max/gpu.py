"""The maximum over neighbours on a GPU: a program per node."""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from lcpool.ops.launch import kernel
from lcpool.ops.message.gpu import channel_block, grid, wide

__all__ = ["neighbour_max", "neighbour_max_backward"]


def neighbour_max(x: Tensor, ptr: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    most, ties = torch.empty_like(x), torch.empty(x.shape, dtype=torch.int32, device=x.device)
    if most.numel():
        width = channel_block(x)
        find_maxima[grid(x, width)](x, ptr, node, most, ties, x.size(1), width, num_warps=1)
    return most, ties


def neighbour_max_backward(
    share: Tensor, x: Tensor, most: Tensor, out_ptr: Tensor, out_node: Tensor
) -> Tensor:
    grad = torch.empty_like(x)
    if grad.numel():
        width = channel_block(x)
        add_shares[grid(x, width)](
            share, x, most, out_ptr, out_node, grad, x.size(1), width, num_warps=1
        )
    return grad


@kernel
def find_maxima(x, ptr, node, most, ties, width, CHANNELS: tl.constexpr):
    """max_k x_k, NaN if one of them is."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < width
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    largest = wide(tl.full((CHANNELS,), float("-inf"), x.dtype.element_ty))
    count = tl.zeros((CHANNELS,), tl.int32)
    for e in range(start, stop):
        row = wide(tl.load(x + tl.load(node + e) * width + c, inside, 0.0))
        above = (row > largest) | (row != row)
        count = tl.where(above, 1, count + (row == largest).to(tl.int32))
        largest = tl.where(above, row, largest)
    at = i * width + c
    tl.store(most + at, tl.where(stop > start, largest, 0.0), inside)
    tl.store(ties + at, tl.maximum(count, 1), inside)


@kernel
def add_shares(share, x, most, out_ptr, out_node, grad, width, CHANNELS: tl.constexpr):
    """Σ_j of the shares of the nodes j whose maximum is x_i."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < width
    own = tl.load(x + i * width + c, inside, 0.0)
    total = tl.zeros((CHANNELS,), share.dtype.element_ty)
    for e in range(tl.load(out_ptr + i), tl.load(out_ptr + i + 1)):
        at = tl.load(out_node + e) * width + c
        part = tl.load(share + at, inside, 0.0)
        total += tl.where(tl.load(most + at, inside, 0.0) == own, part, 0.0)
    tl.store(grad + i * width + c, total, inside)
