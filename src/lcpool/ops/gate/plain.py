"""X' = (X ⊙ h)(î, :) in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.precision import wide

__all__ = ["gate", "gate_backward"]


def gate(x: Tensor, h: Tensor, perm: Tensor) -> tuple[Tensor, Tensor]:
    score = h.index_select(0, perm)
    return x.index_select(0, perm) * score.unsqueeze(-1), score


def gate_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, h: Tensor, perm: Tensor
) -> tuple[Tensor, Tensor]:
    score = h.index_select(0, perm).unsqueeze(-1)
    of_h = (wide(grad) * wide(x).index_select(0, perm)).sum(-1).to(h.dtype)
    of_h = of_h if grad_score is None else of_h + grad_score
    grad_x = torch.zeros_like(x).index_copy(0, perm, grad * score)
    return grad_x, torch.zeros_like(h).index_copy(0, perm, of_h)
