"""The analysis of a batch, and sorting by row, in plain torch."""

from __future__ import annotations

from torch import Tensor

from lcpool.graph.sizes import row_pointers
from lcpool.ops.inspect import BatchFacts

__all__ = ["inspect", "sort_by_row"]


def inspect(edge_index: Tensor, num_nodes: int, batch: Tensor | None) -> BatchFacts:
    # The order of the edges is not analysed.
    low, high = edge_index.aminmax() if edge_index.numel() else edge_index.new_zeros(2)
    in_range = not edge_index.numel() or bool((low >= 0) & (high < num_nodes))
    if batch is None or not batch.numel():
        return BatchFacts(in_range, False, False, True, 0, 0, None)
    first, last, by_graph = batch[0], batch[-1], (batch.diff() >= 0).all()
    return BatchFacts(in_range, False, False, bool(by_graph), int(first), int(last), None)


def sort_by_row(row: Tensor, node: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
    row, order = row.sort(stable=True)
    return row_pointers(row, num_rows), node[order]
