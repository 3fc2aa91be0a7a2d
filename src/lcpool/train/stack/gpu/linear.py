"""Linear layers of several runs in one kernel, forward and backward.

A program multiplies a block of one run's rows with that run's weights, without padding or copies.
Tensor cores multiply float32 in parts: of tf32 in x Wᵀ, each product to about 21 bits; of bfloat16
in the gradient of W, to about 24. Sums over rows are in order: partial sums of some thousand rows,
which are then added.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.ops.launch import cdiv, kernel
from lcpool.train.stack.rows import RunRows

ROWS, OUTPUTS, INPUTS = 128, 64, 32
# For the gradient of weights, a program sums PART rows, SUMMED at a time, for a square of the
# weights of SQUARE by SQUARE.
PART, SUMMED, SQUARE = 2048, 64, 64


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
            columns = tl.load(
                weight + o[None, :] * by_output + i[:, None] * by_input,
                within[:, None] & (o < outputs)[None, :],
                0.0,
            )
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


class TritonLinear(torch.autograd.Function):
    """x_r W_rᵀ + b_r for the rows of each run r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rows: RunRows) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        ctx.save_for_backward(x, weight)
        ctx.rows = rows
        return product(x, weight, bias, rows, weight.size(1), (weight.size(2), 1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None, None]:
        (x, weight), rows, grad = ctx.saved_tensors, ctx.rows, grad.contiguous()
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = product(grad, weight, None, rows, weight.size(2), (1, weight.size(2)))
        grad_weight, grad_bias = summed_products(grad, x, rows)
        return grad_x, grad_weight, grad_bias if ctx.needs_input_grad[2] else None, None


def product(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    rows: RunRows,
    outputs: int,
    strides: tuple[int, int],
) -> Tensor:
    """The rows of each run times its weights, which are read with ``strides``."""
    out = x.new_empty(x.size(0), outputs)
    blocks = cdiv(rows.longest, ROWS), len(rows.counts), cdiv(outputs, OUTPUTS)
    multiply[blocks](
        x, weight, x if bias is None else bias, out, rows.table, len(rows.counts),
        x.size(1), outputs, *strides, bias is not None, ROWS, OUTPUTS, INPUTS,
        precision("tf32x3", x.dtype, x.device),
    )  # fmt: skip
    return out


def summed_products(grad: Tensor, x: Tensor, rows: RunRows) -> tuple[Tensor, Tensor]:
    """gᵀ x and Σ g over the rows of each run."""
    runs, outputs, inputs = len(rows.counts), grad.size(1), x.size(1)
    parts = max(1, cdiv(rows.longest, PART))
    products, sums = x.new_empty(parts, runs, outputs, inputs), x.new_empty(parts, runs, outputs)
    weight_gradient[parts * runs, cdiv(outputs, SQUARE), cdiv(inputs, SQUARE)](
        grad, x, products, sums, rows.table, runs, inputs, outputs,
        PART, SUMMED, SQUARE, precision("bf16x6", x.dtype, x.device), num_warps=4, num_stages=2,
    )  # fmt: skip
    return (products[0], sums[0]) if parts == 1 else (products.sum(0), sums.sum(0))


@cache
def precision(parts: str, dtype: torch.dtype, device: torch.device) -> str:
    """How to multiply: in parts on tensor cores if the device has them, else exactly."""
    nvidia = device.type == "cuda" and torch.version.hip is None
    cores = nvidia and torch.cuda.get_device_capability(device) >= (8, 0)
    return parts if cores and dtype == torch.float32 else "ieee"
