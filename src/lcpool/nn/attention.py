"""f of ASAP: attention over the local clusters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lcpool.graph.assignment import Assignment
from lcpool.graph.edges import Edges
from lcpool.graph.graph import check_attributes, check_channels
from lcpool.graph.graph import edge_weight as one_weight
from lcpool.graph.precision import wide
from lcpool.nn.arguments import arguments_repr, check_arguments
from lcpool.nn.conv import edges_for
from lcpool.ops.message import entry_dot, neighbour_max
from lcpool.ops.readout import softmax


class ClusterAttention(nn.Module):
    r"""The assignment f of ASAP, by attention (Master2Token).

    For every edge (i, j), how much node i contributes to the cluster of node j; the weights of each
    cluster sum to one.

    .. math::
        m_j = \max_{i \in N(j)} x_i, \quad
        s_{ij} = \mathrm{softmax}_i\big(\mathrm{LeakyReLU}(a^\top [W m_j \,\Vert\, x_i])\big)

    Add self-loops first, as :class:`~lcpool.ASAPooling` does, or a node has no part in its own
    cluster. The two halves of a are applied per node, so nothing of width 2F is made per edge.

    Args:
        in_channels: width of the node features.
        conv: a convolution that refines the features before attention.
        dropout: share of the coefficients dropped in training.
        negative_slope: slope of the LeakyReLU below zero.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 0, 1, 2], [1, 0, 0, 1, 2]])  # with self-loops
        >>> S = ClusterAttention(16)(torch.randn(3, 16), edge_index, None)
        >>> S.to_dense().sum(0).allclose(torch.ones(3))
        True
    """

    def __init__(
        self,
        in_channels: int,
        conv: Callable[..., Tensor] | None = None,
        dropout: float = 0.0,
        negative_slope: float = 0.2,
    ) -> None:
        check_arguments(
            in_channels=in_channels, conv=conv, dropout=dropout, negative_slope=negative_slope
        )
        super().__init__()
        self.in_channels, self.dropout, self.negative_slope = in_channels, dropout, negative_slope
        self.lin = nn.Linear(in_channels, in_channels)
        self.att_master = nn.Linear(in_channels, 1)
        self.att_node = nn.Linear(in_channels, 1, bias=False)
        self.conv: Any = conv
        self.reset_parameters()

    @property
    def takes_edges(self) -> bool:
        """Whether ``edge_index`` may be :class:`Edges`; a subclass may not expect them."""
        return type(self).forward is ClusterAttention.forward

    def reset_parameters(self) -> None:
        reset(self.lin)
        reset(self.conv)
        # The halves of one layer of width 2F start as that layer would.
        bound = 1 / math.sqrt(2 * self.in_channels)
        for half in (*self.att_master.parameters(), *self.att_node.parameters()):
            nn.init.uniform_(half, -bound, bound)

    def forward(
        self, x: Tensor, edge_index: Tensor | Edges, edge_weight: Tensor | None
    ) -> Assignment:
        """S, with an entry per edge, sorted by cluster."""
        check_channels(self, x)
        edges = edge_index
        if not isinstance(edges, Edges):
            edges = Edges(edges, x.size(0), like=x)
        if edge_weight is not None:
            check_attributes(edge_weight, edges.room, x)
        edge_weight = one_weight(edge_weight, x.dtype)
        if self.conv is not None:
            edge_index = edges_for(self.conv, edges)
            x = self.conv(x=x, edge_index=edge_index, edge_weight=edge_weight)
        entries = edges.by_target
        query = wide(self.att_master(self.lin(neighbour_max(x, edges))))
        key, one = wide(self.att_node(x)), torch.ones_like(query)
        # q_j + k_i as (q_j, 1) · (1, k_i): its gradients are deterministic.
        ends = torch.cat([query, one], dim=-1), torch.cat([one, key], dim=-1)
        logits = entry_dot(*ends, entries)
        value = softmax(F.leaky_relu(logits, self.negative_slope), edges.into.ptr).to(x.dtype)
        value = F.dropout(value, p=self.dropout, training=self.training)
        return Assignment.of_entries(entries, value)

    __repr__ = arguments_repr
