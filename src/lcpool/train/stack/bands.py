"""Products and statistics of several runs at once on a GPU, each run a band of one batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.train.stack.rows import Running, RunRows


def into_bands(x: Tensor, rows: RunRows) -> Tensor:
    """``[runs, longest, channels]``; a band is filled up by repeating its last row."""
    if not rows.even:
        x = x.index_select(0, rows.band)
    return x.view(len(rows.counts), rows.longest, -1)


def zeros_around(x: Tensor, rows: RunRows) -> Tensor:
    """``[runs, longest, channels]``; a band is filled up with zeros."""
    if not rows.even:
        x = x.new_zeros(len(rows.counts) * rows.longest, x.size(-1)).index_copy_(0, rows.place, x)
    return x.reshape(len(rows.counts), rows.longest, -1)


def from_bands(bands: Tensor, rows: RunRows) -> Tensor:
    """The rows of all runs below each other again."""
    flat = bands.flatten(0, 1)
    return flat if rows.even else flat.index_select(0, rows.place)


class BandedLinear(torch.autograd.Function):
    """x_r W_rᵀ + b_r as one batched product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rows: RunRows) -> Tensor:
        """Into bands, multiply, and back."""
        bands = into_bands(x, rows)
        ctx.save_for_backward(bands, weight)
        ctx.rows = rows
        out = (
            bands @ weight.mT
            if bias is None
            else torch.baddbmm(bias.unsqueeze(1), bands, weight.mT)
        )
        return from_bands(out, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None, None]:
        """Places that hold no row of their own get no gradient."""
        (bands, weight), rows = ctx.saved_tensors, ctx.rows
        grad = zeros_around(grad, rows)
        grad_x = from_bands(grad @ weight, rows) if ctx.needs_input_grad[0] else None
        return grad_x, grad.mT @ bands, grad.sum(1) if ctx.needs_input_grad[2] else None, None


class BandedBatchNorm(torch.autograd.Function):
    """(x − mean_r) / √(var_r + ε) · w_r + b_r with mean and variance over the rows of run r."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, running: Running, rows: RunRows
    ) -> Tensor:
        """Normalise, and let the running statistics take a step."""
        taken, count = rows.taken.unsqueeze(-1), rows.sizes.to(x.dtype).view(-1, 1, 1)
        bands = zeros_around(x, rows)
        mean = bands.sum(1, keepdim=True) / count
        bands = (bands - mean).where(taken, 0.0)
        var = (bands * bands).sum(1, keepdim=True) / count
        scale = (var + running.eps).rsqrt()
        normal = bands * scale
        ctx.save_for_backward(normal, scale, weight)
        ctx.rows = rows
        out = from_bands(torch.addcmul(bias.unsqueeze(1), normal, weight.unsqueeze(1)), rows)
        running.mean.lerp_(mean.squeeze(1), running.momentum)
        running.var.lerp_((var * count / (count - 1)).squeeze(1), running.momentum)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """Dx = w/σ · (g − mean(g) − x̂ · mean(g · x̂))."""
        (normal, scale, weight), rows = ctx.saved_tensors, ctx.rows
        grad = zeros_around(grad, rows)
        grad_bias = grad.sum(1, keepdim=True)
        grad_weight = (grad * normal).sum(1, keepdim=True)
        count = rows.sizes.to(grad.dtype).view(-1, 1, 1)
        inner = grad - (grad_bias + normal * grad_weight) / count
        grad_x = from_bands(inner * (scale * weight.unsqueeze(1)), rows)
        return grad_x, grad_weight.squeeze(1), grad_bias.squeeze(1), None, None


class Spread(torch.autograd.Function):
    """The value of its run for every row."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: RunRows) -> Tensor:
        """``values[r]`` for each row of run r."""
        ctx.rows = rows
        return values.index_select(0, rows.run)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """The sum over the rows of each run."""
        return zeros_around(grad, ctx.rows).sum(1), None
