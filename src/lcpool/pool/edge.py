"""EdgePool: contraction of edges."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lcpool.graph.assignment import Assignment
from lcpool.graph.graph import Graph
from lcpool.graph.precision import wide
from lcpool.ops.matching import matching
from lcpool.ops.message import entry_dot
from lcpool.ops.readout import softmax
from lcpool.pool.partition import Partition, PartitionPooling, ends, falling, not_nan, pair_centres


class EdgePooling(PartitionPooling):
    r"""Edge contraction: the edges of highest score become nodes, as long as they share no end.

    .. math::
        h_{ij} = \frac{1}{2} + \mathrm{softmax}_i(w^\top x_i), \quad
        x'_{\{i, j\}} = h_{ij} (x_i + x_j)

    with the softmax over the edges (i, j) into node j. Edges are taken by falling score; one is
    contracted unless an end is part of a contracted edge already. Other nodes stay as they are. The
    score of PyG also has a term of :math:`x_j` and a bias, which cancel in the softmax: they are
    left out, and PyG's parameters can be loaded.

    The result is that of PyG's loop over all edges, with three differences: self-loops are never
    contracted (PyG then leaves the node alone, times a score), A' has no diagonal, and of equal
    scores the edge whose target has the larger :math:`w^\top x_j` is first, then the one of lower
    number. The only edge into a node always has score 3/2, so that ties are common.

    ``out.lift`` divides by the scores, as PyG's ``unpool`` does.

    From `Diehl 2019 <https://arxiv.org/abs/1905.10990>`_, "Edge Contraction Pooling for Graph
    Neural Networks".

    Args:
        in_channels: width of the node features.
        edge_reduce: how the attributes of edges that become one are reduced: ``"sum"``, ``"mean"``
            or ``"max"``.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> EdgePooling(16)(torch.randn(3, 16), path).x.shape
        torch.Size([2, 16])
    """

    cost: ClassVar[str] = "n + m log m"

    def __init__(self, in_channels: int, edge_reduce: str = "sum") -> None:
        super().__init__(in_channels, edge_reduce)
        self.score = nn.Linear(in_channels, 1, bias=False)
        self.reset_parameters()
        self.register_load_state_dict_pre_hook(_accept_pyg)  # type: ignore[no-untyped-call]

    def reset_parameters(self) -> None:
        # As the half of PyG's layer on both ends.
        bound = 1 / math.sqrt(2 * self.in_channels)
        nn.init.uniform_(self.score.weight, -bound, bound)

    def select(self, graph: Graph) -> Partition:
        y = wide(self.score(graph.x))
        # Edges in the order of their targets from here on.
        entries = graph.edges.by_target
        source, target = ends(graph.edges, entries)
        of_source = entry_dot(torch.ones_like(y), y, entries)
        h = softmax(of_source, graph.edges.into.ptr) + 0.5
        order = falling(h, y.view(-1)[target])
        edge = matching(order, entries, graph.sizes_or_one())
        edge = not_nan(graph, edge, torch.cat([h, y.view(-1)]))  # a node may have no edge
        # Not contracted is edge −1: the one at the end, whose score is 1.
        weight = torch.cat([h, h.new_ones(1)])[edge].to(graph.x.dtype)
        centre = pair_centres(edge, source, target)
        return Partition.of_centres(graph, centre, None, weight, weight, named=False)

    def lift(self, x: Tensor, S: Assignment) -> Tensor:
        """The features of its cluster for each node, divided by the score of the cluster."""
        assert S.weight is not None
        return S.with_weight(1 / S.weight).lift(x)


def _accept_pyg(module: Any, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Take the part of PyG's ``lin`` that does not cancel: the weights of the source."""
    if (weight := state.pop(f"{prefix}lin.weight", None)) is not None:
        state.pop(f"{prefix}lin.bias", None)
        state[f"{prefix}score.weight"] = weight[:, : module.in_channels]
