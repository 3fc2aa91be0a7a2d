"""What can be known of a graph before anything is computed with it."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class BatchFacts(NamedTuple):
    """What was found, on the host but for ``ptr``.

    Attributes:
        in_range: whether every edge is between nodes. If not, nothing else counts.
        in_order: whether edges are sorted by source, then target.
        symmetric: whether every edge is known to stand in both directions, equally often.
        by_graph: whether ``batch`` is sorted, or there is none.
        first: the graph of the first node.
        last: the graph of the last node.
        ptr: where the edges out of each node begin, where they are in order.
        graph_ptr: where each graph begins, and the end of the last; None where that was not found.
    """

    in_range: bool
    in_order: bool
    symmetric: bool
    by_graph: bool
    first: int
    last: int
    ptr: Tensor | None
    graph_ptr: tuple[Tensor, Tensor] | None = None
