"""A maximal k-independent set, and the kept node that each node joins."""

from __future__ import annotations

from torch import Tensor

from lcpool.graph.checks import check_lengths
from lcpool.graph.edges import Edges
from lcpool.graph.sizes import Sizes
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import as_operator


def independent_set(order: Tensor, edges: Edges, k: int, sizes: Sizes) -> Tensor:
    """The kept node that each node joins, ``[num_nodes]``; a kept node joins itself.

    Nodes are taken in ``order``: one is kept unless a node kept before it reaches it in at most k
    hops along the edges. Every other node joins the first kept node that reaches it so.

    Args:
        order: every node once, the first to be taken first.
        edges: the graphs.
        k: on undirected graphs, kept nodes are more than k hops apart.
        sizes: how many nodes each graph has; an edge must not lead from one to another.
    """
    check_lengths(order=(order, edges.num_nodes))
    rows = edges.out
    return independent_set_operator(order, rows.ptr, rows.node, k, sizes.counts, sizes.ptr)


@as_operator(
    "independent_set(Tensor order, Tensor ptr, Tensor node, int k, Tensor counts, Tensor first) "
    "-> Tensor",
    lambda order, *_: order.new_empty(order.shape),
)
def independent_set_operator(
    order: Tensor, ptr: Tensor, node: Tensor, k: int, counts: Tensor, first: Tensor
) -> Tensor:
    """:func:`independent_set`, from the targets of each node's edges."""
    return kernels(order).independent_set(order.contiguous(), ptr, node, k, counts, first)
