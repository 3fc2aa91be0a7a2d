"""Top-k and gating on a CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.graph.precision import wide
from lcpool.ops.threads import arrays, compiled, sum_rows

__all__ = ["gate", "gate_backward", "topk"]


def topk(
    rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> tuple[Tensor, Tensor]:
    perm, batch = (torch.empty(num_kept, dtype=torch.int64) for _ in range(2))
    best_first(0, counts.numel(), *arrays(wide(rank), ptr, kept_ptr, perm, batch))
    return perm, batch


def gate(x: Tensor, h: Tensor, perm: Tensor) -> tuple[Tensor, Tensor]:
    rows, values = wide(x), wide(h)
    out, score = rows.new_empty(perm.numel(), x.size(1)), rows.new_empty(perm.numel())
    sum_rows(gate_rows, perm.numel(), out.numel(), rows, values, perm, out, score)
    return out.to(x.dtype), score.to(h.dtype)


def gate_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, h: Tensor, perm: Tensor
) -> tuple[Tensor, Tensor]:
    rows, values = wide(x), wide(h)
    of_score = rows.new_zeros(perm.numel()) if grad_score is None else wide(grad_score)
    grad_x, grad_h = torch.zeros_like(rows), torch.zeros_like(values)
    given = (wide(grad), of_score, rows, values, perm, grad_x, grad_h)
    sum_rows(gate_gradients, perm.numel(), 2 * grad.numel(), *given)
    return grad_x.to(x.dtype), grad_h.to(h.dtype)


@compiled
def best_first(start, stop, rank, ptr, kept_ptr, perm, batch):
    """Sort the nodes of each graph, and keep the first."""
    for g in range(start, stop):
        zero = ptr[g]
        keys = descending_keys(rank[zero : ptr[g + 1]])
        # Stable; and numba's other sort takes quadratic time where many scores are equal.
        order = np.argsort(keys, kind="mergesort")
        if kept_ptr[g + 1] - kept_ptr[g] > order.size:
            raise ValueError("a plan keeps more nodes of a graph than it has.")
        for k in range(kept_ptr[g + 1] - kept_ptr[g]):
            perm[kept_ptr[g] + k] = zero + order[k]
            batch[kept_ptr[g] + k] = g


@compiled
def descending_keys(values):
    """Integers in the opposite order of the numbers: −0 as 0, and NaN first, as torch sorts it."""
    keys = values.astype(np.float64).view(np.int64)
    for i in range(keys.size):
        magnitude = keys[i] & 0x7FFFFFFFFFFFFFFF
        key = magnitude if keys[i] < 0 else -magnitude
        keys[i] = key if values[i] == values[i] else -0x7FFFFFFFFFFFFFFF - 1
    return keys


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
