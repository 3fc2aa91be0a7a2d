"""A maximal matching in rounds: an edge that no other edge at its ends beats is matched.

Those are the edges that one after the other would be matched too (Preis 1999). Rounds are few
where the order of the edges along a path looks random, and as many as the path is long where it
rises.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["matching"]


def matching(order: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    none = order.numel()
    rank = torch.empty_like(order)
    rank[order] = torch.arange(none, device=order.device)
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
