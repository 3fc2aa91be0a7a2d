"""Dense assignment: what DiffPool and MinCut share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lcpool.graph.checks import Trust
from lcpool.graph.dense import Chunks, DenseAssignment
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph, edge_weight
from lcpool.graph.lazy import lazy
from lcpool.graph.precision import wide
from lcpool.graph.sizes import Sizes
from lcpool.nn.arguments import arguments_repr, check_arguments
from lcpool.nn.conv import convolve
from lcpool.ops.connect import MAX_EDGES
from lcpool.ops.dense import target_sum
from lcpool.ops.operator import is_traced
from lcpool.pool.base import Pooling
from lcpool.pool.selection import NAN, Selection


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Clusters(Selection):
    """The k clusters of every graph: the dense assignment S of ``graph`` and its edge weights."""

    S: DenseAssignment = field(kw_only=False)
    graph: Graph
    weight: Tensor | None

    @lazy
    def A(self) -> Tensor:  # noqa: N802 - the paper's name
        """SᵀAS of each graph, ``[batch_size, k, k]``."""
        return self.S.blocks(target_sum(self.S.value, self.graph, self.weight))


class DenseAssignmentPooling(Pooling):
    r"""Dense assignment: every graph becomes k clusters.

    .. math::
        S = \mathrm{softmax}(f(X, A)), \quad X' = S^\top X, \quad A' = S^\top A S

    Every graph, whatever its size, gets k nodes and all k² weighted edges; an empty one gets zeros.
    S has N × k entries; neither A nor A − SSᵀ is ever made dense.

    Args:
        assign: f, called as ``assign(x, edge_index)``, with edge weights as third argument if there
            are any; returns k values per node.
        num_clusters: the number k of nodes of every pooled graph.
    """

    reads_sizes: ClassVar[bool] = False  # k is known
    keeps_connected: ClassVar[bool] = True  # every node has a part in every cluster
    expressive: ClassVar[bool] = True  # a softmax sums to one
    cost: ClassVar[str] = "k (k n + m)"

    def __init__(self, assign: nn.Module, num_clusters: int) -> None:
        check_arguments(assign=assign, num_clusters=num_clusters)
        super().__init__()
        self.num_clusters = num_clusters
        self.assign: Any = assign

    def logits(self, graph: Graph, weight: Tensor | None) -> Tensor:
        """f(X, A) before the softmax."""
        return convolve(self.assign, graph.x, graph.edges, weight)

    def normalize(self, A: Tensor) -> Tensor:
        """A' from SᵀAS."""
        return A

    def dense_losses(
        self, graph: Graph, weight: Tensor | None, S: DenseAssignment, A: Tensor
    ) -> dict[str, Tensor]:
        """The auxiliary losses of each graph, ``[batch_size]``, from S and A = SᵀAS."""
        return {}

    def pooled_counts(self, counts: Tensor) -> Tensor:
        return torch.full_like(counts, self.num_clusters)

    def select(self, graph: Graph) -> Clusters:
        weight = edge_weight(graph.edge_attr, graph.x.dtype)
        edges = graph.batch_size * self.num_clusters**2
        if not is_traced() and edges > MAX_EDGES:
            raise ValueError(
                f"{graph.batch_size:,} graphs of {self.num_clusters:,} clusters each would have "
                f"{edges:,} edges. Graphs are counted from 0 to the largest number in 'batch': is "
                f"that right? If so, pool fewer graphs at a time."
            )
        logits, shape = self.logits(graph, weight), (graph.num_nodes, self.num_clusters)
        if logits.shape != shape:
            raise ValueError(
                f"'assign' must return {shape[1]} values per node, shape {list(shape)}, not "
                f"{list(logits.shape)}."
            )
        S = DenseAssignment(logits.softmax(dim=-1), Chunks.of(graph))
        sizes = Sizes.equal(graph.batch_size, self.num_clusters, graph.x.device)
        batch = torch.arange(sizes.total, device=graph.x.device) // self.num_clusters
        # A GPU reads the verdict with the next size of this batch. In a traced call it would
        # synchronise for it: there NaN is only visible in the output.
        if not isinstance(graph.checks, Trust) and not (is_traced() and batch.is_cuda):
            ok = (S.value == S.value).all()
            batch = graph.checks.require(batch, ok, lambda: NAN.format("assignments"))
            if weight is not None:
                ok = weight.isfinite().all()
                batch = graph.checks.require(batch, ok, lambda: "'edge_attr' has NaN or inf.")
        return Clusters(S, batch, sizes, graph=graph, weight=weight)

    def connect(self, graph: Graph, S: Selection) -> tuple[Edges, Tensor]:
        assert isinstance(S, Clusters)
        edges = complete_edges(graph.batch_size, self.num_clusters, graph.x.device)
        return edges, self.normalize(S.A).reshape(-1)

    def losses(self, graph: Graph, S: Selection) -> dict[str, Tensor]:
        """:meth:`dense_losses`, in float32 or better whatever the type of the features."""
        assert isinstance(S, Clusters)
        with torch.autocast(S.A.device.type, enabled=False):
            dense = DenseAssignment(wide(S.S.value), S.S.chunks)
            weight = None if S.weight is None else wide(S.weight)
            return self.dense_losses(graph, weight, dense, wide(S.A))

    __repr__ = arguments_repr


def complete_edges(batch_size: int, k: int, device: torch.device) -> Edges:
    """All k² edges of ``batch_size`` graphs of k nodes, sorted."""
    nodes = torch.arange(batch_size * k, device=device)
    source = nodes.view(-1, 1).expand(-1, k).reshape(-1)
    target = nodes.view(batch_size, 1, k).expand(-1, k, -1).reshape(-1)
    return Edges.trusted(torch.stack([source, target]), nodes.numel(), in_order=True, complete=k)
