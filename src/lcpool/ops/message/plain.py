"""Sums over neighbours in plain torch."""

from __future__ import annotations

from torch import Tensor

from lcpool.graph.precision import wide
from lcpool.graph.sizes import owners
from lcpool.ops.row_sum import row_sum

__all__ = ["aggregate", "difference_sum", "difference_sum_backward", "gcn_roots"]


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
