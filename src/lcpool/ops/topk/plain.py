"""Top-k by two stable sorts, and gating, in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.precision import wide
from lcpool.graph.sizes import owners

__all__ = ["gate", "gate_backward", "topk"]


def topk(
    rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> tuple[Tensor, Tensor]:
    order = rank.argsort(descending=True, stable=True)
    order = order[owners(ptr, rank.numel())[order].argsort(stable=True)]
    # Slot t of the output is the (t − Σ_{b' < b} k_b')-th best node of its graph b.
    batch = owners(kept_ptr, num_kept)
    slots = torch.arange(num_kept, device=rank.device)
    return order[slots + (ptr - kept_ptr)[batch]], batch


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
