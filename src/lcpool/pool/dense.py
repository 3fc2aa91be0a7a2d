"""Dense assignment: the procedure that DiffPool and MinCut share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lcpool.nn.conv import convolve
from lcpool.ops.connect import MAX_EDGES
from lcpool.ops.dense import Chunks, DenseAssignment, neighbour_sum
from lcpool.ops.edges import Edges
from lcpool.ops.graph import Graph, check_channels, edge_weight
from lcpool.ops.operator import is_traced
from lcpool.ops.precision import wide
from lcpool.ops.sizes import Sizes
from lcpool.pool.output import Pooled


class DenseAssignmentPooling(nn.Module):
    r"""Dense assignment: every graph becomes k clusters.

    .. math::
        S = \mathrm{softmax}(f(X, A)), \quad X' = S^\top X, \quad A' = S^\top A S

    S has N × k entries, and neither A nor A − SSᵀ is ever made dense. Every graph, whatever its
    size, comes out with k nodes and all k² weighted edges; an empty one with zeros.

    Args:
        assign: f, called as ``assign(x, edge_index)``, with the weights third where there are any;
            k values a node.
        num_clusters: k.
    """

    loss_weights: ClassVar[Mapping[str, float]] = {}

    def __init__(self, assign: nn.Module, num_clusters: int) -> None:
        super().__init__()
        if num_clusters < 1:
            raise ValueError(f"'num_clusters' must be at least 1, not {num_clusters}.")
        self.assign: Any = assign
        self.num_clusters = num_clusters

    def reset_parameters(self) -> None:
        """Draw the parameters of the assignment anew."""
        self.assign.reset_parameters()

    def logits(self, graph: Graph, weight: Tensor | None) -> Tensor:
        """f(X, A) before the softmax."""
        return convolve(self.assign, graph.x, graph.edges, weight)

    def losses(
        self, graph: Graph, weight: Tensor | None, S: DenseAssignment, A: Tensor
    ) -> dict[str, Tensor]:
        """The auxiliary losses of each graph, ``[batch_size]``, from S and A' = SᵀAS."""
        return {}

    def _losses(
        self, graph: Graph, weight: Tensor | None, S: DenseAssignment, A: Tensor
    ) -> dict[str, Tensor]:
        """:meth:`losses`, in float32 or better whatever the features are."""
        with torch.autocast(A.device.type, enabled=False):
            S = DenseAssignment(wide(S.value), S.chunks)
            return self.losses(graph, None if weight is None else wide(weight), S, wide(A))

    def normalize(self, A: Tensor) -> Tensor:
        """What becomes of A' before it is returned."""
        return A

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        batch_size: int | None = None,
    ) -> Pooled:
        """Pool a batch of graphs.

        Args:
            x: node features, ``[num_nodes, channels]``.
            edge_index: source and target of each edge, ``[2, num_edges]``.
            edge_attr: edge weights, ``[num_edges]``.
            batch: the graph of each node; one graph if None. Need not be sorted.
            batch_size: the number of graphs. With it nothing is asked of a GPU.
        """
        graph = Graph.of(x, edge_index, edge_attr, batch, batch_size, size_follows=False)
        check_channels(self, graph.x)
        return self.pool(graph)

    def pool(self, graph: Graph) -> Pooled:
        """:meth:`forward` on checked input."""
        weight = edge_weight(graph.edge_attr, graph.x.dtype)
        if not is_traced():
            check_complete(graph.batch_size, self.num_clusters)
        S = DenseAssignment(self.logits(graph, weight).softmax(dim=-1), Chunks.of(graph))
        X = S.reduce(graph.x)
        A = S.reduce(neighbour_sum(S.value, graph, weight))
        losses = self._losses(graph, weight, S, A)
        has_nodes = graph.node_counts() > 0
        total = sum((self.loss_weights[k] * v for k, v in losses.items()), A.new_zeros(A.size(0)))
        mean = partial(_mean_where, has_nodes)
        edges, batch = complete_edges(graph.batch_size, self.num_clusters, A.device)
        counts = torch.full((graph.batch_size,), self.num_clusters)
        sizes = Sizes.of(counts, A.device, edges.num_nodes)
        weight = self.normalize(A).reshape(-1)
        pooled = Graph(X.flatten(0, 1), edges, weight, batch, graph.batch_size, sizes, graph.checks)
        return Pooled.of(
            pooled, None, None,
            losses={name: mean(loss) for name, loss in losses.items()},
            loss=mean(total) if losses else 0.0,
            graph_loss=total.where(has_nodes, 0.0),
            _assignment=S,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.assign}, {self.num_clusters})"


def check_complete(batch_size: int, k: int) -> None:
    """Raise where ``batch_size`` complete graphs of k nodes are taken for a mistake."""
    if batch_size * k**2 > MAX_EDGES:
        raise ValueError(
            f"{batch_size:,} graphs of {k:,} clusters, all connected, would have "
            f"{batch_size * k**2:,} edges: are these as many graphs as there are? They are "
            f"counted from 0 to the largest in 'batch'; if they are, take fewer at a time."
        )


def complete_edges(batch_size: int, k: int, device: torch.device) -> tuple[Edges, Tensor]:
    """All k² edges of ``batch_size`` graphs of k nodes, sorted, and the graph of each node."""
    nodes = torch.arange(batch_size * k, device=device)
    graphs = nodes // k
    source = nodes.view(-1, 1).expand(-1, k).reshape(-1)
    target = nodes.view(batch_size, 1, k).expand(-1, k, -1).reshape(-1)
    return Edges(torch.stack([source, target]), nodes.numel(), in_order=True, complete=k), graphs


def _mean_where(wanted: Tensor, values: Tensor) -> Tensor:
    """The mean of the values that are wanted; 0 if none is."""
    return values.where(wanted, 0.0).sum() / wanted.sum().clamp(min=1)
