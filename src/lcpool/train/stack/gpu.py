"""Layers of several runs in one Triton kernel each, forward and backward; compiled on first use.

Sums over the rows of a run are in order, so that results are reproducible.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.ops.launch import cdiv, kernel, power_of_2
from lcpool.train.stack.rows import RunRows

# A block of a program that sums over the rows of a run, channel by channel.
SUM = {"ROWS": 256, "CHANNELS": 16, "num_warps": 8}
# A block of a program that multiplies.
ROWS, OUTPUTS, INPUTS = 128, 64, 32
# For the gradient of weights, a program sums PART rows, SUMMED at a time, for a square of the
# weights of SQUARE by SQUARE. Several parts are then added.
PART, SUMMED, SQUARE = 2048, 64, 64


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


def run_sums(values: Tensor, rows: RunRows) -> Tensor:
    """The sum over the rows of each run."""
    sums = values.new_empty(len(rows.counts), values.size(1))
    sum_rows[sum_blocks(sums)](values.contiguous(), sums, rows.table, *sums.shape, **SUM)
    return sums


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


class RunBias(torch.autograd.Function):
    """x_r + b_r for the rows of each run r.

    With torch's operations, twice as many numbers would move: the biases copied to every row, and
    the gradients padded to sum them.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, rows: RunRows) -> Tensor:
        x, (runs, channels) = x.contiguous(), bias.shape
        ctx.rows = rows
        out, height, width = torch.empty_like(x), 32, min(128, power_of_2(channels))
        blocks = cdiv(rows.longest, height), runs, cdiv(channels, width)
        add_bias[blocks](x, bias.contiguous(), out, rows.table, runs, channels, height, width)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        return grad, run_sums(grad, ctx.rows), None


@kernel
def multiply(
    x, weight, bias, out, table, runs, inputs, outputs, by_output, by_input,
    BIASED: tl.constexpr, ROWS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """y = x Wᵀ + b, with W[o, i] at ``o · by_output + i · by_input``."""
    run = tl.program_id(1)
    count, first = tl.load(table + run), tl.load(table + runs + run)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    if tl.program_id(0) * ROWS < count:
        o = tl.program_id(2) * OUTPUTS + tl.arange(0, OUTPUTS)
        at = (first + row)[:, None]
        weight += run * inputs * outputs
        total = tl.zeros((ROWS, OUTPUTS), x.dtype.element_ty)
        for start in range(0, inputs, INPUTS):
            i = start + tl.arange(0, INPUTS)
            within = i < inputs
            rows = tl.load(x + at * inputs + i, (row < count)[:, None] & within[None, :], 0.0)
            place = weight + o[None, :] * by_output + i[:, None] * by_input
            columns = tl.load(place, within[:, None] & (o < outputs)[None, :], 0.0)
            total = tl.dot(rows, columns, total, input_precision=PRECISION)
        if BIASED:
            total += tl.load(bias + run * outputs + o, o < outputs, 0.0)[None, :]
        mask = (row < count)[:, None] & (o < outputs)[None, :]
        tl.store(out + at * outputs + o[None, :], total, mask)


@kernel
def weight_gradient(
    grad, x, grad_weight, grad_bias, table, runs, inputs, outputs,
    PART: tl.constexpr, ROWS: tl.constexpr, SQUARE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dW = gᵀ x and db = Σ g over a part of the rows of a run."""
    run, part = tl.program_id(0) % runs, tl.program_id(0) // runs
    count, first = tl.load(table + run), tl.load(table + runs + run)
    o = tl.program_id(1) * SQUARE + tl.arange(0, SQUARE)
    i = tl.program_id(2) * SQUARE + tl.arange(0, SQUARE)
    total = tl.zeros((SQUARE, SQUARE), x.dtype.element_ty)
    sums = tl.zeros((SQUARE,), x.dtype.element_ty)
    for start in range(part * PART, tl.minimum(count, (part + 1) * PART), ROWS):
        row = start + tl.arange(0, ROWS)
        at, inside = (first + row)[:, None], (row < count)[:, None]
        grads = tl.load(grad + at * outputs + o[None, :], inside & (o < outputs)[None, :], 0.0)
        rows = tl.load(x + at * inputs + i[None, :], inside & (i < inputs)[None, :], 0.0)
        total = tl.dot(tl.trans(grads), rows, total, input_precision=PRECISION)
        sums += tl.sum(grads, 0)
    at = tl.program_id(0) * inputs * outputs + o[:, None] * inputs + i[None, :]
    tl.store(grad_weight + at, total, (o < outputs)[:, None] & (i < inputs)[None, :])
    if tl.program_id(2) == 0:
        tl.store(grad_bias + tl.program_id(0) * outputs + o, sums, o < outputs)


class RunLinear(torch.autograd.Function):
    """x_r W_rᵀ + b_r for the rows of each run r, without padding or copies.

    Tensor cores multiply float32 in parts: of tf32 in x Wᵀ, each product to about 21 bits; of
    bfloat16 in the gradient of W, to about 24.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rows: RunRows) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        ctx.save_for_backward(x, weight)
        ctx.rows = rows
        return product(x, weight, bias, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None, None]:
        (x, weight), rows, grad = ctx.saved_tensors, ctx.rows, grad.contiguous()
        grad_x = product(grad, weight.mT, None, rows) if ctx.needs_input_grad[0] else None
        (runs, outputs, inputs), parts = weight.shape, max(1, cdiv(rows.longest, PART))
        products, sums = x.new_empty(parts, *weight.shape), x.new_empty(parts, runs, outputs)
        weight_gradient[parts * runs, cdiv(outputs, SQUARE), cdiv(inputs, SQUARE)](
            grad, x, products, sums, rows.table, runs, inputs, outputs,
            PART, SUMMED, SQUARE, precision("bf16x6", x.dtype, x.device), num_warps=4, num_stages=2,
        )  # fmt: skip
        of_weight, of_bias = (p[0] if parts == 1 else p.sum(0) for p in (products, sums))
        return grad_x, of_weight, of_bias if ctx.needs_input_grad[2] else None, None


def product(x: Tensor, weight: Tensor, bias: Tensor | None, rows: RunRows) -> Tensor:
    """The rows of each run times its weights, which may be transposed, plus its bias."""
    runs, outputs, inputs = weight.shape
    out = x.new_empty(x.size(0), outputs)
    multiply[cdiv(rows.longest, ROWS), runs, cdiv(outputs, OUTPUTS)](
        x, weight, x if bias is None else bias, out, rows.table, runs, inputs, outputs,
        *weight.stride()[1:], bias is not None, ROWS, OUTPUTS, INPUTS,
        precision("tf32x3", x.dtype, x.device),
    )  # fmt: skip
    return out


@cache
def precision(parts: str, dtype: torch.dtype, device: torch.device) -> str:
    """How to multiply: in parts on tensor cores if the device has them, else exactly."""
    nvidia = device.type == "cuda" and torch.version.hip is None
    cores = nvidia and torch.cuda.get_device_capability(device) >= (8, 0)
    return parts if cores and dtype == torch.float32 else "ieee"


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
    several = count > 1
    divisor = tl.maximum(count, 1)
    mean = tl.where(several, tl.sum(total, 0) / divisor, old_mean)
    total = tl.zeros((ROWS, CHANNELS), x.dtype.element_ty)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        mask = (row < count) & inside[None, :]
        off = tl.where(mask, tl.load(x + row * channels, mask, 0.0) - mean[None, :], 0.0)
        total += off * off
    var = tl.where(several, tl.sum(total, 0) / divisor, old_var)
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
    unbiased = tl.where(several, var * count / tl.maximum(count - 1, 1), old_var)
    tl.store(running_var + at, old_var + momentum * (unbiased - old_var), inside)


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
        inner = (total_g[None, :] + normal * total_gx[None, :]) / count
        # The running statistics, which normalise a run of fewer than two rows, do not depend on x.
        inner = g - tl.where(count > 1, inner, 0.0)
        tl.store(grad_x + first + row * channels, inner * factor[None, :], mask)
    tl.store(grad_weight + at, total_gx, inside)
    tl.store(grad_bias + at, total_g, inside)


class RunBatchNorm(torch.autograd.Function):
    """Normalised rows, or their relu; updates the running statistics in place.

    Torch's operations would take about thirty launches per layer, and launches are most of the time
    of a training step with small graphs.

    A run with fewer than two rows has no statistics of its own: it is normalised with the running
    statistics, which stay as they were.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor,
        bias: Tensor, momentum: float, eps: float, relu: bool, rows: RunRows,
    ) -> Tensor:  # fmt: skip
        x = x.contiguous()
        out, mean, scale = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        normalize[sum_blocks(weight)](
            x, out, rows.table, weight, bias, running_mean, running_var, mean, scale,
            *weight.shape, eps, momentum, relu, **SUM,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, bias, mean, scale)
        ctx.rows, ctx.relu = rows, relu
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, scale = ctx.saved_tensors
        grad_x, grad_w, grad_b = (torch.empty_like(t) for t in (x, weight, weight))
        normalize_backward[sum_blocks(weight)](
            grad.contiguous(), x, grad_x, ctx.rows.table, weight, bias, mean, scale, grad_w, grad_b,
            *weight.shape, ctx.relu, **SUM,
        )  # fmt: skip
        return grad_x, None, None, grad_w, grad_b, None, None, None, None


def sum_blocks(by_channel: Tensor) -> tuple[int, int]:
    """The programs that sum for values ``[runs, channels]``."""
    return by_channel.size(0), cdiv(by_channel.size(1), SUM["CHANNELS"])
