"""f of ASAP: attention over the local clusters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn.inits import reset
from torch_geometric.utils import softmax

from lcpool.ops.assignment import Assignment


class ClusterAttention(nn.Module):
    r"""Master2Token attention: how much node i contributes to the cluster of node j.

    .. math::
        m_j = \max_{i \in N(j)} x_i, \quad
        s_{ij} = \mathrm{softmax}_i\big(\mathrm{LeakyReLU}(a^\top [W m_j \,\Vert\, x_i])\big)

    over the edges (i, j) it is given; self-loops are the caller's to add. The attention vector
    meets the two halves separately, node by node, so nothing of width 2F is made per edge.

    Args:
        in_channels: width of the node features.
        conv: a convolution that refines the features before attention looks at them.
        dropout: share of the coefficients dropped in training.
        negative_slope: slope of the LeakyReLU below zero.
    """

    def __init__(
        self,
        in_channels: int,
        conv: Callable[..., Tensor] | None = None,
        dropout: float = 0.0,
        negative_slope: float = 0.2,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.dropout = dropout
        self.negative_slope = negative_slope
        self.lin = nn.Linear(in_channels, in_channels)
        self.att_master = nn.Linear(in_channels, 1)
        self.att_node = nn.Linear(in_channels, 1, bias=False)
        self.conv: Any = conv
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        reset(self.lin)
        reset(self.conv)
        # The halves of one layer of width 2F start as that layer would.
        bound = 1 / math.sqrt(2 * self.in_channels)
        for half in (*self.att_master.parameters(), *self.att_node.parameters()):
            nn.init.uniform_(half, -bound, bound)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Assignment:
        """S, on the pattern of ``edge_index``."""
        node, cluster = edge_index
        num_nodes = x.size(0)
        if self.conv is not None:
            x = self.conv(x=x, edge_index=edge_index, edge_weight=edge_weight)
        index, rows = cluster.unsqueeze(-1).expand(-1, x.size(-1)), x.index_select(0, node)
        master = torch.zeros_like(x).scatter_reduce(0, index, rows, "amax", include_self=False)
        query, key = self.att_master(self.lin(master)), self.att_node(x)
        logits = (query.index_select(0, cluster) + key.index_select(0, node)).view(-1)
        value = softmax(F.leaky_relu(logits, self.negative_slope), cluster, num_nodes=num_nodes)
        value = F.dropout(value, p=self.dropout, training=self.training)
        return Assignment(node, cluster, value, num_nodes, num_nodes)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.in_channels})"
