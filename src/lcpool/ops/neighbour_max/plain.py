"""The maximum over neighbours in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.precision import wide
from lcpool.graph.sizes import owners
from lcpool.ops.row_sum import row_sum

__all__ = ["neighbour_max", "neighbour_max_backward"]


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
