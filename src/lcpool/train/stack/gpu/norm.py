"""Batch normalisation of several runs in one kernel, forward and backward.

A program takes some channels of one run and iterates over its rows in order, so that results are
reproducible. Runs with fewer than two rows use the running statistics, which stay as they are.
Torch's operations would take about thirty launches per layer, and launches are most
of the time of a training step with small graphs.
"""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.ops.launch import cdiv, kernel
from lcpool.train.stack.rows import Running, RunRows

ROWS, CHANNELS, WARPS = 256, 16, 8


@kernel
def normalize(
    x, out, table, weight, bias, running_mean, running_var, means, scales,
    runs, channels, eps, momentum, RELU: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """y = (x − mean) / √(var + ε) · w + b or its relu, and a step of the running statistics."""
    run = tl.program_id(0)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < channels
    count = tl.load(table + run)
    x += (tl.load(table + runs + run) * channels) + channel[None, :]
    out += (tl.load(table + runs + run) * channels) + channel[None, :]
    at = run * channels + channel
    total = tl.zeros((ROWS, CHANNELS), x.dtype.element_ty)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        mask = (row < count) & inside[None, :]
        total += tl.load(x + row * channels, mask, 0.0)
    old_mean, old_var = tl.load(running_mean + at, inside), tl.load(running_var + at, inside)
    mean = tl.where(count < 2, old_mean, tl.sum(total, 0) / tl.maximum(count, 1))
    total = tl.zeros((ROWS, CHANNELS), x.dtype.element_ty)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        mask = (row < count) & inside[None, :]
        off = tl.where(mask, tl.load(x + row * channels, mask, 0.0) - mean[None, :], 0.0)
        total += off * off
    var = tl.where(count < 2, old_var, tl.sum(total, 0) / tl.maximum(count, 1))
    scale = 1 / tl.sqrt(var + eps)
    w, b = tl.load(weight + at, inside), tl.load(bias + at, inside)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        mask = (row < count) & inside[None, :]
        normal = (tl.load(x + row * channels, mask, 0.0) - mean[None, :]) * scale[None, :]
        y = normal * w[None, :] + b[None, :]
        if RELU:
            y = tl.where(y <= 0, 0.0, y)  # NaN is not lost
        tl.store(out + row * channels, y, mask)
    tl.store(means + at, mean, inside)
    tl.store(scales + at, scale, inside)
    tl.store(running_mean + at, old_mean + momentum * (mean - old_mean), inside)
    unbiased = tl.where(count < 2, old_var, var * count / tl.maximum(count - 1, 1))
    tl.store(running_var + at, old_var + momentum * (unbiased - old_var), inside)


@kernel
def normalize_backward(
    grad, x, grad_x, table, weight, bias, means, scales, grad_weight, grad_bias,
    runs, channels, RELU: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """dx = w/σ · (g − mean(g) − x̂ · mean(g · x̂)), with g = 0 where the relu of y is 0.

    With fewer than two rows the statistics do not depend on x: dx = w/σ · g.
    """
    run = tl.program_id(0)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < channels
    count = tl.load(table + run)
    first = (tl.load(table + runs + run) * channels) + channel[None, :]
    at = run * channels + channel
    mean, scale = tl.load(means + at, inside), tl.load(scales + at, inside)
    w, b = tl.load(weight + at, inside), tl.load(bias + at, inside)
    sum_g = tl.zeros((ROWS, CHANNELS), x.dtype.element_ty)
    sum_gx = tl.zeros((ROWS, CHANNELS), x.dtype.element_ty)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        mask = (row < count) & inside[None, :]
        g = tl.load(grad + first + row * channels, mask, 0.0)
        normal = (tl.load(x + first + row * channels, mask, 0.0) - mean[None, :]) * scale[None, :]
        if RELU:
            g = tl.where(normal * w[None, :] + b[None, :] <= 0, 0.0, g)
        sum_g += g
        sum_gx += g * normal
    total_g, total_gx = tl.sum(sum_g, 0), tl.sum(sum_gx, 0)
    factor = w * scale
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        mask = (row < count) & inside[None, :]
        g = tl.load(grad + first + row * channels, mask, 0.0)
        normal = (tl.load(x + first + row * channels, mask, 0.0) - mean[None, :]) * scale[None, :]
        if RELU:
            g = tl.where(normal * w[None, :] + b[None, :] <= 0, 0.0, g)
        inner = g - tl.where(
            count < 2, 0.0, (total_g[None, :] + normal * total_gx[None, :]) / count
        )
        tl.store(grad_x + first + row * channels, inner * factor[None, :], mask)
    tl.store(grad_weight + at, total_gx, inside)
    tl.store(grad_bias + at, total_g, inside)


class TritonBatchNorm(torch.autograd.Function):
    """Normalised rows, or their relu; updates the running statistics in place."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        running: Running,
        rows: RunRows,
        relu: bool,
    ) -> Tensor:
        x = x.contiguous()
        out, mean, scale = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        runs, channels = weight.shape
        grid = (runs, cdiv(channels, CHANNELS))
        normalize[grid](
            x, out, rows.table, weight, bias, running.mean, running.var, mean, scale,
            runs, channels, running.eps, running.momentum, relu, ROWS, CHANNELS, num_warps=WARPS,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, bias, mean, scale)
        ctx.rows, ctx.relu = rows, relu
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, scale = ctx.saved_tensors
        grad_x, grad_w, grad_b = (torch.empty_like(t) for t in (x, weight, weight))
        runs, channels = weight.shape
        grid = (runs, cdiv(channels, CHANNELS))
        normalize_backward[grid](
            grad.contiguous(), x, grad_x, ctx.rows.table, weight, bias, mean, scale, grad_w, grad_b,
            runs, channels, ctx.relu, ROWS, CHANNELS, num_warps=WARPS,
        )  # fmt: skip
        return grad_x, grad_w, grad_b, None, None, None
