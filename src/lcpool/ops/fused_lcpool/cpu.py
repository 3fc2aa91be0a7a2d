"""The steps of LCPool between its matrix products on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.fused_lcpool import GatedTopK
from lcpool.ops.message.cpu import add_differences
from lcpool.ops.readout.cpu import softmax_graphs
from lcpool.ops.threads import compiled, regrouped, sum_rows
from lcpool.ops.topk.cpu import best_first, gate_rows

__all__ = [
    "combine", "combine_backward", "shifted_difference_backward", "shifted_difference_sum",
    "softmax_topk_gate", "softmax_topk_gate_backward",
]  # fmt: skip


def added(parts: list[Any]) -> Tensor:
    """The sum of what each thread has summed."""
    sums = [torch.from_numpy(part) for part in parts]
    return sums[0] if len(sums) == 1 else torch.stack(sums).sum(0)


def shifted_difference_sum(YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    D, work = YG.new_empty(YG.size(0), b_d.numel()), node.numel() * b_d.numel()
    sum_rows(add_differences, D.size(0), work, YG, YG, b_d, ptr, node, D)
    return D


def shifted_difference_backward(
    grad: Tensor, YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor,
    out_node: Tensor, grad_YG: Tensor, sums: Tensor,
) -> Tensor:  # fmt: skip
    given = (grad, YG, b_d, ptr, node, out_ptr, out_node, grad_YG)
    parts = sum_rows(shifted_gradients, grad.size(0), 2 * node.numel() * grad.size(1), *given)
    return torch.cat([sums, added(parts)])


def combine(F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor, b_s: Tensor) -> Tensor:
    s = F.new_empty(F.size(0))
    sum_rows(combine_rows, F.size(0), F.numel(), F, YG, b_fd, b_x, w_s, b_s, s)
    return s


def combine_backward(
    grad: Tensor, F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    grad_F, grad_YG = torch.empty_like(F), torch.empty_like(YG)
    given = (grad, F, YG, b_fd, b_x, w_s, grad_F, grad_YG)
    return grad_F, grad_YG, added(sum_rows(combine_gradients, len(F), 2 * F.numel(), *given))


def softmax_topk_gate(
    x: Tensor, rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> GatedTopK:
    out, score, h = x.new_empty(num_kept, x.size(1)), x.new_empty(num_kept), torch.empty_like(rank)
    perm, batch, place = (ptr.new_empty(size) for size in (num_kept, num_kept, rank.numel()))
    given = (x, rank, ptr, kept_ptr, out, score, perm, batch, place, h)
    ok = all(sum_rows(select_nodes, counts.numel(), out.numel(), *given))
    return GatedTopK(out, score, perm, batch, place, torch.tensor(int(ok)), h)


def softmax_topk_gate_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, perm: Tensor, place: Tensor, h: Tensor,
    counts: Tensor, ptr: Tensor, kept_ptr: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    of_score = h.new_zeros(len(grad)) if grad_score is None else grad_score
    grad_rank, grad_x = torch.empty_like(h), torch.empty_like(x)
    given = (grad, of_score, x, perm, place, h, ptr, kept_ptr, grad_rank, grad_x)
    sum_rows(selection_gradients, counts.numel(), grad.numel(), *given)
    return grad_rank, grad_x


# Short loops over few arrays: only these does the compiler turn into vector instructions.


@compiled
def shifted_gradients(start, stop, grad, y, shift, ptr, node, out_ptr, out_node, grad_y):
    """The gradient of y_i from its own sum and those it is in; returns that of b over the nodes."""
    width, zero, one = shift.size, y.dtype.type(0), y.dtype.type(1)
    own, count, total = np.empty((3, width), y.dtype)
    of_shift = np.zeros(width, y.dtype)
    for i in range(start, stop):
        for c in range(width):
            own[c] = y[i, c] + shift[c]
        count[:] = zero
        for e in range(ptr[i], ptr[i + 1]):
            other = y[node[e]]
            for c in range(width):
                count[c] += zero if own[c] - other[c] <= 0 else one
        for c in range(width):
            total[c] = zero if count[c] == 0 else count[c] * grad[i, c]
        for c in range(width):
            of_shift[c] += total[c]
        for e in range(out_ptr[i], out_ptr[i + 1]):
            other, upstream = y[out_node[e]], grad[out_node[e]]
            for c in range(width):
                total[c] -= zero if other[c] + shift[c] - y[i, c] <= 0 else upstream[c]
        for c in range(width):
            grad_y[i, c] = total[c]
    return of_shift


@regrouped
def combine_rows(start, stop, F, YG, b_fd, b_x, w_s, b_s, s):
    """The scores of some nodes; NaN is not lost."""
    width, zero = F.shape[1], F.dtype.type(0)
    hidden = np.empty(width, F.dtype)
    for i in range(start, stop):
        for c in range(width):
            f = F[i, c] + b_fd[c]
            hidden[c] = zero if f <= 0 else f
        for c in range(width):
            g = YG[i, width + c] + b_x[c]
            hidden[c] += zero if g <= 0 else g
        total = b_s[0]
        for c in range(width):
            total += hidden[c] * w_s[c]
        s[i] = total


@compiled
def combine_gradients(start, stop, grad, F, YG, b_fd, b_x, w_s, grad_F, grad_YG):
    """The gradients of some nodes; returns their sums over these nodes."""
    width = F.shape[1]
    zero = F.dtype.type(0)
    of_b_fd, of_b_x, of_w_s = np.zeros((3, width), F.dtype)
    of_b_s = zero
    for i in range(start, stop):
        upstream = grad[i]
        of_b_s += upstream
        for c in range(width):
            f = F[i, c] + b_fd[c]
            of_w_s[c] += upstream * (zero if f <= 0 else f)
            grad_F[i, c] = zero if f <= 0 else upstream * w_s[c]
        for c in range(width):
            g = YG[i, width + c] + b_x[c]
            of_w_s[c] += upstream * (zero if g <= 0 else g)
            grad_YG[i, width + c] = zero if g <= 0 else upstream * w_s[c]
        for c in range(width):
            of_b_fd[c] += grad_F[i, c]
        for c in range(width):
            of_b_x[c] += grad_YG[i, width + c]
    return np.concatenate((of_b_fd, of_b_x, of_w_s, np.array([of_b_s])))


@compiled
def select_nodes(start, stop, x, rank, ptr, kept_ptr, out, score, perm, batch, place, h):
    """Keep the best nodes of some graphs; returns whether no h is NaN."""
    softmax_graphs(start, stop, rank, ptr, h)
    best_first(start, stop, rank, ptr, kept_ptr, perm, batch)
    ok = True
    for i in range(ptr[start], ptr[stop]):
        place[i] = -1
        ok &= h[i] == h[i]
    for p in range(kept_ptr[start], kept_ptr[stop]):
        place[perm[p]] = p
    gate_rows(kept_ptr[start], kept_ptr[stop], x, h, perm, out, score)
    return ok


@regrouped
def selection_gradients(
    start, stop, grad, grad_score, x, perm, place, h, ptr, kept_ptr, grad_rank, grad_x
):  # fmt: skip
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
                grad_x[i, c] = h[i] * grad[p, c]
            own[p - first] = product * h[i]
            total += product * h[i]
        for i in range(ptr[g], ptr[g + 1]):
            grad_rank[i] = (own[place[i] - first] if place[i] >= 0 else zero) - h[i] * total
            if place[i] < 0:
                grad_x[i] = zero
