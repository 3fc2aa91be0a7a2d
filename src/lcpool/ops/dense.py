"""Sums over edges and graphs for dense poolings, and division and roots that are safe at 0."""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.bounded import BoundedEdges, real_rows
from lcpool.graph.capture import NotCapturableError
from lcpool.graph.graph import Graph
from lcpool.ops import message


def target_sum(S: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    """AS: for each node the sum of S over the targets of its edges."""
    if weight is None:
        return message.neighbour_sum(S, graph.edges.reversed)
    return message.weighted_sum(S, weight, graph.edges.entries.reversed)


def degrees(graph: Graph, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The sum of the weights of the edges out of each node."""
    if weight is None:
        return graph.edges.out.ptr.diff().to(dtype)
    source = graph.edge_index[0]
    total = torch.zeros(graph.num_nodes, dtype=dtype, device=source.device)
    return total.index_add(0, source, weight.to(dtype))


def graph_sum(values: Tensor, graph: Graph) -> Tensor:
    """The sum of one value per node over the nodes of each graph, ``[batch_size]``."""
    total, values = values.new_zeros(graph.batch_size), real_rows(values, graph.sizes)
    return total.index_add(0, graph.batch_vector(), values)


def squared_norm(graph: Graph, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """‖A‖²_F of each graph; duplicate edges are added."""
    if isinstance(graph.edges, BoundedEdges):
        if weight is not None:
            raise NotCapturableError("its loss sums the squares of edge weights")
        return count_edges(graph.edges, graph).to(dtype)
    (source, target), num_nodes = graph.edge_index, graph.num_nodes
    keys, order = (source * num_nodes + target).sort(stable=True)
    weight = torch.ones(keys.shape, dtype=dtype, device=keys.device) if weight is None else weight
    first = torch.ones_like(keys)
    first[1:] = keys.diff().ne(0)
    entry = first.cumsum(0) - 1  # the position in A that each edge belongs to
    values = weight.new_zeros(keys.numel()).index_add(0, entry, weight[order])
    owner = torch.zeros_like(keys).index_copy_(0, entry, source[order])
    totals = weight.new_zeros(graph.batch_size)
    return totals.index_add(0, graph.batch_vector()[owner], values * values)


def count_edges(edges: BoundedEdges, graph: Graph) -> Tensor:
    """The number of edges of each graph, none of which may occur twice."""
    if not edges.distinct:
        raise NotCapturableError("its loss must find edges that occur twice")
    assert graph.sizes is not None
    return edges.out.ptr[graph.sizes.ptr].diff()


def degree_normalized(A: Tensor) -> Tensor:
    """Each graph's A without its diagonal, divided by the square roots of the degrees."""
    A = A * (1 - torch.eye(A.size(-1), dtype=A.dtype, device=A.device))
    root = safe_sqrt(A.sum(-1)).unsqueeze(1)
    return safe_div(safe_div(A, root.expand_as(A)), root.mT.expand_as(A))


def safe_sqrt(x: Tensor) -> Tensor:
    """√x with gradient 0, not infinity, at x = 0; rounding below 0 counts as 0."""
    positive = x > 0
    return x.where(positive, 1.0).sqrt().where(positive, 0.0)


def safe_div(x: Tensor, y: Tensor) -> Tensor:
    """The quotient x / y, and 0 with gradient 0 where y = 0."""
    zero = y == 0
    return (x / y.masked_fill(zero, 1.0)).masked_fill(zero, 0.0)
