"""Softmax, top-k and gate in plain torch, one after the other."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.sizes import owners
from lcpool.ops.fused_lcpool import GatedTopK
from lcpool.ops.gate.plain import gate
from lcpool.ops.readout.plain import softmax
from lcpool.ops.row_sum import row_sum
from lcpool.ops.topk.plain import topk

__all__ = ["softmax_topk_gate", "softmax_topk_gate_backward"]


def softmax_topk_gate(
    x: Tensor, rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> GatedTopK:
    h, (perm, batch) = softmax(rank, ptr), topk(rank, counts, ptr, kept_ptr, num_kept)
    place = perm.new_full((rank.numel(),), -1)
    place[perm] = torch.arange(num_kept, device=perm.device)
    X, score = gate(x, h, perm)
    return GatedTopK(X, score, perm, batch, place, h, (h == h).all().long())


def softmax_topk_gate_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, perm: Tensor, place: Tensor, h: Tensor,
    counts: Tensor, ptr: Tensor, kept_ptr: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    of_h = (grad * x.index_select(0, perm)).sum(-1)
    of_h = of_h if grad_score is None else of_h + grad_score
    product = of_h * h.index_select(0, perm)
    total = row_sum(product, kept_ptr).index_select(0, owners(ptr, h.numel()))
    own = torch.cat([product, product.new_zeros(1)])[place]  # −1 is the last
    past = torch.zeros_like(x).index_copy(0, perm, grad * h.index_select(0, perm).unsqueeze(-1))
    return own - h * total, past
