"""Sums and maxima over neighbours in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.precision import wide
from lcpool.graph.sizes import owners

__all__ = [
    "aggregate", "difference_sum", "difference_sum_backward", "entry_dot", "gcn_roots",
    "neighbour_max", "neighbour_max_backward", "weighted_sum",
]  # fmt: skip


def row_sum(values: Tensor, ptr: Tensor) -> Tensor:
    """Σ of the values ``ptr[i]`` to ``ptr[i + 1]`` for each i, in a fixed order: the same bits."""
    if values.is_cuda:  # where index_add has no fixed order
        return torch.segment_reduce(values, "sum", offsets=ptr, axis=0, initial=0)
    total = values.new_zeros(ptr.numel() - 1, *values.shape[1:])
    return total.index_add(0, owners(ptr, values.size(0)), values)


def gcn_roots(ptr: Tensor, node: Tensor) -> Tensor:
    other = node != owners(ptr, node.numel())
    return (1 + row_sum(other.double(), ptr)).rsqrt()


def aggregate(x: Tensor, ptr: Tensor, node: Tensor, roots: Tensor | None) -> Tensor:
    values = wide(x)
    if roots is None:
        return row_sum(values.index_select(0, node), ptr).to(x.dtype)
    scale = roots.to(values.dtype).unsqueeze(-1)
    values = scale * values
    # Masked, not multiplied by zero: a self-loop's row may hold infinities.
    loop = (node == owners(ptr, node.numel())).unsqueeze(-1)
    rows = values.index_select(0, node).masked_fill(loop, 0.0)
    return (scale * (values + row_sum(rows, ptr))).to(x.dtype)


def difference_sum(z: Tensor, y: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    differences = wide(z).index_select(0, owners(ptr, node.numel())) - wide(y).index_select(0, node)
    return row_sum(differences.relu(), ptr).to(y.dtype)


def difference_sum_backward(
    grad: Tensor, z: Tensor, y: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor, out_node: Tensor
) -> tuple[Tensor, Tensor]:
    own, others, grads = wide(z), wide(y), wide(grad)
    row, out_row = owners(ptr, node.numel()), owners(out_ptr, out_node.numel())
    # NaN counts as positive, as in torch's relu: it must not be lost.
    off = own.index_select(0, row) - others.index_select(0, node) <= 0
    grad_z = row_sum(grads.index_select(0, row).masked_fill(off, 0.0), ptr)
    off = own.index_select(0, out_node) - others.index_select(0, out_row) <= 0
    grad_y = row_sum(grads.index_select(0, out_node).masked_fill(off, 0.0), out_ptr)
    return grad_z.to(z.dtype), -grad_y.to(y.dtype)


def weighted_sum(
    x: Tensor, weight: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None
) -> Tensor:
    by_row = weight if entry is None else weight.index_select(0, entry)
    rows = wide(x).index_select(0, node) * wide(by_row).unsqueeze(-1)
    return row_sum(rows, ptr).to(x.dtype)


def entry_dot(y: Tensor, x: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None) -> Tensor:
    rows = wide(y).index_select(0, owners(ptr, node.numel())) * wide(x).index_select(0, node)
    dots = rows.sum(-1).to(x.dtype)
    return dots if entry is None else torch.empty_like(dots).index_copy(0, entry, dots)


def neighbour_max(x: Tensor, ptr: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    row, rows = owners(ptr, node.numel()), x.index_select(0, node)
    most = x.new_full((ptr.numel() - 1, x.size(1)), -torch.inf)
    most = most.scatter_reduce(0, row.unsqueeze(-1).expand_as(rows), rows, "amax")
    shared = rows == most.index_select(0, row)
    ties = row_sum(shared.to(wide(x).dtype), ptr).clamp(min=1).int()
    return most.where(ptr.diff().unsqueeze(-1) > 0, 0.0), ties


def neighbour_max_backward(
    share: Tensor, x: Tensor, most: Tensor, out_ptr: Tensor, out_node: Tensor
) -> Tensor:
    is_most = x.index_select(0, owners(out_ptr, out_node.numel())) == most.index_select(0, out_node)
    return row_sum(share.index_select(0, out_node).masked_fill(~is_most, 0.0), out_ptr).to(x.dtype)
