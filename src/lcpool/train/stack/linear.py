"""Linear layers of several runs, run by run.

A run's result must not depend on the other runs: products are those of :mod:`lcpool.ops.matmul`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.ops.matmul import Product, matmul_each
from lcpool.train.stack.rows import RunRows


class RunLinear(torch.autograd.Function):
    """x_r W_rᵀ + b_r for the rows of each run r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rows: RunRows) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.rows = rows
        return multiply_rows(x, weight.mT, rows, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None, None]:
        (x, weight), rows = ctx.saved_tensors, ctx.rows
        of_x, _, of_bias, _ = ctx.needs_input_grad
        return (
            multiply_rows(grad, weight, rows) if of_x else None,
            multiply(grad, x, rows),
            torch.stack([part.sum(0) for part in rows.parts(grad)]) if of_bias else None,
            None,
        )


def multiply_rows(x: Tensor, B: Tensor, rows: RunRows, bias: Tensor | None = None) -> Tensor:
    """x_r B_r + b_r for the rows of each run r."""
    out = x.new_empty(x.size(0), B.size(2))
    biases = [None] * len(B) if bias is None else bias
    given = zip(rows.parts(x), B, rows.parts(out), biases, strict=True)
    matmul_each([Product(*each) for each in given])
    return out


def multiply(y: Tensor, x: Tensor, rows: RunRows) -> Tensor:
    """y_rᵀ x_r for the rows of each run r: the gradient of a weight."""
    out = x.new_empty(len(rows.counts), y.size(1), x.size(1))
    given = zip(rows.parts(y), rows.parts(x), out, strict=True)
    matmul_each([Product(of_run.t(), part, place) for of_run, part, place in given])
    return out
