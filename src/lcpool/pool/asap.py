"""ASAPool: local assignment selection with attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lcpool.graph.assignment import nonzero
from lcpool.graph.bounded import Bounded, BoundedEdges
from lcpool.graph.capture import NotCapturableError
from lcpool.graph.edges import Edges, loop_weights
from lcpool.graph.graph import Graph, edge_weight
from lcpool.nn import ClusterAttention, ConvScore
from lcpool.nn.arguments import check_arguments
from lcpool.nn.conv import FastLEConv, faster
from lcpool.ops.connect import MAX_EDGES
from lcpool.pool.local import LocalAssignmentPooling
from lcpool.pool.output import Pooled
from lcpool.pool.pyg import accept_pyg_state


class ASAPooling(LocalAssignmentPooling):
    r"""Adaptive structure aware pooling: attention assigns, a local-extremum convolution scores.

    .. math::
        S = \mathrm{attention}(X, A + I), \quad h = \sigma(\mathrm{LEConv}(S^\top X, A + I))

        \hat{i} = \mathrm{topk}(h), \quad X' = (S^\top X \odot h)(\hat{i}, :), \quad
        A' = {S'}^\top (A + I) S'

    without the diagonal of A'. A call adds I to A; if you call ``select`` and ``connect``
    yourself, pass the graph of A + I (``with_self_loops``).

    Takes the arguments of PyG's layer and loads its parameters, with three differences: A' has
    weights also when the input has none, gradients flow through them, and always the clusters of
    *highest* fitness are kept (PyG multiplies the fitness by the sign of a random number).

    Args:
        in_channels: width of the node features.
        ratio: the ratio of kept nodes, a float in (0, 1], or their number, an int.
        GNN: class of a convolution that refines the features before attention.
        dropout: share of the attention coefficients dropped in training.
        negative_slope: slope of the LeakyReLU below zero.
        add_self_loops: keep the diagonal of A'.
        max_edges: raise an error for a pooled graph with more edges than this.
        **kwargs: further arguments of the convolution.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> out = ASAPooling(16, ratio=0.5)(torch.randn(4, 16), path)
        >>> out.x.shape, out.edge_attr.requires_grad
        (torch.Size([2, 16]), True)
    """

    cost: ClassVar[str] = "n log n + m d²"

    def __init__(
        self,
        in_channels: int,
        ratio: float = 0.5,
        GNN: Callable[..., nn.Module] | None = None,
        dropout: float = 0.0,
        negative_slope: float = 0.2,
        add_self_loops: bool = False,
        max_edges: int = MAX_EDGES,
        **kwargs: Any,
    ) -> None:
        check_arguments(in_channels=in_channels, add_self_loops=add_self_loops)
        if GNN is not None:
            check_arguments(GNN=GNN)
        elif kwargs:
            raise TypeError(f"unknown arguments {sorted(kwargs)}: only a 'GNN' takes more.")
        conv = None if GNN is None else faster(GNN)(in_channels, in_channels, **kwargs)
        super().__init__(
            ClusterAttention(in_channels, conv, dropout, negative_slope),
            ConvScore(FastLEConv(in_channels, 1), "sigmoid"),
            ratio,
            self_loops=add_self_loops,
            max_edges=max_edges,
        )
        self.in_channels = in_channels
        names = {"gnn_score.": "score.conv.", "gnn_intra_cluster.": "assign.conv."}
        names |= {"lin.": "assign.lin.", "att.bias": "assign.att_master.bias"}
        accept_pyg_state(
            self, names, halves={"att.weight": ("assign.att_master", "assign.att_node")}
        )

    def forward(
        self,
        x: Tensor | Graph,
        edge_index: Tensor | Graph | None = None,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        attn: Tensor | None = None,
        *,
        batch_size: int | None = None,
    ) -> Pooled:
        """Pool a batch of graphs, as :class:`ScoredPooling` does; weights are named as in PyG."""
        graph = self.check(x, edge_index, edge_weight, batch, batch_size)
        return super().forward(with_self_loops(graph), attn=attn)


def with_self_loops(graph: Graph) -> Graph:
    """The graph of A + I: each node gets a self-loop of weight 1 unless it has one."""
    if isinstance(graph.edges, BoundedEdges):
        if graph.edge_attr is not None:
            raise NotCapturableError("its edges have weights, with which self-loops are not added")
        from lcpool.ops.connect.bounded_product import plus_identity

        assert isinstance(graph.sizes, Bounded)
        return replace(graph, edges=plus_identity(graph.edges, graph.sizes))
    index, weight = graph.edge_index, edge_weight(graph.edge_attr, graph.x.dtype)
    others = nonzero(index[0] != index[1], graph.checks)
    nodes = torch.arange(graph.num_nodes, device=index.device)
    if weight is not None:
        own = loop_weights(index, weight, graph.num_nodes)
        weight = torch.cat([weight.index_select(0, others), own])
    index = torch.cat([index.index_select(1, others), nodes.expand(2, -1)], dim=1)
    edges = Edges.trusted(index, graph.num_nodes, graph.edges.symmetric)
    return replace(graph, edges=edges, edge_attr=weight)
