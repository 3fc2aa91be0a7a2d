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


# Short loops over few arrays: only those does the compiler turn into vector instructions.


@compiled
def add_up(start, stop, F, YG, b_fd, b_x, hidden):
    """relu(F + b_fd) + relu(G + b_x); NaN is not lost."""
    width = F.shape[1]
    zero = F.dtype.type(0)
    for i in range(start, stop):
        for c in range(width):
            f = F[i, c] + b_fd[c]
            hidden[i, c] = zero if f <= 0 else f
        for c in range(width):
            g = YG[i, width + c] + b_x[c]
            hidden[i, c] += zero if g <= 0 else g


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
