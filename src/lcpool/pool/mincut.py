"""MinCutPool."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from lcpool.graph.dense import DenseAssignment
from lcpool.graph.graph import Graph
from lcpool.nn.arguments import check_arguments
from lcpool.ops.dense import degree_normalized, degrees, graph_sum, safe_div, safe_sqrt
from lcpool.pool.dense import DenseAssignmentPooling


class MinCutPooling(DenseAssignmentPooling):
    r"""MinCut pooling: a linear layer assigns nodes to k clusters that cut few edges.

    .. math::
        S = \mathrm{softmax}(L(X) / t), \quad X' = S^\top X

        A' = \hat{D}^{-1/2} \hat{A} \hat{D}^{-1/2}, \quad
        \hat{A} = S^\top A S - \mathrm{diag}(S^\top A S)

    The losses, each averaged over the graphs with nodes:

    .. math::
        L_{cut} = -\frac{\mathrm{tr}(S^\top A S)}{\mathrm{tr}(S^\top D S)}, \quad
        L_{ortho} = \Big\lVert \frac{S^\top S}{\lVert S^\top S \rVert_F} -
        \frac{I_k}{\sqrt{k}} \Big\rVert_F

    with :math:`\mathrm{tr}(S^\top D S) = \sum_i d_i \lVert s_i \rVert^2`. The cut loss of
    a graph without edges is 0 (NaN in PyG).

    Args:
        in_channels: width of the node features.
        num_clusters: k, the number of nodes of every pooled graph.
        temp: temperature of the softmax.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> out = MinCutPooling(16, num_clusters=3)(torch.randn(4, 16), path)
        >>> out.x.shape, sorted(out.losses)
        (torch.Size([3, 16]), ['cut', 'ortho'])
    """

    loss_weights: ClassVar[Mapping[str, float]] = {"cut": 0.5, "ortho": 1.0}

    def __init__(self, in_channels: int, num_clusters: int, temp: float = 1.0) -> None:
        check_arguments(in_channels=in_channels, num_clusters=num_clusters, temp=temp)
        super().__init__(nn.Linear(in_channels, num_clusters), num_clusters)
        self.in_channels, self.temp = in_channels, temp

    def logits(self, graph: Graph, weight: Tensor | None) -> Tensor:
        values: Tensor = self.assign(graph.x)
        return values / self.temp

    def dense_losses(
        self, graph: Graph, weight: Tensor | None, S: DenseAssignment, A: Tensor
    ) -> dict[str, Tensor]:
        degree = degrees(graph, weight, A.dtype)
        volume = graph_sum(degree * S.value.square().sum(-1), graph)
        cut = -safe_div(A.diagonal(dim1=1, dim2=2).sum(-1), volume)
        gram = S.blocks(S.value)
        k = self.num_clusters
        norm = safe_sqrt(gram.square().sum((1, 2))).view(-1, 1, 1)
        uniform = torch.eye(k, dtype=gram.dtype, device=gram.device) / math.sqrt(k)
        ortho = safe_sqrt((safe_div(gram, norm.expand_as(gram)) - uniform).square().sum((1, 2)))
        return {"cut": cut, "ortho": ortho}

    def normalize(self, A: Tensor) -> Tensor:
        return degree_normalized(A)
