"""LCSMP: the score of LCPool, learned from a node's features and its differences to neighbours."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from lcpool.graph.checks import check_width
from lcpool.graph.graph import Graph, check_channels
from lcpool.graph.precision import wide
from lcpool.nn.leaf import Bias
from lcpool.nn.score import Score
from lcpool.ops.lcsmp import LCSMPParameters, composed, scores


class LCSMP(Score):
    r"""Local cluster score message passing.

    .. math::
        h = \mathrm{softmax}\Big(L_s\Big(
            \mathrm{relu}\big(L_{fd}\big(\textstyle\sum_{k \in N(i)}
            \mathrm{relu}(L_d(x_i - x_k))\big)\big) + \mathrm{relu}(L_x(x_i))\Big)\Big)

    N(i) are the sources of edges into i, an edge that stands twice counting twice; the softmax runs
    over the nodes of each graph. Unlike the Laplacian score :math:`\sum_k (x_i - x_k)\,w`, the
    differences are transformed before they are added, so opposite ones do not cancel.

    :math:`L_d` is linear: :math:`L_d(x_i - x_k) = (W_d x_i + b_d) - W_d x_k`. It is applied to the
    nodes once, never to the edges, and its bias counts once.

    Args:
        in_channels: width of the node features.
        hidden_channels: width of L_d, L_fd and L_x; ``in_channels`` by default.
        rescale: multiply h by the number of nodes of its graph, so that gated features keep their
            size. The paper's h sums to one over a graph and shrinks features by about 1/n.

    Example:
        >>> import torch
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> h = LCSMP(8)(torch.randn(3, 8), path)
        >>> h.shape, bool(h.sum().isclose(torch.tensor(1.0)))
        (torch.Size([3]), True)
    """

    def __init__(
        self, in_channels: int, hidden_channels: int | None = None, rescale: bool = False
    ) -> None:
        super().__init__("softmax")
        self.in_channels = check_width("in_channels", in_channels)
        self.hidden_channels = hidden_channels = check_width(
            "hidden_channels", in_channels if hidden_channels is None else hidden_channels
        )
        self.rescale = rescale
        self.lin_d = nn.Linear(in_channels, hidden_channels, bias=False)
        self.bias_d = Bias(hidden_channels, in_channels)
        self.lin_fd = nn.Linear(hidden_channels, hidden_channels)
        self.lin_x = nn.Linear(in_channels, hidden_channels)
        self.lin_s = nn.Linear(hidden_channels, 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for lin in (self.lin_d, self.bias_d, self.lin_fd, self.lin_x, self.lin_s):
            lin.reset_parameters()

    def values(self, x: Tensor, graph: Graph) -> Tensor:
        """The scores before the softmax."""
        self.check(x)
        parameters = self.plain_parameters()
        if parameters is None:
            return composed(x, graph.edges, *self._layers())
        return scores(wide(x), graph.edges, LCSMPParameters(*map(wide, parameters)))

    def check(self, x: Tensor) -> None:
        """Raise unless features have this layer's width and type."""
        if x.size(-1) != self.in_channels or x.dtype != self.lin_d.weight.dtype:
            check_channels(self, x)

    def _layers(self) -> list[Any]:
        # By name, past nn.Module.__getattr__, which a GPU would wait for.
        return [self._modules[name] for name in ("lin_d", "bias_d", "lin_fd", "lin_x", "lin_s")]

    def plain_parameters(self) -> LCSMPParameters | None:
        """All parameters, if the layers do no more with them than their kind does."""
        layers = self._layers()
        if not all(map(is_plain, layers)):
            return None
        d, b, fd, x, s = (layer._parameters for layer in layers)
        return LCSMPParameters(
            d["weight"], b["bias"], fd["weight"], fd["bias"],
            x["weight"], x["bias"], s["weight"], s["bias"],
        )  # fmt: skip

    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        """Softmax over each graph, times its number of nodes if ``rescale``."""
        h = super().gate(rank, graph)
        if not self.rescale:
            return h
        counts = graph.node_counts().to(h.dtype)
        return h * (counts if graph.batch is None else counts[graph.batch])

    def __repr__(self) -> str:
        hidden = "" if self.hidden_channels == self.in_channels else f", {self.hidden_channels}"
        rescale = ", rescale=True" if self.rescale else ""
        return f"{self.__class__.__name__}({self.in_channels}{hidden}{rescale})"


def is_plain(layer: nn.Module) -> bool:
    """Whether a layer does no more than its kind does: no other class, and no hooks."""
    hooked = (
        layer._forward_hooks
        or layer._forward_pre_hooks
        or layer._backward_hooks
        or layer._backward_pre_hooks
    )
    return type(layer) in (nn.Linear, Bias) and not hooked
