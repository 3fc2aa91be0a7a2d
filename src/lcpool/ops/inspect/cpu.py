"""The analysis of a batch on a CPU, in one pass over edges and nodes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.graph.sizes import Sizes
from lcpool.ops.connect.cpu import to_rows
from lcpool.ops.inspect import BatchFacts
from lcpool.ops.threads import compiled

__all__ = ["inspect", "sort_by_row"]


def inspect(edge_index: Tensor, num_nodes: int, batch: Tensor | None) -> BatchFacts:
    source, target = edge_index.numpy()
    in_range, in_order, symmetric, ptr = inspect_edges(source, target, num_nodes)
    known = (in_range, in_order, symmetric)
    if batch is None or not batch.numel():
        return BatchFacts(*known, True, 0, 0, torch.from_numpy(ptr))
    graphs = batch.numpy()
    by_graph, begins = begin_graphs(graphs)
    sizes = Sizes.of_begins(begins, torch.from_numpy(begins), num_nodes) if begins.size else None
    first, last = int(graphs[0]), int(graphs[-1])
    return BatchFacts(*known, by_graph, first, last, torch.from_numpy(ptr), sizes)


def sort_by_row(row: Tensor, node: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
    ptr, out, _ = to_rows(row.numpy(), node.numpy(), None, num_rows, np.int64)
    return torch.from_numpy(ptr), torch.from_numpy(out)


@compiled
def inspect_edges(source, target, num_nodes):
    """Whether edges are in range, in order and symmetric, and where those of each node begin."""
    ptr = np.zeros(num_nodes + 1, np.int64)
    ordered = True
    for e in range(source.size):
        s, t = source[e], target[e]
        if s < 0 or s >= num_nodes or t < 0 or t >= num_nodes:
            return False, False, False, ptr
        ptr[s + 1] += 1
        if e > 0:
            ordered &= source[e - 1] < s or (source[e - 1] == s and target[e - 1] <= t)
    for i in range(num_nodes):
        ptr[i + 1] += ptr[i]
    if not ordered:
        return True, False, False, ptr
    # Edges are in order: in each row t the reverse edges to s = 0, 1, … follow each other.
    next_back = ptr.copy()
    for e in range(source.size):
        s, t = source[e], target[e]
        if next_back[t] == ptr[t + 1] or target[next_back[t]] != s:
            return True, True, False, ptr
        next_back[t] += 1
    return True, True, True, ptr


@compiled
def begin_graphs(batch):
    """Whether the nodes are sorted by graph; where each graph begins, and the end of the last.

    The latter is empty if they are not sorted, or if there are more graphs than nodes.
    """
    for i in range(1, batch.size):
        if batch[i] < batch[i - 1]:
            return False, np.empty(0, np.int64)
    if batch[0] < 0 or batch[-1] >= batch.size:
        return True, np.empty(0, np.int64)
    ptr = np.zeros(batch[-1] + 2, np.int64)
    for i in range(batch.size):
        ptr[batch[i] + 1] = i + 1
    for g in range(ptr.size - 1):  # An empty graph ends where the one before does.
        ptr[g + 1] = max(ptr[g + 1], ptr[g])
    return True, ptr
