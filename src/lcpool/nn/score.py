"""g: the score functions that rank nodes and gate their features."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from lcpool.graph.graph import Graph, check_channels
from lcpool.graph.precision import wide
from lcpool.nn.arguments import arguments_repr, check_arguments
from lcpool.nn.conv import convolve
from lcpool.ops.readout import graph_softmax

# Strictly increasing: their input orders nodes as their output does, without ties by saturation.
INCREASING = (torch.tanh, torch.sigmoid, nn.functional.tanh, nn.functional.sigmoid)
INCREASING_MODULES = (nn.Tanh, nn.Sigmoid)
# What a score function gets if it names it as an argument.
GIVEN = ("edge_attr", "batch", "batch_size")


class Score(nn.Module):
    r"""A score :math:`h = g(X, A)` in two steps: values that rank the nodes, and their gate h.

    Top-k takes the values *before* a saturating nonlinearity. The order is the same, but small
    probabilities would underflow and large scores would round to 1, and such ties lose the order.

    Args:
        nonlinearity: ``"softmax"`` (over the nodes of each graph), the name of an activation, a
            callable, or None for the values as they are.
    """

    def __init__(self, nonlinearity: str | Callable[[Tensor], Tensor] | None = None) -> None:
        check_arguments(nonlinearity=nonlinearity)
        super().__init__()
        self.over_graph = nonlinearity == "softmax"
        plain = nonlinearity is None or self.over_graph
        self.act: Any = None if plain else activation_resolver(nonlinearity)
        self.increasing = (
            plain or self.act in INCREASING or isinstance(self.act, INCREASING_MODULES)
        )

    def values(self, x: Tensor, graph: Graph) -> Tensor:
        """The scores before the nonlinearity, ``[num_nodes]`` or ``[num_nodes, 1]``.

        Args:
            x: the features to score, not necessarily those of the graph.
            graph: has ``edge_index``, ``edge_attr`` and ``batch_vector()``.
        """
        raise NotImplementedError

    def rank(self, x: Tensor, graph: Graph) -> Tensor:
        """What top-k orders nodes by, ``[num_nodes]``, in the precision of the parameters.

        Also under autocast: in 16 bits, nodes that differ would tie.
        """
        if torch.is_autocast_enabled(x.device.type):
            with torch.autocast(x.device.type, enabled=False):
                return self.rank(x.to(next(self.parameters(), wide(x)).dtype), graph)
        values = self.values(x, graph)
        if values.numel() != x.size(0):
            raise ValueError(
                f"a score function must give one score per node: expected shape [{x.size(0)}] or "
                f"[{x.size(0)}, 1], got {list(values.shape)}."
            )
        values = values.reshape(-1)
        return values if self.increasing else self.act(values)

    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        """h, which multiplies the features, from what :meth:`rank` returned."""
        if self.over_graph:
            return graph_softmax(rank, graph)
        return self.act(rank) if self.act is not None and self.increasing else rank

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """The scores h of all nodes, ``[num_nodes]``."""
        graph = Graph.of(x, edge_index, None, batch, batch_size, size_follows=False)
        return self.gate(self.rank(graph.x, graph), graph)


class ProjectionScore(Score):
    r"""The projection on a learned direction: :math:`h = \sigma(Xp / \lVert p \rVert)`.

    With ``"softmax"`` the projection is not divided by the length of p, as in PyG.
    """

    def __init__(
        self, in_channels: int, nonlinearity: str | Callable[[Tensor], Tensor] | None = "tanh"
    ) -> None:
        check_arguments(in_channels=in_channels)
        super().__init__(nonlinearity)
        self.in_channels = in_channels
        self.project = Projection(in_channels, normalize=not self.over_graph)

    def reset_parameters(self) -> None:
        self.project.reset_parameters()

    def values(self, x: Tensor, graph: Graph) -> Tensor:
        check_channels(self, x)
        score: Tensor = self.project(x)
        return score

    __repr__ = arguments_repr


class Projection(nn.Module):
    r""":math:`Xp / \lVert p \rVert`, or :math:`Xp` without ``normalize``."""

    def __init__(self, channels: int, normalize: bool = True) -> None:
        super().__init__()
        self.normalize = normalize
        self.weight = nn.Parameter(torch.empty(1, channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.size(-1))
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return project(x, self.weight, self.normalize)


def project(x: Tensor, weight: Tensor, normalize: bool) -> Tensor:
    """Xp, one value per row, divided by the length of p if ``normalize``."""
    value = x @ weight.view(-1)
    return value / weight.norm(p=2, dim=-1) if normalize else value


class ConvScore(Score):
    """A graph convolution with a single output channel, or any callable ``g(x, edge_index)``.

    A callable that names ``edge_attr``, ``batch`` or ``batch_size`` among its arguments gets them.
    A ``MessagePassing`` layer gets only those without a default, as in PyG's ``SAGPooling``.

    Example:
        >>> def degree(x, edge_index, batch):
        ...     return torch.bincount(edge_index[0], minlength=x.size(0)).to(x.dtype)
        >>> ConvScore(degree)(torch.randn(3, 2), torch.tensor([[0, 1, 1], [1, 0, 2]])).tolist()
        [1.0, 2.0, 0.0]
    """

    def __init__(
        self,
        conv: Callable[..., Tensor],
        nonlinearity: str | Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        check_arguments(score=conv)
        super().__init__(nonlinearity)
        self.conv = conv
        self.asked = asked_for(conv)

    def reset_parameters(self) -> None:
        reset(self.conv)

    def values(self, x: Tensor, graph: Graph) -> Tensor:
        if not self.asked:
            return convolve(self.conv, x, graph.edges)
        check_channels(self.conv, x)
        given = (graph.edge_attr, graph.batch_vector(), graph.batch_size)
        more = {name: value for name, value in zip(GIVEN, given, strict=True) if name in self.asked}
        return self.conv(x, graph.edge_index, **more)

    __repr__ = arguments_repr


def asked_for(function: Callable[..., Any]) -> tuple[str, ...]:
    """Which of ``GIVEN`` a callable names as arguments."""
    try:
        known = inspect.signature(getattr(function, "forward", function)).parameters
    except (TypeError, ValueError):  # some functions written in C have no signature
        return ()
    names = [name for name in GIVEN if name in known]
    if isinstance(function, MessagePassing):
        names = [name for name in names if known[name].default is inspect.Parameter.empty]
    return tuple(names)
