"""The edges between clusters in plain torch: a stable sort."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["contract"]


def contract(edge_index: Tensor, label: Tensor, num_clusters: int) -> tuple[Tensor, Tensor, Tensor]:
    row, col = label[edge_index]
    off = ((row != col) & (row >= 0) & (col >= 0)).nonzero().view(-1)
    columns = max(num_clusters, 1)
    keys, order = (row[off] * columns + col[off]).sort(stable=True)
    keys, lengths = torch.unique_consecutive(keys, return_counts=True)
    ptr = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return torch.stack([keys // columns, keys % columns]), ptr, off[order]
