"""Cells and components in plain torch: rounds over all edges until nothing changes."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.sizes import inverse, owners

__all__ = ["best_of_components", "nearest_kept"]


def nearest_kept(
    ptr: Tensor, node: Tensor, place: Tensor, perm: Tensor, counts: Tensor, first: Tensor
) -> Tensor:
    row, none = owners(ptr, node.numel()), place.numel()
    owner = torch.full_like(place, none)  # the place of the kept node
    owner[perm] = place[perm]
    while True:
        reached = owner.scatter_reduce(0, row, owner[node], "amin")
        new = (owner == none) & (reached < none)
        if not new.any():
            return positions_of(owner, place, perm)
        owner = torch.where(new, reached, owner)


def best_of_components(
    ptr: Tensor, node: Tensor, place: Tensor, counts: Tensor, first: Tensor
) -> Tensor:
    row, at, best = owners(ptr, node.numel()), inverse(place), place
    while True:
        new = best.scatter_reduce(0, row, best[node], "amin")
        new = best[at[new]].minimum(new)  # what that node knows: long paths take few rounds
        if torch.equal(new, best):
            return best == place
        best = new


def positions_of(owner: Tensor, place: Tensor, perm: Tensor) -> Tensor:
    """The position in ``perm`` of the kept nodes at the places ``owner``, −1 for no place."""
    number = place.new_full((place.numel() + 1,), -1)
    number[place[perm]] = torch.arange(perm.numel(), device=perm.device)
    return number[owner]
