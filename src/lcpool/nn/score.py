"""g: the score functions that rank nodes and gate their features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver

from lcpool.nn.conv import convolve
from lcpool.nn.leaf import Projection
from lcpool.ops.edges import Edges
from lcpool.ops.graph import Graph
from lcpool.ops.precision import wide
from lcpool.ops.segment import graph_softmax
from lcpool.ops.topk import KeepPlan, Kept

# X', h(î), î, and whether all h are numbers.
Chosen = tuple[Tensor, Tensor, Kept, Tensor]

# Strictly increasing, so that what goes in orders nodes as what comes out does, without the ties
# that saturation makes.
INCREASING = (torch.tanh, torch.sigmoid, nn.functional.tanh, nn.functional.sigmoid)
INCREASING_MODULES = (nn.Tanh, nn.Sigmoid)


class Score(nn.Module):
    """h = g(X, A), in two steps: values to order nodes by, and the gate that turns them into h.

    Top-k takes the values *before* a saturating nonlinearity. The order is the same, but small
    probabilities underflow into ties and large scores meet at 1, and then the order is lost.

    Args:
        nonlinearity: ``"softmax"`` (over the nodes of each graph), the name of an activation, a
            callable, or None for the values as they are.
    """

    def __init__(self, nonlinearity: str | Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.over_graph = nonlinearity == "softmax"
        plain = nonlinearity is None or self.over_graph
        self.act: Any = None if plain else activation_resolver(nonlinearity)
        self.increasing = (
            plain or self.act in INCREASING or isinstance(self.act, INCREASING_MODULES)
        )

    def values(self, x: Tensor, edges: Edges) -> Tensor:
        """The scores before the nonlinearity, ``[num_nodes]`` or ``[num_nodes, 1]``."""
        raise NotImplementedError

    def rank(self, x: Tensor, edges: Edges) -> Tensor:
        """What top-k orders nodes by, ``[num_nodes]``, with all bits of the parameters.

        Also under autocast: its 16 bits would tie nodes that differ.
        """
        if torch.is_autocast_enabled(x.device.type):
            with torch.autocast(x.device.type, enabled=False):
                return self.rank(x.to(next(self.parameters(), wide(x)).dtype), edges)
        values = self.values(x, edges)
        if values.numel() != x.size(0):
            raise ValueError(
                f"a score function must give one score a node: expected shape [{x.size(0)}] or "
                f"[{x.size(0)}, 1], got {list(values.shape)}."
            )
        values = values.reshape(-1)
        return values if self.increasing else self.act(values)

    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        """h, which multiplies the features, from what :meth:`rank` gave."""
        if self.over_graph:
            return graph_softmax(rank, graph)
        return self.act(rank) if self.act is not None and self.increasing else rank

    def choose(self, x: Tensor, graph: Graph, plan: KeepPlan) -> Chosen | None:
        """X' = (x ⊙ h)(î, :) for the î that are ranked highest, if that can be had in one step."""
        return None

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """The scores h of all nodes, ``[num_nodes]``."""
        graph = Graph.of(x, edge_index, None, batch, batch_size, size_follows=False)
        return self.gate(self.rank(graph.x, graph.edges), graph)


class ProjectionScore(Score):
    r"""The projection on a learned direction: :math:`h = \sigma(Xp / \lVert p \rVert)`.

    With ``"softmax"`` the projection is not normalised, as in PyG.
    """

    def __init__(
        self, in_channels: int, nonlinearity: str | Callable[[Tensor], Tensor] | None = "tanh"
    ) -> None:
        super().__init__(nonlinearity)
        self.in_channels = in_channels
        self.project = Projection(in_channels, normalize=not self.over_graph)

    def reset_parameters(self) -> None:
        """Draw the direction anew."""
        self.project.reset_parameters()

    def values(self, x: Tensor, edges: Edges) -> Tensor:
        """Xp, divided by the length of p."""
        score: Tensor = self.project(x)
        return score

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.in_channels})"


class ConvScore(Score):
    """One graph convolution with a single output channel, or any callable ``g(x, edge_index)``."""

    def __init__(
        self,
        conv: Callable[[Tensor, Tensor], Tensor],
        nonlinearity: str | Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(nonlinearity)
        self.conv = conv

    def reset_parameters(self) -> None:
        """Draw the convolution's parameters anew."""
        reset(self.conv)

    def values(self, x: Tensor, edges: Edges) -> Tensor:
        """What the convolution gives."""
        return convolve(self.conv, x, edges)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.conv})"
