"""Sums over neighbours on a CPU: row by row, in the order of the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lcpool.graph.precision import wide
from lcpool.ops.compiled import compiled
from lcpool.ops.threads import in_parts

__all__ = ["aggregate", "difference_sum", "difference_sum_backward", "gcn_roots"]

# A second thread pays from this many additions on.
SUMS_PER_THREAD = 2**19


def array(x: Tensor) -> Any:
    """The numbers as numba reads them; half precision is widened."""
    return wide(x.detach()).numpy()


def gcn_roots(ptr: Tensor, node: Tensor) -> Tensor:
    return torch.from_numpy(inverse_roots(ptr.numpy(), node.numpy()))


def aggregate(x: Tensor, ptr: Tensor, node: Tensor, roots: Tensor | None) -> Tensor:
    values, rows = array(x), (ptr.numpy(), node.numpy())
    out, work = np.empty_like(values), node.numel() * x.size(1)
    if roots is None:
        in_parts(add_rows, len(values), work, SUMS_PER_THREAD, values, *rows, out)
    else:
        scale = roots.numpy().astype(values.dtype)
        in_parts(add_scaled_rows, len(values), work, SUMS_PER_THREAD, values, *rows, scale, out)
    return torch.from_numpy(out).to(x.dtype)


def difference_sum(z: Tensor, y: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    own, others, rows = array(z), array(y), (ptr.numpy(), node.numpy())
    out, no_shift = np.empty_like(own), np.zeros(own.shape[1], own.dtype)
    arrays = (own, others, no_shift, *rows, out)
    in_parts(add_differences, len(own), node.numel() * own.shape[1], SUMS_PER_THREAD, *arrays)
    return torch.from_numpy(out).to(y.dtype)


def difference_sum_backward(
    grad: Tensor, z: Tensor, y: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor, out_node: Tensor
) -> tuple[Tensor, Tensor]:
    own, others = array(z), array(y)
    rows = (ptr.numpy(), node.numpy(), out_ptr.numpy(), out_node.numpy())
    grad_z, grad_y = np.empty_like(own), np.empty_like(own)
    arrays, work = (own, others, *rows, array(grad), grad_z, grad_y), 2 * node.numel() * z.size(1)
    in_parts(difference_gradients, len(own), work, SUMS_PER_THREAD, *arrays)
    return torch.from_numpy(grad_z).to(z.dtype), torch.from_numpy(grad_y).to(y.dtype)


@compiled
def inverse_roots(ptr, node):
    """D^(-1/2), where D counts a self-loop of each node once."""
    roots = np.empty(ptr.size - 1, np.float64)
    for i in range(roots.size):
        degree = 1
        for e in range(ptr[i], ptr[i + 1]):
            degree += node[e] != i
        roots[i] = degree**-0.5
    return roots


@compiled
def add_rows(start, stop, x, ptr, node, out):
    """Σ_k x_k."""
    for i in range(start, stop):
        out[i] = 0
        for e in range(ptr[i], ptr[i + 1]):
            k = node[e]
            for c in range(x.shape[1]):
                out[i, c] += x[k, c]


@compiled
def add_scaled_rows(start, stop, x, ptr, node, scale, out):
    """s_i (s_i x_i + Σ_{k ≠ i} s_k x_k)."""
    for i in range(start, stop):
        for c in range(x.shape[1]):
            out[i, c] = scale[i] * x[i, c]
        for e in range(ptr[i], ptr[i + 1]):
            k = node[e]
            if k != i:
                for c in range(x.shape[1]):
                    out[i, c] += scale[k] * x[k, c]
        for c in range(x.shape[1]):
            out[i, c] *= scale[i]


# In the comparisons below NaN counts as positive, as in torch's relu: it must not be lost. The
# features are the first columns of z and y, which may have more.


@compiled
def add_differences(start, stop, z, y, shift, ptr, node, out):
    """Σ_k relu(z_i + b − y_k)."""
    zero = z.dtype.type(0)
    for i in range(start, stop):
        out[i] = 0
        for e in range(ptr[i], ptr[i + 1]):
            k = node[e]
            for c in range(out.shape[1]):
                d = z[i, c] + shift[c] - y[k, c]
                out[i, c] += zero if d <= 0 else d


@compiled
def difference_gradients(
    start, stop, z, y, ptr, node, out_ptr, out_node, grad, grad_z, grad_y
):  # fmt: skip
    """The gradient of z_i from its own sum, and that of y_i from the sums it is in."""
    zero = z.dtype.type(0)
    width = grad.shape[1]
    for i in range(start, stop):
        grad_z[i] = 0
        for e in range(ptr[i], ptr[i + 1]):
            k = node[e]
            for c in range(width):
                grad_z[i, c] += zero if z[i, c] - y[k, c] <= 0 else grad[i, c]
        grad_y[i] = 0
        for e in range(out_ptr[i], out_ptr[i + 1]):
            t = out_node[e]
            for c in range(width):
                grad_y[i, c] -= zero if z[t, c] - y[i, c] <= 0 else grad[t, c]
