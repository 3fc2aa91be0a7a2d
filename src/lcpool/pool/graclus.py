"""Graclus: a matching of neighbours that the normalised cut would least like to part."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from lcpool.graph.graph import Graph, edge_weight
from lcpool.graph.precision import wide
from lcpool.graph.sizes import inverse
from lcpool.ops.dense import safe_div
from lcpool.ops.matching import matching
from lcpool.ops.message import weighted_sum
from lcpool.pool.partition import Partition, PartitionPooling, by_graph, ends, falling, pair_centres


class GraclusPooling(PartitionPooling):
    r"""Graclus: pairs of neighbours become one node, those of the largest weight first.

    .. math::
        c_{ij} = w_{ij} \Big(\frac{1}{d_i} + \frac{1}{d_j}\Big), \quad
        d_i = \sum_j (w_{ij} + w_{ji}), \quad x'_{\{i, j\}} = x_i + x_j

    Edges are taken by falling :math:`c_{ij}`; one is contracted unless an end is part of a
    contracted edge already. There are no parameters, and the features have no part in it. Edge
    weights, if any, must have one column and should not be negative. Each of several edges between
    two nodes counts for itself.

    The same graph always gives the same result; the original visits nodes in random order and
    matches each with its best free neighbour. Ties, of which unweighted graphs have many, are
    broken by a fixed hash of the two nodes' numbers in their graph. By number alone, a GPU would
    need as many rounds as a path is long. Renumbering the nodes may therefore give another, equally
    good matching.

    From `Dhillon, Guan and Kulis 2007 <https://doi.org/10.1109/TPAMI.2007.1115>`_, "Weighted Graph
    Cuts without Eigenvectors"; as a pooling from `Defferrard et al. 2016
    <https://arxiv.org/abs/1606.09375>`_.

    Args:
        in_channels: width of the node features.
        edge_reduce: how the weights of edges that become one are reduced: ``"sum"``, ``"mean"`` or
            ``"max"``.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> GraclusPooling(1)(torch.ones(4, 1), path).x.tolist()  # ends have fewer neighbours
        [[2.0], [2.0]]
    """

    keeps_edge_attr = False  # the matching reads one weight per edge
    expressive: ClassVar[bool] = True
    cost: ClassVar[str] = "n + m log m"

    def select(self, graph: Graph) -> Partition:
        order, entries = falling(cut_weights(graph), shuffled(graph)), graph.edges.entries
        edge = matching(order, entries, graph.sizes_or_one())
        centre = pair_centres(edge, *ends(graph.edges, entries))
        return Partition.of_centres(graph, centre, named=False)


def cut_weights(graph: Graph) -> Tensor:
    """c of each edge."""
    entries = graph.edges.entries
    source, target = ends(graph.edges, entries)
    weight = edge_weight(graph.edge_attr, graph.x.dtype)
    one = torch.ones(graph.num_nodes, 1, device=source.device, dtype=wide(graph.x).dtype)
    if weight is None:
        weight = one.new_ones(source.numel())
    weight = wide(weight.detach())
    degree = weighted_sum(one, weight, entries) + weighted_sum(one, weight, entries.reversed)
    inverse = safe_div(one, degree).view(-1)
    return weight * (inverse[source] + inverse[target])


def shuffled(graph: Graph) -> Tensor:
    """A number for each edge that looks random and depends on the places of its ends alone."""
    counts = graph.node_counts()
    # Within its graph.
    place = inverse(by_graph(graph)) - (counts.cumsum(0) - counts)[graph.batch_vector()]
    source, target = (place[end] for end in ends(graph.edges, graph.edges.entries))
    key = source.minimum(target) * 0x9E3779B1 + source.maximum(target) * 0x85EBCA77
    for factor in (0x2C1B3C6D, 0x297A2D39):  # multiply and mix, in 31 bits
        key = key & 0x7FFFFFFF
        key = (key ^ (key >> 15)) * factor
    key = key & 0x7FFFFFFF
    mixed: Tensor = key ^ (key >> 15)
    return mixed
