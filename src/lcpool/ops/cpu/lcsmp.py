"""What lies between the matrix products of LCSMP, on a CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.cpu.compiled import compiled, in_parts
from lcpool.ops.cpu.message import LEAST, add_differences, spread_differences


def shifted_difference_sum(YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    """D: Σ relu(y_i + b − y_k) over the neighbours k of each node i, y being the left of ``YG``."""
    D = YG.new_empty(YG.size(0), b_d.numel())
    y, out, b, rows = YG.numpy(), D.numpy(), b_d.detach().numpy(), (ptr.numpy(), node.numpy())

    def part(start: int, stop: int) -> None:
        add_differences(start, stop, y, y, b, *rows, out)

    in_parts(part, D.size(0), node.numel() * D.size(1), LEAST)
    return D


def shifted_difference_backward(
    grad: Tensor, YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor,
    out_node: Tensor, grad_YG: Tensor,
) -> Tensor:  # fmt: skip
    """Write the gradient of y into the left of ``grad_YG``; the gradient of b is returned."""
    grad_z = torch.empty_like(grad)
    y, b = YG.numpy(), b_d.detach().numpy()
    rows = (ptr.numpy(), node.numpy(), out_ptr.numpy(), out_node.numpy())
    grads = (grad.numpy(), grad_z.numpy(), grad_YG.numpy())

    def part(start: int, stop: int) -> None:
        spread_differences(start, stop, y, y, b, *rows, *grads, True)

    in_parts(part, grad.size(0), 2 * node.numel() * grad.size(1), LEAST)
    return grad_z.sum(0)


def combine(F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor, b_s: Tensor) -> Tensor:
    """(relu(F + b_fd) + relu(G + b_x)) w_s + b_s, G being the right of ``YG``."""
    hidden = torch.empty_like(F)
    arrays = [values.detach().numpy() for values in (F, YG, b_fd, b_x, hidden)]
    in_parts(lambda start, stop: add_up(start, stop, *arrays), F.size(0), F.numel(), LEAST)
    return hidden.mv(w_s.detach()).add_(b_s.detach())


def combine_backward(
    grad: Tensor, F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of F, of G in the right of one like ``YG``, and [b_fd ‖ b_x ‖ w_s ‖ b_s]'s."""
    grad_F, grad_YG = torch.empty_like(F), torch.empty_like(YG)
    inputs = [values.detach().numpy() for values in (grad, F, YG, b_fd, b_x, w_s)]
    outputs = (grad_F.numpy(), grad_YG.numpy())

    def part(start: int, stop: int) -> Tensor:
        return torch.from_numpy(take_apart(start, stop, *inputs, *outputs))

    parts = in_parts(part, F.size(0), 2 * F.numel(), LEAST)
    return grad_F, grad_YG, torch.stack(parts).sum(0)


@compiled
def add_up(start, stop, F, YG, b_fd, b_x, hidden):
    """relu(F + b_fd) + relu(G + b_x); NaN is not lost."""
    width = F.shape[1]
    zero = F.dtype.type(0)
    for i in range(start, stop):
        for c in range(width):
            f, g = F[i, c] + b_fd[c], YG[i, width + c] + b_x[c]
            hidden[i, c] = (zero if f <= 0 else f) + (zero if g <= 0 else g)


@compiled
def take_apart(start, stop, grad, F, YG, b_fd, b_x, w_s, grad_F, grad_YG):
    """The gradients of nodes ``start`` to ``stop``, and their sums over these nodes."""
    width = F.shape[1]
    zero = F.dtype.type(0)
    sums = np.zeros(3 * width + 1, F.dtype)
    for i in range(start, stop):
        for c in range(width):
            f, g, each = F[i, c] + b_fd[c], YG[i, width + c] + b_x[c], grad[i] * w_s[c]
            of_f, of_g = zero if f <= 0 else each, zero if g <= 0 else each
            grad_F[i, c] = of_f
            grad_YG[i, width + c] = of_g
            sums[c] += of_f
            sums[width + c] += of_g
            sums[2 * width + c] += grad[i] * ((zero if f <= 0 else f) + (zero if g <= 0 else g))
        sums[3 * width] += grad[i]
    return sums
