"""The edges between clusters on a CPU: two counting sorts, so the time grows with the edges."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.threads import compiled

__all__ = ["contract"]


def contract(edge_index: Tensor, label: Tensor, num_clusters: int) -> tuple[Tensor, Tensor, Tensor]:
    source, target = edge_index.numpy()
    found = contract_edges(source, target, label.numpy(), num_clusters)
    index, ptr, member = (torch.from_numpy(part) for part in found)
    return index, ptr, member


@compiled
def contract_edges(source, target, label, num_clusters):
    """Sort the edges between clusters by source and target, and join equal ones."""
    off = np.empty(source.size, np.int64)
    count = 0
    for e in range(source.size):
        row, col = label[source[e]], label[target[e]]
        if row != col and row >= 0 and col >= 0:
            off[count] = e
            count += 1
    by_target = counting_sort(off[:count], target, label, num_clusters)
    member = counting_sort(by_target, source, label, num_clusters)
    index, ptr = np.empty((2, count), np.int64), np.empty(count + 1, np.int64)
    size = 0
    for i in range(count):
        row, col = label[source[member[i]]], label[target[member[i]]]
        if size == 0 or row != index[0, size - 1] or col != index[1, size - 1]:
            index[0, size], index[1, size], ptr[size] = row, col, i
            size += 1
    ptr[size] = count
    return index[:, :size].copy(), ptr[: size + 1].copy(), member


@compiled
def counting_sort(edges, end, label, num_clusters):
    """Edges sorted by the cluster of one of their ends; equal ones keep their order."""
    place = np.zeros(num_clusters + 1, np.int64)
    for e in edges:
        place[label[end[e]] + 1] += 1
    for c in range(num_clusters):
        place[c + 1] += place[c]
    out = np.empty_like(edges)
    for e in edges:
        c = label[end[e]]
        out[place[c]] = e
        place[c] += 1
    return out
