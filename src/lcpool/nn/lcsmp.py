"""LCSMP: the score of LCPool, learned from a node's features and its differences to neighbours."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from lcpool.graph.graph import Graph, check_channels
from lcpool.graph.precision import wide
from lcpool.nn.arguments import check_arguments
from lcpool.nn.score import Score
from lcpool.ops.fused_lcpool import LCSMPParameters, composed, scores


class LCSMP(Score):
    r"""Local cluster score message passing: how much each node stands out from its neighbours.

    .. math::
        h = \mathrm{softmax}\Big(L_s\Big(
            \mathrm{relu}\big(L_{fd}\big(\textstyle\sum_{k \in N(i)}
            \mathrm{relu}(L_d(x_i - x_k))\big)\big) + \mathrm{relu}(L_x(x_i))\Big)\Big)

    N(i) are the sources of edges into i, repeated edges counted repeatedly; the softmax runs over
    the nodes of each graph. Unlike in the Laplacian score :math:`\sum_k (x_i - x_k)\,w`, the
    differences are transformed before they are added, so opposite ones do not cancel.

    :math:`L_d` is linear: :math:`L_d(x_i - x_k) = (W_d x_i + b_d) - W_d x_k`. It is applied once
    per node, never per edge, and its bias counts once.

    Args:
        in_channels: width of the node features.
        hidden_channels: width of L_d, L_fd and L_x; ``in_channels`` by default.
        rescale: multiply h by the number of nodes of its graph, so that gated features keep their
            size. The paper's h sums to one over a graph and shrinks features by about 1/n.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> h = LCSMP(8)(torch.randn(3, 8), path)
        >>> h.shape, bool(h.sum().isclose(torch.tensor(1.0)))
        (torch.Size([3]), True)
    """

    def __init__(
        self, in_channels: int, hidden_channels: int | None = None, rescale: bool = False
    ) -> None:
        check_arguments(in_channels=in_channels, hidden_channels=hidden_channels, rescale=rescale)
        super().__init__("softmax")
        hidden = in_channels if hidden_channels is None else hidden_channels
        self.in_channels, self.hidden_channels, self.rescale = in_channels, hidden, rescale
        self.lin_d = nn.Linear(in_channels, hidden, bias=False)
        self.bias_d = Bias(hidden, in_channels)
        self.lin_fd = nn.Linear(hidden, hidden)
        self.lin_x = nn.Linear(in_channels, hidden)
        self.lin_s = nn.Linear(hidden, 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in self._layers():
            layer.reset_parameters()

    def values(self, x: Tensor, graph: Graph) -> Tensor:
        self.check(x)
        parameters = self.plain_parameters()
        if parameters is None:
            return composed(x, graph.edges, *self._layers())
        return scores(wide(x), graph.edges, LCSMPParameters(*map(wide, parameters)))

    def check(self, x: Tensor) -> None:
        """Raise unless the features have the width and type of this layer."""
        if x.size(-1) != self.in_channels or x.dtype != self.lin_d.weight.dtype:
            check_channels(self, x)

    def _layers(self) -> list[Any]:
        # Not by nn.Module.__getattr__: it is slow enough that a GPU would wait for it.
        return [self._modules[name] for name in ("lin_d", "bias_d", "lin_fd", "lin_x", "lin_s")]

    def plain_parameters(self) -> LCSMPParameters | None:
        """All parameters; None if a layer was replaced or has hooks, and must be called itself."""
        layers = self._layers()
        if not all(map(is_plain, layers)):
            return None
        d, b, fd, x, s = (layer._parameters for layer in layers)
        return LCSMPParameters(
            d["weight"], b["bias"], fd["weight"], fd["bias"],
            x["weight"], x["bias"], s["weight"], s["bias"],
        )  # fmt: skip

    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        h = super().gate(rank, graph)
        if not self.rescale:
            return h
        counts = graph.node_counts().to(h.dtype)
        return h * (counts if graph.batch is None else counts[graph.batch])

    def __repr__(self) -> str:
        hidden = "" if self.hidden_channels == self.in_channels else f", {self.hidden_channels}"
        rescale = ", rescale=True" if self.rescale else ""
        return f"{self.__class__.__name__}({self.in_channels}{hidden}{rescale})"


class Bias(nn.Module):
    """x + b: the bias of L_d, apart from its matrix, since W_d x_k is subtracted without it.

    The first values of b are drawn as in ``nn.Linear`` with ``fan_in`` input channels.
    """

    def __init__(self, channels: int, fan_in: int) -> None:
        super().__init__()
        self.fan_in = fan_in
        self.bias = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(max(self.fan_in, 1))
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias.to(x.dtype)


def is_plain(layer: nn.Module) -> bool:
    """Whether a layer is a ``Linear`` or ``Bias`` itself, without hooks."""
    before = layer._forward_pre_hooks or layer._backward_pre_hooks
    after = layer._forward_hooks or layer._backward_hooks
    return type(layer) in (nn.Linear, Bias) and not before and not after
