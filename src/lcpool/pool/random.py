"""Random poolings: the controls of every comparison."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from lcpool.graph.graph import Graph
from lcpool.nn import Score
from lcpool.nn.arguments import check_arguments
from lcpool.ops.topk import KeepPlan, check_ratio, keep_counts, topk
from lcpool.pool.local import LocalClusterPooling
from lcpool.pool.partition import Partition, PartitionPooling


class Drawn(Score):
    """A random number for each node, drawn in every call; features stay as they are."""

    def values(self, x: Tensor, graph: Graph) -> Tensor:
        return torch.rand(x.size(0), device=x.device, dtype=x.dtype)

    def gate(self, rank: Tensor, graph: Graph) -> Tensor:
        return torch.ones_like(rank)


class RandomSelection(LocalClusterPooling):
    r"""LCPool with random scores: what does its score contribute?

    .. math::
        \hat{i} = \text{⌈ratio · n⌉ random nodes}, \quad X' = X(\hat{i}, :)

        A' = \mathrm{ones}(A + A^\top A + A^2 + A^\top A^2)(\hat{i}, \hat{i})

    Drawn in every call, also in evaluation: seed torch for the same result.

    Args:
        in_channels: width of the node features.
        ratio: the ratio of kept nodes, a float in (0, 1], or their number, an int.
    """

    def __init__(self, in_channels: int, ratio: float = 0.5) -> None:
        check_arguments(in_channels=in_channels)
        super().__init__(Drawn(), ratio=ratio)
        self.in_channels = in_channels


class RandomAssignment(PartitionPooling):
    r"""Random clusters: what do the clusters of a pooling contribute?

    .. math::
        s_{ij} = [\, j \text{ is the kept node that } i \text{ drew} \,]

        X' = S^\top X, \quad A' = S^\top A S \text{ without its diagonal}

    ⌈ratio · n⌉ nodes of each graph are kept at random, and every other node joins a random one of
    them, near or far.

    Drawn in every call, also in evaluation: seed torch for the same result.

    Args:
        in_channels: width of the node features.
        ratio: the ratio of kept nodes, a float in (0, 1], or their number, an int.
        edge_reduce: how the attributes of edges that become one are reduced: ``"sum"``, ``"mean"``
            or ``"max"``.
    """

    expressive: ClassVar[bool] = True
    cost: ClassVar[str] = "n log n + m"

    def __init__(self, in_channels: int, ratio: float = 0.5, edge_reduce: str = "sum") -> None:
        super().__init__(in_channels, edge_reduce)
        self.ratio = check_ratio(ratio)

    def pooled_counts(self, counts: Tensor) -> Tensor:
        """⌈ratio · n⌉ for each graph of n nodes."""
        return keep_counts(self.ratio, counts)

    def select(self, graph: Graph) -> Partition:
        plan = KeepPlan.of(self.ratio, graph)
        draw, choice = torch.rand(2, graph.num_nodes, device=graph.x.device)
        perm, _ = topk(draw, graph, plan)
        # A place among the kept nodes of its graph; rounding must not lead to the next graph.
        first, count = plan.kept.ptr[:-1], plan.kept.ptr.diff()
        count = count[graph.batch_vector()]
        place = (choice * count).long().minimum(count - 1) + first[graph.batch_vector()]
        # For padded graphs, perm is −1 in padding rows: a row more takes these.
        centre = pad(perm[place], (0, 1)).index_put((perm,), perm)[:-1]
        return Partition.of_centres(graph, centre, kept=plan.kept)
