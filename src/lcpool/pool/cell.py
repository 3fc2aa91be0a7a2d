"""CellPool: kept nodes and their cells. Ours; LCPool is the paper's."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.bounded import Bounded
from lcpool.graph.graph import Graph
from lcpool.nn import LCSMP, ConvScore, Score
from lcpool.nn.arguments import check_arguments
from lcpool.ops.cells import cells, places, topk_of_components
from lcpool.ops.operator import is_traced
from lcpool.ops.topk import KeepPlan, check_ratio, keep_counts
from lcpool.pool.partition import Partition, PartitionPooling, not_nan
from lcpool.warn import warn_caller


class CellPooling(PartitionPooling):
    r"""CellPool: keep the nodes of highest score; every other node joins the nearest kept one.

    .. math::
        h = g(X, A), \quad \hat{i} = \mathrm{topk}(h), \quad
        s_{ij} = [\, j \text{ is the kept node nearest to } i \,]

        X' = S^\top X, \quad A' = S^\top A S \text{ without its diagonal}

    A kept node and all nodes that are nearer to it than to any other kept node are its cell.
    Distances are counted in edges, whatever their direction; of kept nodes that are equally near,
    the one with the higher score wins. Cells that an edge joins are joined. So at every ratio

    - a connected graph stays connected, and no component splits or merges with another;
    - A' never has more edges than A;
    - all nodes of the graph, not only the kept ones, are part of the result.

    The best node of each component is kept first. A component can vanish only where a graph keeps
    fewer nodes than it has components; a warning says so once, and ``out.labels()`` is −1 there.

    The forward pass does not multiply by h, so that X' is a sum over the cell and the layer as
    expressive as the convolution before it (Bianchi and Lachi 2023). To train the score, the
    backward pass gives h the gradient that it has in :math:`X' = S^\top (X \odot h)`: a node's
    score rises if giving it more weight in its cell would lower the loss.

    Ours, with these debts: the score is LCPool's; nearest-kept assignment is known from k-MIS
    (Bacciu, Conte and Landolfi 2023) and MaxCutPool (Abate and Bianchi 2025).

    Args:
        in_channels: width of the node features.
        ratio: the ratio of kept nodes, a float in (0, 1], or their number, an int.
        score: g, a :class:`~lcpool.Score` or any ``g(x, edge_index)`` with one value per node;
            :class:`~lcpool.LCSMP` by default. That of TopK is ``ProjectionScore(in_channels)``,
            that of SAG ``ConvScore(GraphConv(in_channels, 1), "tanh")``, that of ASAP
            ``ConvScore(LEConv(in_channels, 1), "sigmoid")``.
        edge_reduce: how the attributes of edges that become one are reduced: ``"sum"``, ``"mean"``
            or ``"max"``.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> out = CellPooling(16, ratio=0.5)(torch.randn(4, 16), path)
        >>> out.x.shape, out.edge_index.tolist()
        (torch.Size([2, 16]), [[0, 1], [1, 0]])
    """

    expressive: ClassVar[bool] = True
    cost: ClassVar[str] = "n log n + m"

    def __init__(
        self,
        in_channels: int,
        ratio: float = 0.5,
        score: Callable[..., Tensor] | None = None,
        edge_reduce: str = "sum",
    ) -> None:
        super().__init__(in_channels, edge_reduce)
        if score is None:
            score = LCSMP(in_channels)
        check_arguments(score=score)
        self.ratio = check_ratio(ratio)
        self.score = score if isinstance(score, Score) else ConvScore(score)
        self.warned_of_lost = False

    def pooled_counts(self, counts: Tensor) -> Tensor:
        """⌈ratio · n⌉ for each graph of n nodes."""
        return keep_counts(self.ratio, counts)

    def select(self, graph: Graph) -> Partition:
        plan = KeepPlan.of(self.ratio, graph)
        rank = self.score.rank(graph.x, graph)
        h = self.score.gate(rank, graph).to(graph.x.dtype)
        place = places(rank)
        perm, batch = topk_of_components(place, graph, plan)
        perm = not_nan(graph, perm, h)
        label = cells(graph, place, perm)
        # Exactly one, with the gradient of h.
        S = self._assignment(graph, label, perm.numel(), h - h.detach() + 1)
        return Partition(S, batch, plan.kept, perm, h[perm], label=label)

    def _assignment(self, graph: Graph, label: Tensor, count: int, weight: Tensor) -> Assignment:
        """S of cells that have ``count`` kept nodes; nodes in no cell have no entry."""
        if isinstance(graph.sizes, Bounded):
            from lcpool.ops.contract.bounded import assign

            return assign(label, count, weight)  # no warning: the host does not know of lost nodes
        lost = None if is_traced() else graph.checks.read((label < 0).sum())[0]
        if lost == 0:
            nodes = torch.arange(label.numel(), device=label.device)
            return Assignment.trusted(nodes, label.numel(), label, count, weight)
        if lost and not self.warned_of_lost:
            self.warned_of_lost = True
            warn_caller(
                f"{self.class_name} leaves out {lost} of {label.numel()} nodes of a batch: a graph "
                f"has more connected components than the nodes it keeps. Raise 'ratio' to keep all "
                f"components; out.labels() is −1 at the nodes left out."
            )
        S = Assignment.of_labels(label, count)
        return S.with_weight(weight[S.node_index])
