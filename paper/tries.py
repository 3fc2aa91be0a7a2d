"""What in LCPool's definition could explain its published accuracies? Every try, as a pooling.

The text leaves room, and the author's layer was never published. Each class changes one thing of
:class:`lcpool.LCPooling`; the tries that are settings (``rescale``, ``hops``, ``self_loops``,
``score_channels``, ``ratio``, ``node_score``) need none. The grid is in ``results/harness``.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from lcpool import LCSMP, LocalClusterPooling
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph
from lcpool.ops.topk import KeepPlan, Kept
from lcpool.settings import SETTINGS


class Try(LocalClusterPooling):
    """LCPool with another score."""

    score_class: ClassVar[type[LCSMP]] = LCSMP

    def __init__(self, in_channels: int, ratio: float = SETTINGS["ratio"].default) -> None:
        super().__init__(self.score_class(in_channels), ratio=ratio)
        self.in_channels = in_channels


class _Gate(LCSMP):
    """Gates by another function of the values that rank."""

    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        raise NotImplementedError


class _Sigmoid(_Gate):
    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        return rank.sigmoid()


class _Tanh(_Gate):
    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        return rank.tanh()


class _Linear(_Gate):
    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        return rank


class _One(_Gate):
    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        return 1 + rank - rank.detach()


class _Batch(_Gate):
    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        return rank.softmax(dim=0)


class _Mean(LCSMP):
    def values(self, x: Tensor, graph: Graph) -> Tensor:
        L_d, b_d, L_fd, L_x, L_s = self._layers()
        differences = _differences(L_d, b_d, x, graph.edges)
        degree = differences.new_zeros(x.size(0)).index_add(
            0, graph.edge_index[1], differences.new_ones(graph.edge_index.size(1))
        )
        mean = differences / degree.clamp(min=1).unsqueeze(-1)
        out: Tensor = L_s(L_fd(mean).relu() + L_x(x).relu()).view(-1)
        return out


class _Signed(LCSMP):
    """Values times the sign of a parameter that gets no gradient, as in PyG's ``SelectTopK``."""

    def __init__(self, in_channels: int) -> None:
        super().__init__(in_channels)
        self.sign = nn.Linear(1, 1, bias=False)

    def values(self, x: Tensor, graph: Graph) -> Tensor:
        values = super().values(x, graph)
        sign: Tensor = self.sign(torch.ones_like(values).unsqueeze(-1)).view(-1)
        return values * sign.detach().sign()


def _differences(L_d: nn.Module, b_d: nn.Module, x: Tensor, edges: Edges) -> Tensor:
    """Σ_k relu(L_d(x_i − x_k)) over the sources k of edges into i, edge by edge."""
    y, (source, target) = L_d(x), edges.index
    each = (b_d(y)[target] - y[source]).relu()
    return torch.zeros_like(y).index_add(0, target, each)


class Sigmoid(Try):
    """The gate is σ(s), not the softmax over the graph."""

    score_class = _Sigmoid


class Tanh(Try):
    """The gate is tanh(s), as TopK's and SAG's."""

    score_class = _Tanh


class Linear(Try):
    """The gate is s."""

    score_class = _Linear


class Ungated(Try):
    """X' = X(î, :), with the gradient of a gate."""

    score_class = _One


class OverBatch(Try):
    """The softmax runs over all nodes of the batch."""

    score_class = _Batch


class MeanDifference(Try):
    """Differences are averaged over the neighbours, not added."""

    score_class = _Mean


class RandomSign(Try):
    """The order of the scores is reversed at random, once per network, as in PyG's ASAP."""

    score_class = _Signed


class Gathered(Try):
    """X* is the mean over a node and its neighbours, the cluster of lemma 5."""

    def gather(self, graph: Graph) -> tuple[Tensor, None]:
        source, target = graph.edge_index
        x = graph.x.index_add(0, target, graph.x[source])
        degree = graph.x.new_ones(graph.num_nodes).index_add(
            0, target, graph.x.new_ones(source.numel())
        )
        return x / degree.unsqueeze(-1), None


class AmongKept(Try):
    """The softmax runs over the kept nodes of a graph alone."""

    def choose(
        self, X: Tensor, graph: Graph, plan: KeepPlan | None, attn: Tensor | None
    ) -> tuple[Tensor, Tensor, Kept, Tensor | None]:
        _, h, kept, ok = super().choose(X, graph, plan, attn)
        batch = graph.batch_vector()[kept.perm]
        total = h.new_zeros(graph.batch_size).index_add(0, batch, h)[batch]
        again = h / total.clamp(min=torch.finfo(h.dtype).tiny)
        return X[kept.perm] * again.unsqueeze(-1), again, kept, ok
