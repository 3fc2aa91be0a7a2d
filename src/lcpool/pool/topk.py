"""TopKPool: node selection by a learned projection."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from lcpool.nn import ProjectionScore
from lcpool.pool.local import LocalAssignmentPooling
from lcpool.pool.pyg import accept_pyg_state


class TopKPooling(LocalAssignmentPooling):
    r"""Top-k pooling ("Graph U-Nets"): keep nodes by a learned projection of their features.

    .. math::
        h = \sigma(Xp / \lVert p \rVert), \quad \hat{i} = \mathrm{topk}(h), \quad
        X' = (X \odot h)(\hat{i}, :), \quad A' = A(\hat{i}, \hat{i})

    Takes the arguments of PyG's layer and loads its parameters. In the paper it is local assignment
    selection with f = I (proposition 3).

    Args:
        in_channels: width of the node features.
        ratio: the ratio of kept nodes, a float in (0, 1], or their number, an int.
        min_score: keep the nodes with h = softmax(Xp) above this instead; ``ratio`` is
            not used then.
        multiplier: factor on the pooled features.
        nonlinearity: σ, by name or as a callable.

    Example:
        >>> import torch
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> out = TopKPooling(16, ratio=0.5)(torch.randn(4, 16), path)
        >>> out.x.shape, out.perm.shape
        (torch.Size([2, 16]), torch.Size([2]))
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | None = 0.5,
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: str | Callable[[Tensor], Tensor] = "tanh",
    ) -> None:
        score = ProjectionScore(in_channels, nonlinearity if min_score is None else "softmax")
        super().__init__(None, score, ratio, min_score, multiplier)
        self.in_channels = in_channels
        accept_pyg_state(self, {"select.weight": "score.project.weight"})

    def __repr__(self) -> str:
        return f"{self.class_name}({self.in_channels}, {self.size_repr()})"
