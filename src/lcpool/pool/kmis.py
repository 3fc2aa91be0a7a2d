"""k-MIS pooling."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from lcpool.graph.graph import Graph
from lcpool.nn.arguments import check_arguments
from lcpool.ops.independent_set import independent_set
from lcpool.ops.message import neighbour_sum
from lcpool.pool.partition import Partition, PartitionPooling, by_graph, falling, not_nan


class KMISPooling(PartitionPooling):
    r"""k-MIS pooling: keep nodes more than k hops apart; every other node joins one of them.

    .. math::
        h = \sigma(X w + b), \quad
        \hat{i} = \mathrm{MIS}_k\big(h \oslash (A + I)^k \mathbf{1}\big), \quad
        X' = S^\top X

    Go through the nodes by falling :math:`h_i / ((A + I)^k \mathbf{1})_i`, the greedy heuristic of
    the paper: of equal h, the node with fewer neighbours; then the one of lower index. Keep a node
    if no node kept so far reaches it in k hops or fewer along the edges. Every other node joins the
    first kept node that reaches it. :math:`s_{ij} = h_i` if node i joins node j.

    There is no ratio: how many nodes are kept follows from the graph, and with a k near the
    diameter it is one. Pooled nodes are sorted by graph, then in the order in which they were
    taken.

    From `Bacciu, Conte and Landolfi 2023 <https://arxiv.org/abs/2208.03523>`_, "Generalizing
    Downsampling from Regular Data to Graphs".

    Args:
        in_channels: width of the node features.
        k: the number of hops.
        edge_reduce: how the attributes of edges that become one are reduced: ``"sum"``, ``"mean"``
            or ``"max"``.

    Example:
        >>> pool = KMISPooling(16)
        >>> star = torch.tensor([[0, 1, 0, 2, 0, 3], [1, 0, 2, 0, 3, 0]])
        >>> pool(torch.randn(4, 16), star).x.shape[0] in (1, 3)
        True
    """

    cost: ClassVar[str] = "n log n + m"

    def __init__(self, in_channels: int, k: int = 1, edge_reduce: str = "sum") -> None:
        check_arguments(k=k)
        super().__init__(in_channels, edge_reduce)
        self.k, self.score = k, nn.Linear(in_channels, 1)

    def select(self, graph: Graph) -> Partition:
        h = self.score(graph.x).view(-1).sigmoid()
        order = by_graph(graph, falling(h.double() / self.walks(graph)))
        centre = independent_set(order, graph.edges, self.k, graph.sizes_or_one())
        return Partition.of_centres(graph, not_nan(graph, centre, h), order, h.to(graph.x.dtype), h)

    def walks(self, graph: Graph) -> Tensor:
        r""":math:`(A + I)^k \mathbf{1}` along the edges into each node, for A without weights."""
        count = torch.ones(graph.num_nodes, 1, device=graph.x.device, dtype=torch.float64)
        for _ in range(self.k):
            count = count + neighbour_sum(count, graph.edges)
        return count.view(-1)
