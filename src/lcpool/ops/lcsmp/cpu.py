"""What lies between the matrix products of LCSMP, on a CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.compiled import compiled, regrouped
from lcpool.ops.message.cpu import LEAST, add_differences
from lcpool.ops.threads import in_parts

__all__ = ["combine", "combine_backward", "shifted_difference_backward", "shifted_difference_sum"]


def shifted_difference_sum(YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    D = YG.new_empty(YG.size(0), b_d.numel())
    y, out, b, rows = YG.numpy(), D.numpy(), b_d.detach().numpy(), (ptr.numpy(), node.numpy())

    def part(start: int, stop: int) -> None:
        add_differences(start, stop, y, y, b, *rows, out)

    in_parts(part, D.size(0), node.numel() * D.size(1), LEAST)
    return D


def shifted_difference_backward(
    grad: Tensor, YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor,
    out_node: Tensor, grad_YG: Tensor, sums: Tensor,
) -> Tensor:  # fmt: skip
    inputs = (grad, YG, b_d, ptr, node, out_ptr, out_node)
    arrays = [*(values.detach().numpy() for values in inputs), grad_YG.numpy()]

    def part(start: int, stop: int) -> Tensor:
        return torch.from_numpy(spread_shifted(start, stop, *arrays))

    parts = in_parts(part, grad.size(0), 2 * node.numel() * grad.size(1), LEAST)
    return torch.cat([sums, parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)])


def combine(F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor, b_s: Tensor) -> Tensor:
    s = F.new_empty(F.size(0))
    arrays = [values.detach().numpy() for values in (F, YG, b_fd, b_x, w_s, b_s, s)]
    in_parts(lambda start, stop: add_up(start, stop, *arrays), F.size(0), F.numel(), LEAST)
    return s


def combine_backward(
    grad: Tensor, F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    grad_F, grad_YG = torch.empty_like(F), torch.empty_like(YG)
    inputs = [values.detach().numpy() for values in (grad, F, YG, b_fd, b_x, w_s)]
    outputs = (grad_F.numpy(), grad_YG.numpy())

    def part(start: int, stop: int) -> Tensor:
        return torch.from_numpy(take_apart(start, stop, *inputs, *outputs))

    parts = in_parts(part, F.size(0), 2 * F.numel(), LEAST)
    return grad_F, grad_YG, parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


# Short loops over few arrays: only those does the compiler turn into vector instructions.


@compiled
def spread_shifted(start, stop, grad, y, shift, ptr, node, out_ptr, out_node, grad_y):
    """What flows to y_i from its own sum and from those it is in; and to b from these nodes."""
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
def add_up(start, stop, F, YG, b_fd, b_x, w_s, b_s, s):
    """The scores of nodes ``start`` to ``stop``; NaN is not lost."""
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
def take_apart(start, stop, grad, F, YG, b_fd, b_x, w_s, grad_F, grad_YG):
    """The gradients of nodes ``start`` to ``stop``, and their sums over these nodes."""
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
