"""The softmax of scores, the nodes that they choose, and X' on a CPU: graph by graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.compiled import compiled, regrouped
from lcpool.ops.fused_lcpool import GatedTopK
from lcpool.ops.gate.cpu import scale
from lcpool.ops.message.cpu import LEAST
from lcpool.ops.readout.cpu import normalize
from lcpool.ops.threads import in_parts
from lcpool.ops.topk.cpu import best_first

__all__ = ["softmax_topk_gate", "softmax_topk_gate_backward"]


def softmax_topk_gate(
    x: Tensor, rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> GatedTopK:
    out, score, h = x.new_empty(num_kept, x.size(1)), x.new_empty(num_kept), torch.empty_like(rank)
    perm, batch = (torch.empty(num_kept, dtype=torch.int64) for _ in range(2))
    place = perm.new_empty(rank.numel())
    inputs = [values.numpy() for values in (x.detach(), rank, ptr, kept_ptr)]
    outputs = [values.numpy() for values in (out, score, perm, batch, place, h)]

    def part(start: int, stop: int) -> bool:
        found: bool = choose_nodes(start, stop, *inputs, *outputs)
        return found

    ok = torch.tensor(int(all(in_parts(part, counts.numel(), out.numel(), LEAST))))
    return GatedTopK(out, score, perm, batch, place, h, ok)


def softmax_topk_gate_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, perm: Tensor, place: Tensor, h: Tensor,
    counts: Tensor, ptr: Tensor, kept_ptr: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    of_score = h.new_zeros(len(grad)) if grad_score is None else grad_score
    tensors = (grad, of_score, x.detach(), perm, place, h, ptr, kept_ptr)
    inputs = [values.numpy() for values in tensors]
    of_rank, past = torch.empty_like(h), torch.empty_like(x)
    outputs = (of_rank.numpy(), past.numpy())

    def part(start: int, stop: int) -> None:
        spread_choice(start, stop, *inputs, *outputs)

    in_parts(part, counts.numel(), grad.numel(), LEAST)
    return of_rank, past


@compiled
def choose_nodes(start, stop, x, rank, ptr, kept_ptr, out, score, perm, batch, place, h):
    """Some graphs; whether all their h are numbers."""
    normalize(start, stop, rank, ptr, h)
    best_first(start, stop, rank, ptr, kept_ptr, perm, batch)
    ok = True
    for i in range(ptr[start], ptr[stop]):
        place[i] = -1
        ok &= h[i] == h[i]
    for p in range(kept_ptr[start], kept_ptr[stop]):
        place[perm[p]] = p
    scale(kept_ptr[start], kept_ptr[stop], x, h, perm, out, score)
    return ok


@regrouped
def spread_choice(start, stop, grad, grad_score, x, perm, place, h, ptr, kept_ptr, of_rank, past):
    """h_i (g_i − Σ_j g_j h_j), and h_i times the gradient of X'."""
    zero = h.dtype.type(0)
    for g in range(start, stop):
        first, last = kept_ptr[g], kept_ptr[g + 1]
        own, total = np.empty(last - first, h.dtype), zero
        for p in range(first, last):
            i, product = perm[p], grad_score[p]
            for c in range(grad.shape[1]):
                product += grad[p, c] * x[i, c]
            for c in range(grad.shape[1]):
                past[i, c] = h[i] * grad[p, c]
            own[p - first] = product * h[i]
            total += product * h[i]
        for i in range(ptr[g], ptr[g + 1]):
            of_rank[i] = (own[place[i] - first] if place[i] >= 0 else zero) - h[i] * total
            if place[i] < 0:
                past[i] = zero
