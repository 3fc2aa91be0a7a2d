"""DiffPool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from lcpool.graph.dense import DenseAssignment
from lcpool.graph.graph import Graph
from lcpool.nn.arguments import check_arguments
from lcpool.nn.conv import faster
from lcpool.ops.dense import graph_sum, safe_div, safe_sqrt, squared_norm
from lcpool.pool.dense import DenseAssignmentPooling


class DiffPooling(DenseAssignmentPooling):
    r"""Differentiable pooling: a convolution assigns nodes to k clusters.

    .. math::
        S = \mathrm{softmax}(\mathrm{GNN}(X, A)), \quad X' = S^\top X, \quad A' = S^\top A S

    The losses, each averaged over the graphs with nodes, where n is the number of nodes:

    .. math::
        L_{link} = \lVert A - SS^\top \rVert_F / n^2, \quad L_{entropy} = \sum_i H(S_i) / n

    The link loss needs no n × n matrix:

    .. math::
        \lVert A - SS^\top \rVert^2 = \lVert A \rVert^2 - 2\,\mathrm{tr}(S^\top A S) +
        \lVert S^\top S \rVert^2

    For one graph they are PyG's; for a batch, PyG takes one norm over all graphs and their padding.

    Args:
        in_channels: width of the node features.
        num_clusters: k, the number of nodes of every pooled graph.
        GNN: class of the convolution that assigns.
        normalize: divide the link loss by n².
        **kwargs: further arguments of the convolution.

    Example:
        >>> import torch
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> out = DiffPooling(16, num_clusters=3)(torch.randn(4, 16), path)
        >>> out.x.shape, sorted(out.losses)
        (torch.Size([3, 16]), ['entropy', 'link'])
    """

    loss_weights: ClassVar[Mapping[str, float]] = {"link": 0.1, "entropy": 0.1}

    def __init__(
        self,
        in_channels: int,
        num_clusters: int,
        GNN: Callable[..., nn.Module] = GCNConv,
        normalize: bool = True,
        **kwargs: Any,
    ) -> None:
        check_arguments(
            in_channels=in_channels, num_clusters=num_clusters, GNN=GNN, normalize=normalize
        )
        super().__init__(faster(GNN)(in_channels, num_clusters, **kwargs), num_clusters)
        self.in_channels = in_channels
        self.normalized = normalize

    def dense_losses(
        self, graph: Graph, weight: Tensor | None, S: DenseAssignment, A: Tensor
    ) -> dict[str, Tensor]:
        n = graph.node_counts().to(A.dtype)
        trace = A.diagonal(dim1=1, dim2=2).sum(-1)
        gram = S.blocks(S.value)
        # Three large numbers that nearly cancel: add them in double.
        square = squared_norm(graph, weight, A.dtype).double() - 2 * trace.double()
        square = square + gram.double().square().sum((1, 2))
        link = safe_sqrt(square).to(A.dtype)
        if self.normalized:
            link = safe_div(link, n.square())
        # As in PyG, 1e-15 keeps the gradient finite where the softmax has underflowed to 0.
        entropy = -(S.value * (S.value + 1e-15).log()).sum(-1)
        return {"link": link, "entropy": safe_div(graph_sum(entropy, graph), n)}
