"""Clusters that share no node, and A' between them, of padded graphs.

Nothing synchronises, and all shapes follow from the bounds, so that the step can be captured.
"""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor
from torch.nn.functional import pad

from lcpool.graph.assignment import Assignment
from lcpool.graph.bounded import Bounded, BoundedEdges
from lcpool.graph.capture import NotCapturableError
from lcpool.graph.edges import Entries, Neighbours
from lcpool.graph.sizes import row_pointers
from lcpool.ops.connect.bounded import of_bits
from lcpool.ops.connect.gpu import ClusterLayout, fits


def assign(label: Tensor, num_clusters: int, weight: Tensor | None) -> Assignment:
    """S of clusters that share no node, where s_ij is the ``weight`` of node i.

    The label −1, of a node in no cluster or a padding row, makes no entry.
    """
    n, has = label.numel(), label >= 0
    nodes, ends = torch.arange(n, device=label.device), has.cumsum(0)
    # The nodes that have a cluster in front; all others in one row past the last.
    front = nodes.new_zeros(n + 1).scatter(0, (ends - 1).where(has, n), nodes)[:n]
    out = Neighbours(pad(ends, (1, 0)), label[front], front)
    row, order = label.where(has, num_clusters).sort(stable=True)
    into = Neighbours(row_pointers(row, num_clusters), order, order)
    if weight is not None:
        weight = weight.where(has, 0.0)  # no gradient to others: theirs is not computed
    return Assignment.of_entries(Entries(nodes, label, n, num_clusters, out, into), weight)


def number_centres(
    centre: Tensor, order: Tensor, sizes: Bounded, kept: Bounded | None
) -> tuple[Tensor, Tensor, Bounded]:
    """The clusters of nodes that have the same centre, numbered in the order of their centres.

    Args:
        centre: for each node, the node that names its cluster; it is its own centre.
        order: all nodes, sorted by graph, and then all padding rows.
        sizes: how many nodes each graph has.
        kept: how many clusters each graph has, if there is a better bound than its nodes.

    Returns:
        The centre of each cluster, −1 in rows past the last; the cluster of each node, −1 for
        padding rows; and the number of clusters of each graph.
    """
    n = order.numel()
    first = (centre[order] == order) & sizes.real  # a row of ``order`` is real where a node is
    ends = first.cumsum(0)
    if kept is None:
        ptr = pad(ends, (1, 0))[sizes.ptr]
        kept = Bounded(ptr, int(sizes.counts[0]), n, sizes.runs, sizes.longest)
    perm = order.new_full((n + 1,), -1).scatter(0, (ends - 1).where(first, n), order)[: kept.total]
    number = torch.empty_like(order).scatter(0, order, ends - 1)
    return perm, number[centre].where(sizes.real, -1), kept


def contract_within(
    edges: BoundedEdges, batch: Tensor, S: Assignment, sizes: Bounded
) -> BoundedEdges:
    """A' = ones(SᵀAS) without its diagonal, for S as :func:`assign` makes it."""
    most = int(sizes.counts[0])
    if not fits(edges.num_nodes, S.num_clusters, most):
        raise NotCapturableError("its graphs are so large that they are contracted by sorting")

    def reach(hops: float) -> int:
        # A' has no more edges than A, but nodes t hops apart in A' may be any number apart in A.
        return edges.reach(hops if hops == 1 else inf)

    graphs = ClusterLayout(batch, sizes.batch, sizes.ptr, most)
    before = BoundedEdges(edges.out, reach, edges.distinct)
    onto, members = S.entries.out, S.entries.into
    return of_bits(onto, edges.out, members, None, graphs, False, before, 1)
