"""The biases of several runs in one kernel, forward and backward.

With torch's operations, twice as many numbers would move: the biases copied to every row, and the
gradients padded to sum them.
"""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.ops.launch import cdiv, kernel, power_of_2
from lcpool.train.stack.rows import RunRows

# Of a program that adds, and of one that sums.
ROWS, CHANNELS = 32, 128
SUMMED, FEW, WARPS = 256, 16, 8


@kernel
def add_bias(x, bias, out, table, runs, channels, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    """y = x + b for some rows and channels of a run."""
    run = tl.program_id(1)
    count, first = tl.load(table + run), tl.load(table + runs + run)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < channels
    at = (first + row)[:, None] * channels + channel[None, :]
    mask = (row < count)[:, None] & inside[None, :]
    b = tl.load(bias + run * channels + channel, inside, 0.0)
    tl.store(out + at, tl.load(x + at, mask, 0.0) + b[None, :], mask)


@kernel
def sum_rows(grad, sums, table, runs, channels, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    """Σ g over the rows of a run, in order."""
    run = tl.program_id(0)
    count, first = tl.load(table + run), tl.load(table + runs + run)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < channels
    total = tl.zeros((ROWS, CHANNELS), grad.dtype.element_ty)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)
        at = (first + row)[:, None] * channels + channel[None, :]
        total += tl.load(grad + at, (row < count)[:, None] & inside[None, :], 0.0)
    tl.store(sums + run * channels + channel, tl.sum(total, 0), inside)


class TritonBias(torch.autograd.Function):
    """x_r + b_r for the rows of each run r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, rows: RunRows) -> Tensor:
        x, (runs, channels) = x.contiguous(), bias.shape
        ctx.rows, ctx.shape = rows, bias.shape
        out, width = torch.empty_like(x), min(CHANNELS, power_of_2(channels))
        blocks = cdiv(rows.longest, ROWS), runs, cdiv(channels, width)
        add_bias[blocks](x, bias.contiguous(), out, rows.table, runs, channels, ROWS, width)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (runs, channels), grad = ctx.shape, grad.contiguous()
        sums = grad.new_empty(runs, channels)
        sum_rows[(runs, cdiv(channels, FEW))](
            grad, sums, ctx.rows.table, runs, channels, SUMMED, FEW, num_warps=WARPS
        )
        return grad, sums, None
