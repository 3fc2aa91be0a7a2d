"""Layers of several runs, run by run, with the functions that the plain layers call.

Results are written in place. Inputs are copied only if they are not aligned in memory like a
separate tensor: on some CPUs the order of summation in a product depends on that, and a run's
result must not depend on the other runs.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.train.stack.rows import Running, RunRows

batch_norm = torch.ops.aten.native_batch_norm
batch_norm_backward = torch.ops.aten.native_batch_norm_backward
ALIGNED = 64  # bytes: where torch lets a tensor begin


def aligned(values: Tensor) -> Tensor:
    """The same values, at an address where a separate tensor could begin."""
    return values.clone() if values.data_ptr() % ALIGNED else values


def multiply(a: Tensor, b: Tensor, out: Tensor, plus: Tensor | None = None) -> None:
    """``out`` = a b + ``plus``, bit for bit as with separate tensors."""
    room = torch.empty_like(out) if out.data_ptr() % ALIGNED else out
    if plus is None:
        torch.mm(aligned(a), aligned(b), out=room)
    else:
        torch.addmm(plus, aligned(a), aligned(b), out=room)
    if room is not out:
        out.copy_(room)


class RunwiseLinear(torch.autograd.Function):
    """x_r W_rᵀ + b_r for the rows of each run r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rows: RunRows) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.rows = rows
        out = x.new_empty(x.size(0), weight.size(1))
        for r, (part, place) in enumerate(zip(rows.parts(x), rows.parts(out), strict=True)):
            multiply(part, weight[r].t(), place, None if bias is None else bias[r])
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
            multiply(of_run.t(), part, grad_weight[r])
            if grad_bias is not None:
                torch.sum(of_run, 0, out=grad_bias[r])
            if places is not None:
                multiply(of_run, weight[r], places[r])
        return grad_x, grad_weight, grad_bias, None


class RunwiseBatchNorm(torch.autograd.Function):
    """Batch normalisation with each run's statistics; updates the running ones in place.

    Runs with fewer than two rows use the running statistics, which stay as they are.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, running: Running, rows: RunRows
    ) -> Tensor:
        out, means, scales = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        for r, (part, place) in enumerate(zip(rows.parts(x), rows.parts(out), strict=True)):
            own, mean, var = (weight[r], bias[r]), running.mean[r], running.var[r]
            if len(part) < 2:
                place.copy_(F.batch_norm(part, mean, var, *own, eps=running.eps))
                means[r], scales[r] = mean, (var + running.eps).rsqrt()
                continue
            saved = {"out": place, "save_mean": means[r], "save_invstd": scales[r]}
            batch_norm.out(part, *own, mean, var, True, running.momentum, running.eps, **saved)
        ctx.save_for_backward(x, weight, means, scales)
        ctx.rows, ctx.eps = rows, running.eps
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (x, weight, means, scales), rows = ctx.saved_tensors, ctx.rows
        grads = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        places = rows.parts(grads[0])
        for r, (part, of_run) in enumerate(zip(rows.parts(x), rows.parts(grad), strict=True)):
            if len(part) < 2:
                places[r].copy_(of_run * weight[r] * scales[r])
                grads[1][r] = (of_run * (part - means[r]) * scales[r]).sum(0)
                grads[2][r] = of_run.sum(0)
                continue
            batch_norm_backward.out(
                of_run, part, weight[r], None, None, means[r], scales[r], True, ctx.eps,
                [True, True, True], out0=places[r], out1=grads[1][r], out2=grads[2][r],
            )  # fmt: skip
        return *grads, None, None
