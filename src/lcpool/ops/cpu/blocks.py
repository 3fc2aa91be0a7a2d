"""Rows of A' on a CPU: the graph is prepared once, then searched from some kept nodes at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lcpool.ops.cpu.compiled import in_parts
from lcpool.ops.cpu.connect import EDGES_PER_THREAD, most_edges, prepare, search_rows, stack_rows


class ClusterSearch:
    """Rows of S'ᵀAS' for S = I + A, by a search of depth three from each kept node."""

    def __init__(self, edge_index: Tensor, perm: Tensor, num_nodes: int, self_loops: bool) -> None:
        # A copy: the graph is prepared for these nodes, whatever becomes of the caller's.
        self.kept = perm.numpy().copy()
        # Not made contiguous: edges that are mapped into memory are read where they lie.
        source, target = edge_index.numpy()
        self.graph = prepare(source, target, self.kept, num_nodes)
        self.num_edges, self.self_loops = source.size, self_loops

    def most_edges(self) -> Tensor:
        """A bound on the entries of each row."""
        return torch.from_numpy(most_edges(self.kept, self.graph))

    def rows(self, start: int, stop: int) -> Tensor:
        """The entries of rows ``start`` to ``stop``, searched by as many threads as torch has."""

        def search(first: int, last: int) -> Any:
            rows = (start + first, start + last)
            return search_rows(*rows, self.kept, self.graph, self.self_loops, True)

        share = self.num_edges * (stop - start) // max(self.kept.size, 1)
        return stack_rows(start, in_parts(search, stop - start, share, EDGES_PER_THREAD))
