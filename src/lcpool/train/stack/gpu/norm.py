"""Batch normalisation of several runs in one kernel, forward and backward.

A program takes some channels of one run and iterates over its rows in order, so that results are
reproducible. Torch's operations would take about thirty launches per layer, and launches are most
of the time of a training step with small graphs.

A run with fewer than two rows has no statistics of its own: the kernels write NaN. Such runs are
rare, and the host knows them; they are normalised again with the running statistics, which stay as
they were, in a few operations of torch.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    mean = tl.sum(total, 0) / count
    total = tl.zeros((ROWS, CHANNELS), x.dtype.element_ty)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        mask = (row < count) & inside[None, :]
        off = tl.where(mask, tl.load(x + row * channels, mask, 0.0) - mean[None, :], 0.0)
        total += off * off
    var = tl.sum(total, 0) / count
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
    old = tl.load(running_mean + at, inside)
    tl.store(running_mean + at, old + momentum * (mean - old), inside)
    old = tl.load(running_var + at, inside)
    unbiased = var * count / (count - 1)
    tl.store(running_var + at, old + momentum * (unbiased - old), inside)


@kernel
def normalize_backward(
    grad, x, grad_x, table, weight, bias, means, scales, grad_weight, grad_bias,
    runs, channels, RELU: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """dx = w/σ · (g − mean(g) − x̂ · mean(g · x̂)), with g = 0 where the relu of y is 0."""
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
        inner = g - (total_g[None, :] + normal * total_gx[None, :]) / count
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
        few = [r for r, count in enumerate(rows.counts) if count < 2]
        kept = (running.mean[few], running.var[few]) if few else None
        normalize[grid](
            x, out, rows.table, weight, bias, running.mean, running.var, mean, scale,
            runs, channels, running.eps, running.momentum, relu, ROWS, CHANNELS, num_warps=WARPS,
        )  # fmt: skip
        if kept is not None:
            running.mean[few], running.var[few] = kept
            mean[few], scale[few] = kept[0], (kept[1] + running.eps).rsqrt()
        for r, part, place in few_rows(rows, x, out):
            y = (part - mean[r]) * scale[r] * weight[r] + bias[r]
            place.copy_(y.relu() if relu else y)
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
        grad = grad.contiguous()
        normalize_backward[grid](
            grad, x, grad_x, ctx.rows.table, weight, bias, mean, scale, grad_w, grad_b,
            runs, channels, ctx.relu, ROWS, CHANNELS, num_warps=WARPS,
        )  # fmt: skip
        for r, part, g, place in few_rows(ctx.rows, x, grad, grad_x):
            normal = (part - mean[r]) * scale[r]
            if ctx.relu:
                g = g.masked_fill(normal * weight[r] + bias[r] <= 0, 0.0)
            place.copy_(g * weight[r] * scale[r])  # the statistics do not depend on x
            grad_w[r], grad_b[r] = (g * normal).sum(0), g.sum(0)
        return grad_x, grad_w, grad_b, None, None, None


def few_rows(rows: RunRows, *values: Tensor) -> Iterator[tuple[Any, ...]]:
    """The number and the rows in ``values`` of each run with fewer than two."""
    if min(rows.counts) < 2:
        for r, parts in enumerate(zip(*map(rows.parts, values), strict=True)):
            if len(parts[0]) < 2:
                yield r, *parts
