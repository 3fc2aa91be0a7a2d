"""Linear layers of several runs, run by run.

A run's result must not depend on the other runs: products are those of :mod:`lcpool.ops.matmul`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.ops.matmul import matmul
from lcpool.train.stack.rows import RunRows


class RunLinear(torch.autograd.Function):
    """x_r W_rᵀ + b_r for the rows of each run r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rows: RunRows) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.rows = rows
        out = x.new_empty(x.size(0), weight.size(1))
        for r, (part, place) in enumerate(zip(rows.parts(x), rows.parts(out), strict=True)):
            matmul(part, weight[r].t(), place, None if bias is None else bias[r])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None, None]:
        (x, weight), rows = ctx.saved_tensors, ctx.rows
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        grad_weight = torch.empty_like(weight)
        grad_bias = weight.new_empty(weight.shape[:2]) if ctx.needs_input_grad[2] else None
        places = None if grad_x is None else rows.parts(grad_x)
        for r, (part, of_run) in enumerate(zip(rows.parts(x), rows.parts(grad), strict=True)):
            matmul(of_run.t(), part, grad_weight[r])
            if grad_bias is not None:
                torch.sum(of_run, 0, out=grad_bias[r])
            if places is not None:
                matmul(of_run, weight[r], places[r])
        return grad_x, grad_weight, grad_bias, None
