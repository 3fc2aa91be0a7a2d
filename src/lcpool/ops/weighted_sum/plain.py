"""Products with weighted sparse matrices in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.precision import wide
from lcpool.graph.sizes import owners
from lcpool.ops.row_sum import row_sum

__all__ = ["entry_dot", "weighted_sum"]


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
