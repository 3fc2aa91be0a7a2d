"""Rows of A' on a CPU: the graph is prepared once, then searched from some kept nodes at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lcpool.ops.cpu.connect import SHARE, find_rows, stack_rows
from lcpool.ops.cpu.rows import (
    EDGES_PER_THREAD,
    FEW_LIST_EDGES,
    most_edges,
    prepare,
    with_lists,
)
from lcpool.ops.cpu.team import in_parts


@dataclass(frozen=True)
class ClusterSearch:
    """Rows of S'ᵀAS' for S = I + A, by a search of depth three from each kept node."""

    graph: Any
    edges: int
    room: Any
    self_loops: bool

    def most_edges(self) -> Tensor:
        """A bound on the entries of each row."""
        return torch.from_numpy(self.room)

    def rows(self, start: int, stop: int) -> Tensor:
        """The entries of rows ``start`` to ``stop``, searched by as many threads as torch has."""

        def find(first: int, last: int) -> Any:
            return find_rows(start + first, start + last, self.graph, self.self_loops, self.room)

        size = stop - start
        work = self.edges * size // max(self.room.size, 1)
        edges, _ = stack_rows(start, in_parts(find, size, work, EDGES_PER_THREAD, SHARE))
        return torch.from_numpy(edges)


def cluster_search(
    edge_index: Tensor, perm: Tensor, num_nodes: int, self_loops: bool
) -> ClusterSearch:
    """The graph by rows, and a bound on each row of A'."""
    # Not made contiguous: edges that are mapped into memory are read where they lie.
    source, target = edge_index.numpy()
    graph = prepare(source, target, perm.contiguous().numpy(), num_nodes)
    graph = with_lists(graph, FEW_LIST_EDGES)
    return ClusterSearch(graph, source.size, most_edges(graph), self_loops)
