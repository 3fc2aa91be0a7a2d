"""The two procedures of the paper: local assignment selection and local cluster selection."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

from torch import Tensor

from lcpool.nn.conv import convolve, known_to
from lcpool.ops.assignment import Assignment, clusters, selection
from lcpool.ops.connect import (
    HOPS,
    MAX_EDGES,
    check_hops,
    connect_clusters,
    filter_edges,
    surviving_edge_attr,
)
from lcpool.ops.edges import Edges
from lcpool.ops.graph import Graph, edge_weight
from lcpool.ops.topk import KeepPlan, Kept
from lcpool.ops.weighted import connect_assignment
from lcpool.pool.selection import ScoreFunction, SelectionPooling, check_instance


class LocalAssignmentPooling(SelectionPooling):
    r"""Local assignment selection: any local S, and a pooled graph that carries its weights.

    .. math::
        S &= f(X, A), \quad X^* = S^\top X, \quad h = g(X^*, A), \quad \hat{i} = \mathrm{topk}(h)

        X' &= (X^* \odot h)(\hat{i}, :), \quad S' = S(:, \hat{i}), \quad A' = {S'}^\top A S'

    Gradients flow through the weights of A' into S and into the weights of A. Without ``assign``,
    f = I and this is node selection (proposition 3): A' = A(î, î), the edges keep their order and
    ``edge_attr`` may have any width.

    Args:
        assign: f, called as ``assign(x, edge_index, edge_weight)``; returns an
            :class:`~lcpool.Assignment` with an entry only where I + A has one (prerequisite 1).
            None for f = I.
        score: g, a :class:`~lcpool.Score` or any ``g(x, edge_index)`` with one value a node.
        ratio: share of the nodes kept, a float in (0, 1], or their number, an int.
        min_score: keep the nodes with h above this instead; overrides ``ratio``.
        multiplier: factor on the pooled features.
        self_loops: keep the diagonal of A'.
        max_edges: refuse a pooled graph with more edges than this.
        verify: check prerequisite 1 in every call.

    Example:
        >>> import torch
        >>> from torch_geometric.nn import GraphConv
        >>> pool = LocalAssignmentPooling(None, GraphConv(16, 1), ratio=0.5)
        >>> pool(torch.randn(4, 16), torch.tensor([[0, 1, 2], [1, 2, 3]])).x.shape
        torch.Size([2, 16])
    """

    def __init__(
        self,
        assign: Callable[[Tensor, Tensor, Tensor | None], Assignment] | None,
        score: ScoreFunction,
        ratio: float = 0.5,
        min_score: float | None = None,
        multiplier: float = 1.0,
        self_loops: bool = True,
        max_edges: int = MAX_EDGES,
        verify: bool = False,
    ) -> None:
        super().__init__(score, ratio, min_score, multiplier, max_edges)
        check_instance("assign", assign)
        self.assign = assign
        self.self_loops = self_loops
        self.verify = verify

    def gather(self, graph: Graph) -> tuple[Tensor, Assignment | None]:
        """S = f(X, A) and X* = SᵀX."""
        if self.assign is None:
            return graph.x, None
        weight = edge_weight(graph.edge_attr, graph.x.dtype)
        S = self.assign(graph.x, known_to(self.assign, graph.edges), weight)
        if not isinstance(S, Assignment) or (S.num_nodes, S.num_clusters) != (
            graph.num_nodes,
            graph.num_nodes,
        ):
            raise TypeError(
                f"the assignment function must return an Assignment of {graph.num_nodes} nodes to "
                f"as many clusters, not {type(S).__name__}."
            )
        if self.verify and not S.is_local(graph.edge_index):
            raise ValueError(
                "prerequisite 1 does not hold: the assignment lets a node contribute to a cluster "
                "it has no edge to."
            )
        return S.reduce(graph.x), S

    def connect(
        self, graph: Graph, kept: Kept, plan: KeepPlan | None, S: Assignment | None
    ) -> tuple[Edges, Tensor | None, Assignment | Callable[[], Assignment]]:
        """A' = S'ᵀAS'."""
        perm = kept.perm
        if S is None:
            index, attr = filter_edges(
                graph.edge_index, graph.edge_attr, perm, graph.num_nodes, graph.checks
            )
            edges = Edges(index, perm.numel(), graph.edges.symmetric)
            return edges, attr, partial(selection, perm, graph.num_nodes)
        S = S.columns(perm, graph.checks)
        index, weight = connect_assignment(
            graph.edge_index, S, edge_weight(graph.edge_attr, graph.x.dtype), graph.batch, plan,
            self.self_loops, self.max_edges, graph.checks,
        )  # fmt: skip
        return Edges(index, perm.numel(), graph.edges.symmetric, in_order=True), weight, S

    def __repr__(self) -> str:
        name = self.__class__.__name__
        return f"{name}({self.assign}, {self.score}, {self._size_repr()})"


class LocalClusterPooling(SelectionPooling):
    r"""Local cluster selection (lemma 5): every node contributes to all its neighbours.

    .. math::
        X^* &= v(X, A), \quad h = g(X^*, A), \quad \hat{i} = \mathrm{topk}(h)

        X' &= (X^* \odot h)(\hat{i}, :), \quad
        A' = \mathrm{ones}(A + A^\top A + A^2 + A^\top A^2)(\hat{i}, \hat{i})

    On undirected graphs A' = ones(A + A² + A³)(î, î) (proposition 6): kept nodes at most three hops
    apart are connected. The procedure is defined on unweighted graphs. ``edge_attr`` is therefore
    not used, and dropped with a warning unless ``edge_fill`` says what new edges get.

    Args:
        score: g, a :class:`~lcpool.Score` or any ``g(x, edge_index)`` with one value a node.
        cluster: v, a convolution called as ``cluster(x, edge_index)``. None where a convolution
            stands before the pooling anyway (proposition 7).
        ratio: share of the nodes kept, a float in (0, 1], or their number, an int.
        min_score: keep the nodes with h above this instead; overrides ``ratio``.
        multiplier: factor on the pooled features.
        self_loops: keep the diagonal of A', as the formula gives it.
        edge_fill: keep the attributes of surviving edges, and give this value to new ones.
        max_edges: refuse a pooled graph with more edges than this.
        hops: connect nodes that are at most so far apart, in place of the three of the formula.
            Clusters, for the way back up, stay what they are.
    """

    def __init__(
        self,
        score: ScoreFunction,
        cluster: Callable[[Tensor, Tensor], Tensor] | None = None,
        ratio: float = 0.5,
        min_score: float | None = None,
        multiplier: float = 1.0,
        self_loops: bool = True,
        edge_fill: float | None = None,
        max_edges: int = MAX_EDGES,
        hops: int = HOPS,
    ) -> None:
        super().__init__(score, ratio, min_score, multiplier, max_edges)
        self.hops = check_hops(hops)
        check_instance("cluster", cluster)
        self.cluster = cluster
        self.self_loops = self_loops
        self.edge_fill = edge_fill

    def gather(self, graph: Graph) -> tuple[Tensor, None]:
        """X* = v(X, A)."""
        if self.cluster is None:
            return graph.x, None
        return convolve(self.cluster, graph.x, graph.edges), None

    def connect(
        self, graph: Graph, kept: Kept, plan: KeepPlan | None, S: Assignment | None
    ) -> tuple[Edges, Tensor | None, Assignment | Callable[[], Assignment]]:
        """A' = ones(A + AᵀA + A² + AᵀA²)(î, î), or what fewer hops leave of it."""
        perm = kept.perm
        index = connect_clusters(
            graph.edges, kept, graph.batch, plan,
            self.self_loops, self.max_edges, graph.checks, self.hops,
        )  # fmt: skip
        edges = Edges(index, perm.numel(), graph.edges.symmetric, in_order=True)
        means = partial(_mean_of_clusters, graph.edge_index, perm, graph.num_nodes)
        return edges, self._edge_attr(graph, perm, index), means

    def _edge_attr(self, graph: Graph, perm: Tensor, edges: Tensor) -> Tensor | None:
        if graph.edge_attr is None:
            return None
        if self.edge_fill is None:
            warnings.warn(
                f"{self.__class__.__name__} connects unweighted graphs and returns edge_attr=None. "
                f"Pass edge_fill=… to keep the attributes of surviving edges, or edge_attr=None.",
                stacklevel=7,
            )
            return None
        return surviving_edge_attr(
            graph.edge_index, graph.edge_attr, perm, graph.num_nodes, edges, self.edge_fill
        )

    def __repr__(self) -> str:
        cluster = "" if self.cluster is None else f", cluster={self.cluster}"
        return f"{self.__class__.__name__}({self.score}{cluster}, {self._size_repr()})"


def _mean_of_clusters(edge_index: Tensor, perm: Tensor, num_nodes: int) -> Assignment:
    """ones(I + A)(:, î) with rows that sum to one."""
    return clusters(edge_index, perm, num_nodes).row_means()
