"""The analysis of a batch before anything is computed with it: ranges, order, sizes."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from lcpool.graph.sizes import Sizes


class BatchFacts(NamedTuple):
    """The results of the analysis, on the host except for ``ptr``.

    Attributes:
        in_range: whether every edge is between nodes. If not, the others have no meaning.
        in_order: whether edges are sorted by source, then target.
        symmetric: whether A = Aᵀ is known.
        by_graph: whether ``batch`` is sorted, or there is none.
        first: the graph of the first node.
        last: the graph of the last node.
        ptr: where the edges out of each node begin, if they are in order.
        sizes: the sizes of the graphs up to ``last``, if they were found.
    """

    in_range: bool
    in_order: bool
    symmetric: bool
    by_graph: bool
    first: int
    last: int
    ptr: Tensor | None
    sizes: Sizes | None = None
