"""A maximal k-independent set in rounds: Blelloch et al. (2012), for k hops Bacciu et al. (2023).

In a round, all nodes are kept that come first among the free ones within k hops. What one node
after the other would give is the same: only nodes that come before it and reach it decide.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.sizes import inverse, owners

__all__ = ["independent_set"]


def independent_set(
    order: Tensor, ptr: Tensor, node: Tensor, k: int, counts: Tensor, first: Tensor
) -> Tensor:
    none, source, rank = order.numel(), owners(ptr, node.numel()), inverse(order)

    def least(values: Tensor) -> Tensor:
        """The least value of the nodes that reach each node in at most k hops."""
        for _ in range(min(k, none)):
            values = values.scatter_reduce(0, node, values[source], "amin")
        return values

    kept = torch.zeros_like(order, dtype=torch.bool)
    joined = torch.full_like(order, none)  # the rank of a kept node
    while bool((free := joined == none).any()):
        kept = kept | (free & (least(rank.where(free, none)) == rank))
        joined = least(rank.where(kept, none))
        # Along directed edges, a kept node may reach one that comes before it and is not decided.
        joined = joined.where(joined <= rank, none)
    return order[joined]
