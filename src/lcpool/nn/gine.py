"""GINE: a graph isomorphism network whose messages have edge attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lcpool.graph.edges import Edges, Entries, Neighbours
from lcpool.graph.graph import check_edge_attr
from lcpool.nn.conv import two_layers, weighted_neighbours
from lcpool.ops.message import weighted_sum


class EdgeLinear(nn.Linear):
    """``nn.Linear`` of edge attributes: a row per edge, where other layers have one per node."""


class GINEConv(nn.Module):
    r"""PyG's ``GINEConv`` with ε = 0 and an MLP of two layers, which also takes weights.

    .. math::
        x_i' = \mathrm{MLP}\Bigl(x_i + \sum_j w_{ji} \,
        \mathrm{relu}(x_j + W e_{ji} + b)\Bigr)

    with w = 1 if there are no weights. Without ``edge_dim``, as after a pooling that makes edges of
    its own, :math:`W e_{ji} + b` is left out.

    Args:
        in_channels: width of the input.
        out_channels: width of the hidden layer and of the output.
        norm: the class of the normalisation between the two layers, called with its width.
        edge_dim: width of the edge attributes e, or None.
    """

    takes_edges = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        norm: Callable[[int], nn.Module] = nn.BatchNorm1d,
        edge_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.nn = two_layers(in_channels, out_channels, norm)
        self.lin = None if edge_dim is None else EdgeLinear(edge_dim, in_channels)

    def reset_parameters(self) -> None:
        reset(self.nn)
        reset(self.lin)

    def forward(
        self,
        x: Tensor,
        edge_index: Edges | Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        if (edge_attr is None) != (self.lin is None):
            wanted = "no 'edge_attr'" if self.lin is None else "'edge_attr', a row for each edge"
            raise ValueError(f"{self} takes {wanted}.")
        edges: Any = edge_index
        if not isinstance(edges, Edges):
            edges = Edges(edges, x.size(0), like=x)
            check_edge_attr(edge_attr, edges.index)
        if edge_attr is None or self.lin is None:
            total = weighted_neighbours(x.relu(), edges, edge_weight)
        else:
            messages = (at_sources(x, edges) + self.lin(edge_attr)).relu()
            total = at_targets(messages, edges, edge_weight)
        out: Tensor = self.nn(x + total)
        return out

    def __repr__(self) -> str:
        edge_dim = "" if self.lin is None else f", edge_dim={self.lin.in_features}"
        return f"{type(self).__name__}({self.in_channels}, {self.nn[-1].out_features}{edge_dim})"


def at_sources(x: Tensor, edges: Edges) -> Tensor:
    """x_j for each edge (j, i); gradients are summed in the order of the edges."""
    into = Neighbours(_one_each(edges), edges.index[0].contiguous())
    out = _numbers(edges.entries.out)
    entries = Entries(
        edges.index[0], _numbered(edges), edges.num_nodes, edges.index.size(1), out, into
    )
    return weighted_sum(x, x.new_ones(edges.index.size(1)), entries)


def at_targets(messages: Tensor, edges: Edges, edge_weight: Tensor | None) -> Tensor:
    """Σ_j w_ji m_ji for each node i, over the edges (j, i) into it, in their order."""
    into = _numbers(edges.entries.into)
    out = Neighbours(_one_each(edges), edges.index[1].contiguous())
    entries = Entries(
        _numbered(edges), edges.index[1], edges.index.size(1), edges.num_nodes, out, into
    )
    weight = messages.new_ones(messages.size(0)) if edge_weight is None else edge_weight
    return weighted_sum(messages, weight, entries)


def _numbered(edges: Edges) -> Tensor:
    return torch.arange(edges.index.size(1), device=edges.index.device)


def _one_each(edges: Edges) -> Tensor:
    """Where each row begins, if every edge is a row."""
    return torch.arange(edges.index.size(1) + 1, device=edges.index.device)


def _numbers(rows: Neighbours) -> Neighbours:
    """The same rows with the number of each edge in place of a node."""
    entry = rows.entry
    if entry is None:
        entry = torch.arange(rows.node.numel(), device=rows.node.device)
    return Neighbours(rows.ptr, entry, entry)
