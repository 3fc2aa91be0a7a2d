"""A maximal matching: edges that share no node, the heaviest first."""

from __future__ import annotations

from torch import Tensor

from lcpool.graph.checks import check_lengths
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import as_operator


def matching(order: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """The matched edge of each node, ``[num_nodes]``; −1 for a node without one.

    Edges are taken in ``order``: one is matched unless it is a self-loop or has an end that is
    matched already. The direction of edges does not matter.

    Args:
        order: every edge once, the first to be taken first.
        edge_index: the edges; trusted to be in range.
        num_nodes: the number of nodes.
    """
    check_lengths(order=(order, edge_index.size(1)))
    return matching_operator(order, edge_index, num_nodes)


@as_operator(
    "matching(Tensor order, Tensor edge_index, SymInt num_nodes) -> Tensor",
    lambda order, edge_index, num_nodes: order.new_empty(num_nodes),
)
def matching_operator(order: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """:func:`matching`, for edges whose number is checked."""
    return kernels(order).matching(order.contiguous(), edge_index.contiguous(), num_nodes)
