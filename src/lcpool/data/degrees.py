"""Degrees as features of graphs that have none, in as many columns as a network was trained on."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lcpool.data.gather import MAX_DEGREE
from lcpool.data.graphset import GraphSet


def features_are_degrees(graphs: GraphSet) -> bool:
    """Whether the node features are the degrees, one-hot: the graphs came without any."""
    degree, num_nodes = degrees(graphs), graphs.x.size(0)
    if not num_nodes:
        return True
    if int(degree.max()) >= graphs.num_features:
        return False
    at_degree = graphs.x.gather(1, degree.unsqueeze(-1))
    return bool((at_degree == 1).all()) and int(graphs.x.count_nonzero()) == num_nodes


def with_degrees(graphs: GraphSet, width: int) -> GraphSet:
    """The graphs with their degrees one-hot in ``width`` columns, the last for all above it."""
    columns = degrees(graphs).clamp(max=width - 1)
    return replace(graphs, x=torch.nn.functional.one_hot(columns, width).float())


def degrees(graphs: GraphSet) -> Tensor:
    """The number of edges out of each node, at most :data:`MAX_DEGREE`."""
    return graphs.edge_index[0].bincount(minlength=graphs.x.size(0)).clamp(max=MAX_DEGREE)
