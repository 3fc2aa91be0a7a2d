"""The two procedures of the paper: local assignment selection and local cluster selection."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment, clusters
from lcpool.graph.bounded import BoundedEdges
from lcpool.graph.capture import NotCapturableError
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph, edge_weight
from lcpool.nn.arguments import check_arguments
from lcpool.nn.conv import convolve, edges_for
from lcpool.ops.connect import (
    HOPS,
    MAX_EDGES,
    check_hops,
    connect_clusters,
    filter_edges,
    surviving_edge_attr,
)
from lcpool.ops.connect.product import connect_assignment
from lcpool.pool.scored import KeptNodes, ScoredPooling
from lcpool.pool.selection import Selection
from lcpool.warn import warn_caller

NOT_LOCAL = (
    "prerequisite 1 does not hold: 'assign' gave a node a part in a cluster it has no edge to."
)


class LocalAssignmentPooling(ScoredPooling):
    r"""Local assignment selection: keep the best clusters of any local assignment S.

    .. math::
        S &= f(X, A), \quad X^* = S^\top X, \quad h = g(X^*, A), \quad \hat{i} = \mathrm{topk}(h)

        X' &= (X^* \odot h)(\hat{i}, :), \quad S' = S(:, \hat{i}), \quad A' = {S'}^\top A S'

    A' is weighted, and gradients flow through its weights into S and the weights of A. Without
    ``assign``, f = I and this is node selection (proposition 3): A' = A(î, î), edges keep their
    order and ``edge_attr`` may have any width.

    Args:
        assign: f, called as ``assign(x, edge_index, edge_weight)``; returns an
            :class:`~lcpool.Assignment` with entries only where I + A has some (prerequisite 1).
            None for f = I.
        score: g, a :class:`~lcpool.Score` or any ``g(x, edge_index)`` with one value per node,
            which may also name ``batch`` and ``edge_attr`` as arguments.
        ratio, min_score, multiplier, self_loops, max_edges: as in :class:`LCPooling`.
        verify: check prerequisite 1 in every call.

    Example:
        >>> from torch_geometric.nn import GraphConv
        >>> pool = LocalAssignmentPooling(None, GraphConv(16, 1), ratio=0.5)
        >>> pool(torch.randn(4, 16), torch.tensor([[0, 1, 2], [1, 2, 3]])).x.shape
        torch.Size([2, 16])
    """

    cost: ClassVar[str] = "n log n + m"  # without an assignment

    def __init__(
        self,
        assign: Callable[[Tensor, Tensor, Tensor | None], Assignment] | None,
        score: Callable[..., Tensor],
        ratio: float | None = 0.5,
        min_score: float | None = None,
        multiplier: float = 1.0,
        self_loops: bool = True,
        max_edges: int = MAX_EDGES,
        verify: bool = False,
    ) -> None:
        check_arguments(self_loops=self_loops, verify=verify)
        if assign is not None:
            check_arguments(assign=assign)
        super().__init__(score, ratio, min_score, multiplier, max_edges)
        self.assign, self.self_loops, self.verify = assign, self_loops, verify
        self.keeps_edge_attr = assign is None

    def gather(self, graph: Graph) -> tuple[Tensor, Assignment | None]:
        """X* = SᵀX, and S = f(X, A)."""
        if self.assign is None:
            return graph.x, None
        weight = edge_weight(graph.edge_attr, graph.x.dtype)
        S = self.assign(graph.x, edges_for(self.assign, graph.edges), weight)
        n = graph.num_nodes
        if not isinstance(S, Assignment) or (S.num_nodes, S.num_clusters) != (n, n):
            kind = S if isinstance(S, Assignment) else type(S).__name__
            raise TypeError(
                f"'assign' must return an Assignment of {n} nodes to {n} clusters, not {kind}."
            )
        x = graph.x
        if self.verify:
            x = graph.checks.require(x, ~S.strays(graph.edge_index).any(), lambda: NOT_LOCAL)
        return S.reduce(x), S

    def assigned(
        self, graph: Graph, perm: Tensor, S: Assignment | None
    ) -> Callable[[], Assignment]:
        if S is None:
            return partial(Assignment.of_nodes, perm, graph.num_nodes)
        return partial(S.columns, perm, graph.checks)

    def connect(self, graph: Graph, S: Selection) -> tuple[Edges, Tensor | None]:
        """A' = S'ᵀAS'."""
        assert isinstance(S, KeptNodes)
        if self.assign is None and isinstance(graph.edges, BoundedEdges):
            from lcpool.ops.connect.bounded import kept_edges

            return kept_edges(graph.edges, S.perm), None
        if self.assign is None:
            index, attr = filter_edges(
                graph.edge_index, graph.edge_attr, S.perm, graph.num_nodes, graph.checks
            )
            return Edges.trusted(index, S.num_pooled, graph.edges.symmetric), attr
        if isinstance(graph.edges, BoundedEdges):
            if graph.edge_attr is not None or S.whole is None or S.plan is None:
                raise NotCapturableError("A has weights, or S was made elsewhere")
            from lcpool.ops.connect.bounded_product import connect_bounded

            given = (S.kept, graph.batch_vector(), S.plan, self.self_loops)
            return connect_bounded(graph.edges, S.whole, *given)
        index, weight = connect_assignment(
            graph.edge_index, S.assignment_of(graph), edge_weight(graph.edge_attr, graph.x.dtype),
            graph.batch, S.plan, self.self_loops, self.max_edges, graph.checks,
        )  # fmt: skip
        return Edges.trusted(index, S.num_pooled, graph.edges.symmetric, in_order=True), weight


class LocalClusterPooling(ScoredPooling):
    r"""Local cluster selection (lemma 5): every node contributes to all its neighbours.

    .. math::
        X^* &= v(X, A), \quad h = g(X^*, A), \quad \hat{i} = \mathrm{topk}(h)

        X' &= (X^* \odot h)(\hat{i}, :), \quad
        A' = \mathrm{ones}(A + A^\top A + A^2 + A^\top A^2)(\hat{i}, \hat{i})

    On undirected graphs A' = ones(A + A² + A³)(î, î) (proposition 6): kept nodes at most three hops
    apart are connected. A' is unweighted: ``edge_attr`` is dropped with a warning, unless
    ``edge_fill`` is the value for new edges.

    Args:
        score: g, a :class:`~lcpool.Score` or any ``g(x, edge_index)`` with one value per node,
            which may also name ``batch`` and ``edge_attr`` as arguments.
        cluster: v, a convolution called as ``cluster(x, edge_index)``. None if a convolution
            precedes the pooling anyway (proposition 7).
        ratio, min_score, multiplier, self_loops, edge_fill, max_edges, hops: as in
            :class:`LCPooling`.
    """

    cost: ClassVar[str] = "n log n + m d²"

    def __init__(
        self,
        score: Callable[..., Tensor],
        cluster: Callable[[Tensor, Tensor], Tensor] | None = None,
        ratio: float | None = 0.5,
        min_score: float | None = None,
        multiplier: float = 1.0,
        self_loops: bool = True,
        edge_fill: float | None = None,
        max_edges: int = MAX_EDGES,
        hops: int = HOPS,
    ) -> None:
        check_arguments(cluster=cluster, self_loops=self_loops, edge_fill=edge_fill)
        super().__init__(score, ratio, min_score, multiplier, max_edges)
        self.cluster, self.self_loops = cluster, self_loops
        self.edge_fill, self.hops = edge_fill, check_hops(hops)

    def gather(self, graph: Graph) -> tuple[Tensor, None]:
        """X* = v(X, A)."""
        if self.cluster is None:
            return graph.x, None
        return convolve(self.cluster, graph.x, graph.edges), None

    def assigned(
        self, graph: Graph, perm: Tensor, S: Assignment | None
    ) -> Callable[[], Assignment]:
        """ones(I + A)(:, î), each row divided by its sum, so that ``lift`` takes means."""
        return partial(_mean_of_clusters, graph.edges, perm, graph.x.dtype)

    def connect(self, graph: Graph, S: Selection) -> tuple[Edges, Tensor | None]:
        """A' = ones(A + AᵀA + A² + AᵀA²)(î, î), or its part within fewer ``hops``."""
        assert isinstance(S, KeptNodes)
        if isinstance(graph.edges, BoundedEdges):
            from lcpool.ops.connect.bounded import clusters_within

            assert S.plan is not None
            given = (S.kept, graph.batch_vector(), S.plan, self.self_loops, self.hops)
            return clusters_within(graph.edges, *given), None
        index = connect_clusters(
            graph.edges, S.kept, graph.batch, S.plan,
            self.self_loops, self.max_edges, graph.checks, self.hops,
        )  # fmt: skip
        edges = Edges.trusted(index, S.num_pooled, graph.edges.symmetric, in_order=True)
        return edges, self._edge_attr(graph, S.perm, index)

    def _edge_attr(self, graph: Graph, perm: Tensor, edges: Tensor) -> Tensor | None:
        if graph.edge_attr is None:
            return None
        if self.edge_fill is None:
            warn_caller(
                f"{self.class_name} makes unweighted graphs and drops 'edge_attr'. To keep the "
                f"attributes of surviving edges, make it with edge_fill=…, the value for new ones; "
                f"else pass edge_attr=None."
            )
            return None
        return surviving_edge_attr(
            graph.edge_index, graph.edge_attr, perm, graph.num_nodes, edges, self.edge_fill
        )


def _mean_of_clusters(edges: Edges, perm: Tensor, dtype: torch.dtype) -> Assignment:
    """(I + A)(:, î) with equal weights in each row, which sum to one."""
    node, cluster, _ = clusters(edges.index, perm, edges.num_nodes).distinct()
    weight = 1 / torch.bincount(node, minlength=edges.num_nodes)[node].double()
    return Assignment.trusted(node, edges.num_nodes, cluster, perm.numel(), weight.to(dtype))
