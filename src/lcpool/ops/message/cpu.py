"""Sums and maxima over neighbours on a CPU: row by row, in the order of the edges."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.graph.precision import wide
from lcpool.ops.threads import arrays, compiled, regrouped, sum_rows

__all__ = [
    "aggregate", "difference_sum", "difference_sum_backward", "entry_dot", "gcn_roots",
    "neighbour_max", "neighbour_max_backward", "weighted_sum",
]  # fmt: skip


def gcn_roots(ptr: Tensor, node: Tensor) -> Tensor:
    return torch.from_numpy(inverse_roots(*arrays(ptr, node)))


def aggregate(x: Tensor, ptr: Tensor, node: Tensor, roots: Tensor | None) -> Tensor:
    rows, work = wide(x), node.numel() * x.size(1)
    out = torch.empty_like(rows)
    if roots is None:
        sum_rows(add_rows, len(out), work, rows, None, ptr, node, None, out)
    else:
        scale = roots.to(rows.dtype)
        sum_rows(add_scaled_rows, len(out), work, rows, ptr, node, scale, out)
    return out.to(x.dtype)


def weighted_sum(
    x: Tensor, weight: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None
) -> Tensor:
    rows, work = wide(x), node.numel() * x.size(1)
    out = rows.new_empty(ptr.numel() - 1, x.size(1))
    sum_rows(add_rows, len(out), work, rows, wide(weight), ptr, node, entry, out)
    return out.to(x.dtype)


def entry_dot(y: Tensor, x: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None) -> Tensor:
    own, work = wide(y), node.numel() * x.size(1)
    out = own.new_empty(node.numel())
    sum_rows(dot_rows, len(own), work, own, wide(x), ptr, node, entry, out)
    return out.to(x.dtype)


def difference_sum(z: Tensor, y: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    own, work = wide(z), node.numel() * z.size(1)
    out, no_shift = torch.empty_like(own), own.new_zeros(z.size(1))
    sum_rows(add_differences, len(own), work, own, wide(y), no_shift, ptr, node, out)
    return out.to(y.dtype)


def difference_sum_backward(
    grad: Tensor, z: Tensor, y: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor, out_node: Tensor
) -> tuple[Tensor, Tensor]:
    own, work = wide(z), 2 * node.numel() * z.size(1)
    grad_z, grad_y = torch.empty_like(own), torch.empty_like(own)
    given = (own, wide(y), ptr, node, out_ptr, out_node, wide(grad), grad_z, grad_y)
    sum_rows(difference_gradients, len(own), work, *given)
    return grad_z.to(z.dtype), grad_y.to(y.dtype)


def neighbour_max(x: Tensor, ptr: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    rows, work = wide(x), node.numel() * x.size(1)
    most, ties = torch.empty_like(rows), torch.empty(x.shape, dtype=torch.int32)
    sum_rows(find_maxima, len(rows), work, rows, ptr, node, most, ties)
    return most.to(x.dtype), ties


def neighbour_max_backward(
    share: Tensor, x: Tensor, most: Tensor, out_ptr: Tensor, out_node: Tensor
) -> Tensor:
    grad, work = torch.empty_like(share), out_node.numel() * x.size(1)
    given = (share, wide(x), wide(most), out_ptr, out_node, grad)
    sum_rows(add_shares, len(share), work, *given)
    return grad.to(x.dtype)


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
def add_rows(start, stop, x, weight, ptr, node, entry, out):
    """Σ_e w_e x_k, or Σ_k x_k without weights."""
    for i in range(start, stop):
        out[i] = 0
        for e in range(ptr[i], ptr[i + 1]):
            k = node[e]
            if weight is None:
                for c in range(x.shape[1]):
                    out[i, c] += x[k, c]
            else:
                w = weight[e if entry is None else entry[e]]
                for c in range(x.shape[1]):
                    out[i, c] += w * x[k, c]


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


@regrouped
def dot_rows(start, stop, y, x, ptr, node, entry, out):
    """y_i · x_k."""
    for i in range(start, stop):
        for e in range(ptr[i], ptr[i + 1]):
            k, total = node[e], x.dtype.type(0)
            for c in range(x.shape[1]):
                total += y[i, c] * x[k, c]
            out[e if entry is None else entry[e]] = total


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


@compiled
def find_maxima(start, stop, x, ptr, node, most, ties):
    """max_k x_k, NaN if one of them is."""
    for i in range(start, stop):
        most[i] = -np.inf if ptr[i] < ptr[i + 1] else 0
        ties[i] = 0
        for e in range(ptr[i], ptr[i + 1]):
            k = node[e]
            for c in range(x.shape[1]):
                value, before = x[k, c], most[i, c]
                above = value > before or value != value
                most[i, c] = value if above else before
                ties[i, c] = 1 if above else ties[i, c] + (value == before)
        for c in range(x.shape[1]):
            ties[i, c] = max(ties[i, c], 1)


@compiled
def add_shares(start, stop, share, x, most, out_ptr, out_node, grad):
    """Σ_j of the shares of the nodes j whose maximum is x_i."""
    zero = share.dtype.type(0)
    for i in range(start, stop):
        grad[i] = 0
        for e in range(out_ptr[i], out_ptr[i + 1]):
            j = out_node[e]
            for c in range(x.shape[1]):
                grad[i, c] += share[j, c] if x[i, c] == most[j, c] else zero
