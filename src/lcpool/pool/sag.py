"""SAGPool: node selection by a graph convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn import GraphConv

from lcpool.nn import ConvScore
from lcpool.nn.arguments import check_arguments
from lcpool.nn.conv import faster
from lcpool.pool.local import LocalAssignmentPooling
from lcpool.pool.pyg import accept_pyg_state


class SAGPooling(LocalAssignmentPooling):
    r"""Self-attention graph pooling: keep nodes by the output of a graph convolution.

    .. math::
        h = \sigma(\mathrm{GNN}(X, A)), \quad \hat{i} = \mathrm{topk}(h), \quad
        X' = (X \odot h)(\hat{i}, :), \quad A' = A(\hat{i}, \hat{i})

    Takes the arguments of PyG's layer and loads its parameters. PyG multiplies the scores by the
    sign of one more parameter (with ``min_score``, by its value); on loading, the parameters of the
    convolution are multiplied instead, or an error says that they cannot be. In the paper it is
    local assignment selection with f = I (proposition 3).

    Args:
        in_channels: width of the node features.
        ratio: the ratio of kept nodes, a float in (0, 1], or their number, an int.
        GNN: the class of the convolution that scores.
        min_score: keep the nodes with h = softmax(GNN(X, A)) above this instead; ``ratio``
            is not used then.
        multiplier: factor on the pooled features.
        nonlinearity: σ, by name or as a callable.
        **kwargs: further arguments of the convolution.

    Example:
        >>> import torch
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> out = SAGPooling(16, ratio=0.5)(torch.randn(4, 16), path)
        >>> out.x.shape, out.perm.shape
        (torch.Size([2, 16]), torch.Size([2]))
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | None = 0.5,
        GNN: Callable[..., nn.Module] = GraphConv,
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: str | Callable[[Tensor], Tensor] = "tanh",
        **kwargs: Any,
    ) -> None:
        check_arguments(in_channels=in_channels, GNN=GNN)
        conv = faster(GNN)(in_channels, 1, **kwargs)
        score = ConvScore(conv, nonlinearity if min_score is None else "softmax")
        super().__init__(None, score, ratio, min_score, multiplier)
        self.in_channels, self.GNN = in_channels, GNN
        accept_pyg_state(self, {"gnn.": "score.conv."}, absorb="score.conv")

    def __repr__(self) -> str:
        return f"{self.class_name}({self.GNN.__name__}, {self.in_channels}, {self.size_repr()})"
