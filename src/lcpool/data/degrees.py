"""Degrees as node features, for graphs that have no features."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lcpool.data.graphset import GraphSet

# Nodes with more neighbours than this share the last degree feature: hubs of social networks have
# thousands, and a column for each would hold almost nothing.
MAX_DEGREE = 127


def degree_features(edge_index: Tensor, num_nodes: int, width: int | None = None) -> Tensor:
    """The number of edges out of each node, one-hot, ``[num_nodes, width]``.

    The last column is for all larger degrees. By default there are as many columns as are needed,
    for degrees up to :data:`MAX_DEGREE`.
    """
    degree = _degrees(edge_index, num_nodes)
    if width is None:
        width = int(degree.max()) + 1 if num_nodes else 1
    return torch.nn.functional.one_hot(degree.clamp(max=width - 1), width).float()


def features_are_degrees(graphs: GraphSet) -> bool:
    """Whether the node features are the degrees, one-hot: the graphs came without features."""
    num_nodes = graphs.x.size(0)
    degree = _degrees(graphs.edge_index, num_nodes)
    if not num_nodes:
        return True
    if int(degree.max()) >= graphs.num_features:
        return False
    at_degree = graphs.x.gather(1, degree.unsqueeze(-1))
    return bool((at_degree == 1).all()) and int(graphs.x.count_nonzero()) == num_nodes


def with_degrees(graphs: GraphSet, width: int) -> GraphSet:
    """The graphs with ``width`` columns of :func:`degree_features`."""
    return replace(graphs, x=degree_features(graphs.edge_index, graphs.x.size(0), width))


def _degrees(edge_index: Tensor, num_nodes: int) -> Tensor:
    return edge_index[0].bincount(minlength=num_nodes).clamp(max=MAX_DEGREE)
