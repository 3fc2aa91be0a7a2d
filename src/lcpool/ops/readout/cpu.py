"""Reductions over the nodes of each graph on a CPU."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.threads import arrays, compiled, sum_rows

__all__ = ["readout", "readout_backward", "softmax", "softmax_backward"]


def readout(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    out = x.new_empty(ptr.numel() - 1, 2 * x.size(1))
    ties = torch.empty(ptr.numel() - 1, x.size(1), dtype=torch.int32)
    sum_rows(mean_and_max, ptr.numel() - 1, 2 * x.numel(), x, ptr, out, ties)
    return out, ties


def readout_backward(grad: Tensor, x: Tensor, ptr: Tensor, out: Tensor, ties: Tensor) -> Tensor:
    grad_x = torch.empty_like(x)
    sum_rows(readout_gradients, ptr.numel() - 1, x.numel(), grad, x, ptr, out, ties, grad_x)
    return grad_x


def softmax(values: Tensor, ptr: Tensor) -> Tensor:
    h = torch.empty_like(values)
    softmax_graphs(0, ptr.numel() - 1, *arrays(values, ptr, h))
    return h


def softmax_backward(grad: Tensor, h: Tensor, ptr: Tensor) -> Tensor:
    out = torch.empty_like(h)
    softmax_gradients(*arrays(grad, h, ptr, out))
    return out


@compiled
def mean_and_max(start, stop, x, ptr, out, ties):
    """Σ x / n ‖ max x of some graphs, zeros for an empty one."""
    width = x.shape[1]
    for g in range(start, stop):
        for c in range(width):
            out[g, c] = 0
            out[g, width + c] = 0
            ties[g, c] = 1
        for i in range(ptr[g], ptr[g + 1]):
            for c in range(width):
                out[g, c] += x[i, c]
        for c in range(width):
            out[g, c] /= max(ptr[g + 1] - ptr[g], 1)
        for i in range(ptr[g], ptr[g + 1]):
            for c in range(width):
                most = out[g, width + c]
                if i == ptr[g] or x[i, c] > most or x[i, c] != x[i, c]:
                    out[g, width + c] = x[i, c]
                    ties[g, c] = 1
                elif x[i, c] == most:
                    ties[g, c] += 1


@compiled
def readout_gradients(start, stop, grad, x, ptr, out, ties, grad_x):
    """1/n of the mean's gradient to each node, the maximum's to those that share it."""
    width = x.shape[1]
    # Computed per graph and only chosen per node: that loop becomes vector instructions.
    of_mean, of_both = np.empty((2, width), x.dtype)
    for g in range(start, stop):
        share = grad.dtype.type(1) / max(ptr[g + 1] - ptr[g], 1)
        most = out[g, width:]
        for c in range(width):
            value = grad[g, c] * share
            of_mean[c] = value
            of_both[c] = value + grad[g, width + c] / ties[g, c]
        for i in range(ptr[g], ptr[g + 1]):
            for c in range(width):
                grad_x[i, c] = of_both[c] if x[i, c] == most[c] else of_mean[c]


@compiled
def softmax_graphs(start, stop, values, ptr, h):
    """exp(v − max v) / Σ exp(v − max v) over the nodes of each graph."""
    for g in range(start, stop):
        most, total = -np.inf, 0.0
        for i in range(ptr[g], ptr[g + 1]):
            most = max(most, values[i])
        for i in range(ptr[g], ptr[g + 1]):
            h[i] = math.exp(values[i] - most)
            total += h[i]
        for i in range(ptr[g], ptr[g + 1]):
            h[i] /= total


@compiled
def softmax_gradients(grad, h, ptr, out):
    """The gradient of the values: h (g − Σ g h)."""
    for g in range(ptr.size - 1):
        inner = 0.0
        for i in range(ptr[g], ptr[g + 1]):
            inner += grad[i] * h[i]
        for i in range(ptr[g], ptr[g + 1]):
            out[i] = h[i] * (grad[i] - inner)
