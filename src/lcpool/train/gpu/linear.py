"""Linear layers of several runs in one kernel each way.

A program multiplies a block of one run's rows with that run's weights, where the rows stand: no
bands, no padding, no copies. Sums are made in the order of the rows. In x Wᵀ
tensor cores multiply numbers of 32 bits in three parts, each product to about 21 bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.ops.gpu.launch import cdiv, kernel
from lcpool.train.rows import Rows

ROWS, OUTPUTS, INPUTS = 128, 64, 32
# The gradient of weights is summed over rows, so many at a time.
SUMMED = 64


@kernel
def multiply(
    x, weight, bias, out, table, runs, inputs, outputs, by_output, by_input,
    BIASED: tl.constexpr, ROWS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Y = x Wᵀ + b, with W[o, i] at ``o · by_output + i · by_input``."""
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
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr,
):  # fmt: skip
    """DW = gᵀ x and db = Σ g over the rows of a run."""
    run = tl.program_id(0)
    count, first = tl.load(table + run), tl.load(table + runs + run)
    o = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    i = tl.program_id(2) * INPUTS + tl.arange(0, INPUTS)
    total = tl.zeros((OUTPUTS, INPUTS), x.dtype.element_ty)
    sums = tl.zeros((OUTPUTS, ROWS), x.dtype.element_ty)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)
        at = first + row
        grads = tl.load(
            grad + at[None, :] * outputs + o[:, None],
            (row < count)[None, :] & (o < outputs)[:, None],
            0.0,
        )
        rows = tl.load(
            x + at[:, None] * inputs + i[None, :],
            (row < count)[:, None] & (i < inputs)[None, :],
            0.0,
        )
        total = tl.dot(grads, rows, total, input_precision="ieee")
        sums += grads
    at = run * inputs * outputs + o[:, None] * inputs + i[None, :]
    tl.store(grad_weight + at, total, (o < outputs)[:, None] & (i < inputs)[None, :])
    if tl.program_id(2) == 0:
        tl.store(grad_bias + run * outputs + o, tl.sum(sums, 1), o < outputs)


class TritonLinear(torch.autograd.Function):
    """x_r W_rᵀ + b_r for the rows of each run r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rows: Rows) -> Tensor:
        """One kernel."""
        x, weight = x.contiguous(), weight.contiguous()
        ctx.save_for_backward(x, weight)
        ctx.rows = rows
        return product(x, weight, bias, rows, weight.size(1), (weight.size(2), 1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None, None]:
        """One kernel for x, one for W and b."""
        (x, weight), rows, grad = ctx.saved_tensors, ctx.rows, grad.contiguous()
        runs, outputs, inputs = weight.shape
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = product(grad, weight, None, rows, inputs, (1, inputs))
        grad_weight, grad_bias = torch.empty_like(weight), weight.new_empty(runs, outputs)
        blocks = runs, cdiv(outputs, INPUTS), cdiv(inputs, INPUTS)
        weight_gradient[blocks](
            grad, x, grad_weight, grad_bias, rows.table, runs, inputs, outputs,
            SUMMED, INPUTS, INPUTS,
        )  # fmt: skip
        return grad_x, grad_weight, grad_bias if ctx.needs_input_grad[2] else None, None


def product(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    rows: Rows,
    outputs: int,
    strides: tuple[int, int],
) -> Tensor:
    """The rows of each run times its weights, which are read by ``strides``."""
    out = x.new_empty(x.size(0), outputs)
    blocks = cdiv(rows.longest, ROWS), len(rows.counts), cdiv(outputs, OUTPUTS)
    multiply[blocks](
        x, weight, x if bias is None else bias, out, rows.table, len(rows.counts),
        x.size(1), outputs, *strides, bias is not None, ROWS, OUTPUTS, INPUTS,
        precision(x.dtype, x.device),
    )  # fmt: skip
    return out


@cache
def precision(dtype: torch.dtype, device: torch.device) -> str:
    """How numbers are multiplied: by tensor cores, where there are some for them."""
    nvidia = device.type == "cuda" and torch.version.hip is None
    cores = nvidia and torch.cuda.get_device_capability(device) >= (8, 0)
    return "tf32x3" if cores and dtype == torch.float32 else "ieee"
