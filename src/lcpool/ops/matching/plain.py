"""A maximal matching in rounds: an edge that no other edge at its ends beats is matched.

Those are the edges that one after the other would be matched too (Preis 1999). Rounds are few
where the order of the edges along a path looks random, and as many as the path is long where it
rises.
"""

from __future__ import annotations

from torch import Tensor

from lcpool.graph.sizes import inverse

__all__ = ["matching"]


def matching(
    order: Tensor, edge_index: Tensor, ptr: Tensor, entry: Tensor | None, counts: Tensor,
    first: Tensor,
) -> Tensor:  # fmt: skip
    none, num_nodes, rank = order.numel(), ptr.numel() - 1, inverse(order)
    found = order.new_full((num_nodes,), -1)
    left = (edge_index[0] != edge_index[1]).nonzero().view(-1)
    while left.numel():
        source, target = edge_index[:, left]
        bid = rank[left]
        best = order.new_full((num_nodes,), none)
        best = best.scatter_reduce(0, source, bid, "amin").scatter_reduce(0, target, bid, "amin")
        won = (best[source] == bid) & (best[target] == bid)
        for end in (source, target):
            found[end[won]] = left[won]
        left = left[(found[source] < 0) & (found[target] < 0)]
    return found
