"""X' = (X ⊙ h)(î, :) on a CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.compiled import compiled
from lcpool.ops.message.cpu import SUMS_PER_THREAD, array
from lcpool.ops.threads import in_parts

__all__ = ["gate", "gate_backward"]


def gate(x: Tensor, h: Tensor, perm: Tensor) -> tuple[Tensor, Tensor]:
    rows, values, kept = array(x), array(h), perm.numpy()
    out, score = np.empty((kept.size, rows.shape[1]), rows.dtype), np.empty(kept.size, rows.dtype)
    arrays = (rows, values, kept, out, score)
    in_parts(gate_rows, kept.size, out.size, SUMS_PER_THREAD, *arrays)
    return torch.from_numpy(out).to(x.dtype), torch.from_numpy(score).to(h.dtype)


def gate_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, h: Tensor, perm: Tensor
) -> tuple[Tensor, Tensor]:
    rows, values, kept = array(x), array(h), perm.numpy()
    of_score = np.zeros(kept.size, rows.dtype) if grad_score is None else array(grad_score)
    grad_x, grad_h = np.zeros_like(rows), np.zeros_like(values)
    arrays = (array(grad), of_score, rows, values, kept, grad_x, grad_h)
    in_parts(gate_gradients, kept.size, 2 * grad.numel(), SUMS_PER_THREAD, *arrays)
    return torch.from_numpy(grad_x).to(x.dtype), torch.from_numpy(grad_h).to(h.dtype)


@compiled
def gate_rows(start, stop, x, h, perm, out, score):
    """X'(p, :) = x_i h_i for the kept node i = î_p."""
    for p in range(start, stop):
        i = perm[p]
        score[p] = h[i]
        for c in range(x.shape[1]):
            out[p, c] = x[i, c] * h[i]


@compiled
def gate_gradients(start, stop, grad, grad_score, x, h, perm, grad_x, grad_h):
    """The gradients of x_i and h_i for the kept node i = î_p."""
    products = np.empty(x.shape[1], x.dtype)
    for p in range(start, stop):
        i = perm[p]
        for c in range(x.shape[1]):
            grad_x[i, c] = grad[p, c] * h[i]
            products[c] = grad[p, c] * x[i, c]
        grad_h[i] = grad_score[p] + products.sum()
