"""DMoN."""

from __future__ import annotations

import math

from torch import Tensor, nn

from lcpool.graph.dense import DenseAssignment
from lcpool.graph.graph import Graph
from lcpool.nn.arguments import check_arguments
from lcpool.ops.dense import degree_normalized, degrees, graph_sum, safe_div, safe_sqrt
from lcpool.pool.dense import DenseAssignmentPooling


class DMoNPooling(DenseAssignmentPooling):
    r"""Deep modularity networks: a linear layer assigns nodes to k clusters of high modularity.

    .. math::
        S = \mathrm{softmax}(L(X)), \quad X' = S^\top X

        A' = \hat{D}^{-1/2} \hat{A} \hat{D}^{-1/2}, \quad
        \hat{A} = S^\top A S - \mathrm{diag}(S^\top A S)

    The losses, each averaged over the graphs with nodes:

    .. math::
        L_{spectral} = -\frac{1}{2m}
        \mathrm{tr}\Big(S^\top \Big(A - \frac{d d^\top}{2m}\Big) S\Big), \quad
        L_{cluster} = \frac{\sqrt{k}}{n} \Big\lVert \sum_i s_i \Big\rVert - 1

    with degrees d and :math:`2m = \sum_i d_i`. The trace is
    :math:`\mathrm{tr}(S^\top A S) - \lVert S^\top d \rVert^2 / 2m`, which needs no n × n matrix.
    Each graph has its own m, n and means; the spectral loss of a graph without edges is 0 (NaN in
    PyG). PyG also applies SELU to X' and returns MinCut's orthogonality loss, which the paper does
    not have.

    From `Tsitsulin et al. 2023 <https://arxiv.org/abs/2006.16904>`_, "Graph Clustering with Graph
    Neural Networks".

    Args:
        in_channels: width of the node features.
        num_clusters: k, the number of nodes of every pooled graph.

    Example:
        >>> import torch
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> out = DMoNPooling(16, num_clusters=3)(torch.randn(4, 16), path)
        >>> out.x.shape, sorted(out.losses)
        (torch.Size([3, 16]), ['cluster', 'spectral'])
    """

    def __init__(self, in_channels: int, num_clusters: int) -> None:
        check_arguments(in_channels=in_channels, num_clusters=num_clusters)
        super().__init__(nn.Linear(in_channels, num_clusters), num_clusters)
        self.in_channels = in_channels

    def logits(self, graph: Graph, weight: Tensor | None) -> Tensor:
        values: Tensor = self.assign(graph.x)
        return values

    def dense_losses(
        self, graph: Graph, weight: Tensor | None, S: DenseAssignment, A: Tensor
    ) -> dict[str, Tensor]:
        degree = degrees(graph, weight, A.dtype)
        volume = graph_sum(degree, graph)  # 2m
        of_cluster = S.blocks(degree.unsqueeze(-1)).square().sum((1, 2))
        trace = A.diagonal(dim1=1, dim2=2).sum(-1) - safe_div(of_cluster, volume)
        size = safe_sqrt(S.blocks(S.value.new_ones(graph.num_nodes, 1)).square().sum((1, 2)))
        n = graph.node_counts().to(A.dtype)
        cluster = safe_div(math.sqrt(self.num_clusters) * size, n) - 1
        return {"spectral": -safe_div(trace, volume), "cluster": cluster}

    def normalize(self, A: Tensor) -> Tensor:
        return degree_normalized(A)
