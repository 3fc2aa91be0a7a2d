"""LCPool and LCPool*."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lcpool.graph.graph import Graph
from lcpool.graph.precision import wide
from lcpool.nn import LCSMP
from lcpool.ops.connect import HOPS, MAX_EDGES
from lcpool.ops.fused_lcpool import LCSMPParameters, score_and_select
from lcpool.ops.topk import KeepPlan, Kept
from lcpool.pool.local import LocalClusterPooling


class LCPooling(LocalClusterPooling):
    r"""LCPool: keep nodes that stand out from their neighbours, and connect them over three hops.

    .. math::
        h = \mathrm{LCSMP}(X, A), \quad \hat{i} = \mathrm{topk}(h), \quad
        X' = (X \odot h)(\hat{i}, :)

        A' = \mathrm{ones}(A + A^\top A + A^2 + A^\top A^2)(\hat{i}, \hat{i})

    Put a convolution before it, or pass one as ``cluster``: that is LCPool*.

    What it costs: the pooled graph has about as many edges as the input. And h is a softmax over
    the nodes of a graph, so features shrink by about 1/n: put a norm after the pooling or pass
    ``rescale=True``.

    Args:
        in_channels: width of the node features.
        ratio: the ratio of kept nodes, a float in (0, 1], or their number, an int.
        min_score: keep the nodes with h above this instead; ``ratio`` is not used then.
        multiplier: factor on the pooled features.
        hidden_channels: width inside LCSMP; ``in_channels`` by default.
        cluster: v, a convolution from ``in_channels`` to ``in_channels`` (LCPool*).
        self_loops: keep the diagonal of A', as in the equation.
        rescale: gate features with n·h in place of h, so that they keep their size.
        edge_fill: keep the attributes of surviving edges, and give this value to new ones. Without
            it ``edge_attr`` is dropped with a warning.
        max_edges: raise an error for a pooled graph with more edges than this.
        hops: connect kept nodes at most this far apart, 1, 2 or 3; 3 is the equation.

    Example:
        >>> pool = LCPooling(16, ratio=0.5)
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> x, edge_index, edge_attr, batch, perm, score = pool(torch.randn(4, 16), path)
        >>> x.shape, edge_index.tolist()
        (torch.Size([2, 16]), [[0, 0, 1, 1], [0, 1, 0, 1]])
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | None = 0.5,
        min_score: float | None = None,
        multiplier: float = 1.0,
        *,
        hidden_channels: int | None = None,
        cluster: Callable[[Tensor, Tensor], Tensor] | None = None,
        self_loops: bool = True,
        rescale: bool = False,
        edge_fill: float | None = None,
        max_edges: int = MAX_EDGES,
        hops: int = HOPS,
    ) -> None:
        score = LCSMP(in_channels, hidden_channels, rescale)
        super().__init__(
            score, cluster, ratio, min_score, multiplier, self_loops, edge_fill, max_edges, hops
        )
        self.in_channels, self.hidden_channels, self.rescale = in_channels, hidden_channels, rescale

    def choose(
        self, X: Tensor, graph: Graph, plan: KeepPlan | None, attn: Tensor | None
    ) -> tuple[Tensor, Tensor, Kept, Tensor | None]:
        parameters = self.fused(graph) if attn is None else None
        if parameters is None or plan is None:
            return super().choose(X, graph, plan, attn)
        assert isinstance(self.score, LCSMP)
        self.score.check(X)
        return score_and_select(X, graph, plan, parameters)

    def fused(self, graph: Graph) -> LCSMPParameters | None:
        """The parameters, where one operator can do scores, softmax, top-k and gate; else None.

        It gates with h, not with n·h (``rescale``), must know how many nodes are kept, and loops
        over the rows of each graph, so these must be sorted. A subclass of LCSMP may compute
        anything; a hook, or a stack of runs, must see each layer. 16 bits are widened first, and
        autocast chooses types itself.
        """
        score, x = self.score, graph.x
        if type(score) is not LCSMP or score.rescale or self.ratio is None or graph.sizes is None:
            return None
        if wide(x) is not x or torch.is_autocast_enabled(x.device.type):
            return None
        return score.plain_parameters()
