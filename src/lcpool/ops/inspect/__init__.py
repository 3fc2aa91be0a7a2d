"""The analysis of a batch before anything is computed with it: ranges, order, sizes."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from lcpool.graph.sizes import Sizes


class BatchFacts(NamedTuple):
    """The results of the analysis, on the host except for ``ptr``."""

    in_range: bool  # whether every edge is between nodes. If not, the others have no meaning
    in_order: bool  # whether edges are sorted by source, then target
    symmetric: bool  # whether A = Aᵀ is known
    by_graph: bool  # whether ``batch`` is sorted, or there is none
    first: int  # the graph of the first node
    last: int  # the graph of the last node
    ptr: Tensor | None  # where the edges out of each node begin, if they are in order
    sizes: Sizes | None = None  # the sizes of the graphs up to ``last``, if they were found
