"""X' = (X ⊙ h)(î, :) on a GPU: a program per kept node."""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from lcpool.ops.launch import kernel, power_of_2
from lcpool.ops.message.gpu import wide

__all__ = ["gate", "gate_backward"]


def gate(x: Tensor, h: Tensor, perm: Tensor) -> tuple[Tensor, Tensor]:
    out, score = x.new_empty(perm.numel(), x.size(1)), h.new_empty(perm.numel())
    if perm.numel():
        gate_rows[(perm.numel(),)](x, h, perm, out, score, x.size(1), power_of_2(x.size(1)))
    return out, score


def gate_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, h: Tensor, perm: Tensor
) -> tuple[Tensor, Tensor]:
    grad_x, grad_h = torch.zeros_like(x), torch.zeros_like(h)
    if perm.numel():
        gate_gradients[(perm.numel(),)](
            grad, grad if grad_score is None else grad_score, x, h, perm, grad_x, grad_h, x.size(1),
            grad_score is not None, power_of_2(x.size(1)),
        )  # fmt: skip
    return grad_x, grad_h


@kernel
def gate_rows(x, h, perm, out, score, width, CHANNELS: tl.constexpr):
    """X'(p, :) = x_i h_i for the kept node i = î_p."""
    p = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, CHANNELS)
    i = tl.load(perm + p)
    value = tl.load(h + i)
    row = tl.load(x + i * width + c, c < width, 0.0)
    tl.store(out + p * width + c, wide(row) * wide(value), c < width)
    tl.store(score + p, value)


@kernel
def gate_gradients(
    grad, grad_score, x, h, perm, grad_x, grad_h, width, SCORED: tl.constexpr,
    CHANNELS: tl.constexpr,
):  # fmt: skip
    """The gradients of x_i and h_i for the kept node i = î_p."""
    p = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, CHANNELS)
    i = tl.load(perm + p)
    upstream = tl.load(grad + p * width + c, c < width, 0.0)
    row = tl.load(x + i * width + c, c < width, 0.0)
    tl.store(grad_x + i * width + c, wide(upstream) * wide(tl.load(h + i)), c < width)
    total = tl.sum(wide(upstream) * wide(row), 0)
    if SCORED:
        total += wide(tl.load(grad_score + p))
    tl.store(grad_h + i, total)
