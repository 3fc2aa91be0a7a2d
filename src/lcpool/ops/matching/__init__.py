"""A maximal matching: edges that share no node, the heaviest first."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.checks import check_lengths
from lcpool.graph.edges import Entries
from lcpool.graph.sizes import Sizes
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import as_operator


def matching(order: Tensor, edges: Entries, sizes: Sizes) -> Tensor:
    """The matched edge of each node, ``[num_nodes]``; −1 for a node without one.

    Edges are taken in ``order``: one is matched unless it is a self-loop or has an end that is
    matched already. The direction of edges does not matter.

    Args:
        order: every edge once, the first to be taken first.
        edges: the edges, numbered.
        sizes: how many nodes each graph has; an edge must not lead from one to another.
    """
    check_lengths(order=(order, edges.source.numel()))
    into, edge_index = edges.into, torch.stack([edges.source, edges.target])
    return matching_operator(order, edge_index, into.ptr, into.entry, sizes.counts, sizes.ptr)


@as_operator(
    "matching(Tensor order, Tensor edge_index, Tensor ptr, Tensor? entry, Tensor counts, "
    "Tensor first) -> Tensor",
    lambda order, edge_index, ptr, *_: order.new_empty(ptr.numel() - 1),
)
def matching_operator(
    order: Tensor, edge_index: Tensor, ptr: Tensor, entry: Tensor | None, counts: Tensor,
    first: Tensor,
) -> Tensor:  # fmt: skip
    """:func:`matching`, for edges whose number is checked."""
    return kernels(order).matching(order.contiguous(), edge_index, ptr, entry, counts, first)
