"""Clusters that share no node: what k-MIS, edge contraction and Graclus share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment, nonzero, positions
from lcpool.graph.bounded import Bounded, BoundedEdges
from lcpool.graph.checks import Trust, check_weights
from lcpool.graph.edges import Edges, Entries
from lcpool.graph.graph import Graph
from lcpool.graph.sizes import Sizes, counts_of
from lcpool.nn.arguments import arguments_repr, check_arguments
from lcpool.ops.contract import contract
from lcpool.ops.operator import is_traced
from lcpool.pool.base import Pooling
from lcpool.pool.selection import NAN, Selection


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Partition(Selection):
    """Clusters that share no node.

    Attributes:
        label: the cluster of each node, −1 for a node in none.
    """

    label: Tensor

    @classmethod
    def of_centres(
        cls,
        graph: Graph,
        centre: Tensor,
        order: Tensor | None = None,
        weight: Tensor | None = None,
        score: Tensor | None = None,
        named: bool = True,
        kept: Sizes | None = None,
    ) -> Self:
        """The clusters of nodes that have the same centre; every node is in one.

        Args:
            graph: the graphs.
            centre: for each node, the node that names its cluster. That node is its own centre:
                ``centre[centre] == centre``.
            order: all nodes, sorted by graph; clusters come in the order of their centres. By
                default nodes are in the order of their numbers.
            weight: the entries of S, one per node; ones by default.
            score: h of each node; the output has that of the centres.
            named: whether the centres are the ``perm`` of the output.
            kept: how many clusters each graph has, if that is known beforehand.
        """
        if order is None:
            order = by_graph(graph)
        if isinstance(graph.sizes, Bounded):
            return cls._bounded(graph.sizes, centre, order, weight, score, named, kept)
        perm = order[nonzero(centre[order] == order, graph.checks)]
        label = positions(perm, graph.num_nodes)[centre]
        nodes = torch.arange(graph.num_nodes, device=perm.device)
        S = Assignment.trusted(nodes, graph.num_nodes, label, perm.numel(), weight)
        batch = graph.batch_vector()[perm]
        sizes = None
        if not is_traced():
            found = graph.checks.fetch(counts_of(batch, graph.batch_size))
            sizes = Sizes(found, batch.device)
        score = None if score is None else score[perm]
        return cls(S, batch, sizes, perm if named else None, score, label=label)

    @classmethod
    def _bounded(
        cls, sizes: Bounded, centre: Tensor, order: Tensor, weight: Tensor | None,
        score: Tensor | None, named: bool, kept: Sizes | None,
    ) -> Self:  # fmt: skip
        """:meth:`of_centres` of padded graphs."""
        from lcpool.ops.contract.bounded import assign, number_centres

        known = kept if isinstance(kept, Bounded) else None
        perm, label, after = number_centres(centre, order, sizes, known)
        score = None if score is None else score[perm]
        S = assign(label, after.total, weight)
        return cls(S, after.batch, after, perm if named else None, score, label=label)


class PartitionPooling(Pooling):
    r"""Hard clusters: every node belongs to one. A' connects two clusters if an edge of A does.

    .. math::
        X' = S^\top X, \quad A' = S_1^\top A S_1 \text{ without its diagonal}

    :math:`S_1` is S with every weight set to one. A subclass implements ``select`` and returns a
    :class:`Partition`.

    A connected graph stays connected: a path in A, cluster by cluster, is a walk in A'. A' never
    has more edges than A. It has attributes if A has: those of all edges that become one, reduced.

    Args:
        in_channels: width of the node features.
        edge_reduce: how the attributes of edges that become one are reduced: ``"sum"``, ``"mean"``
            or ``"max"``. They may have any width.
    """

    keeps_connected: ClassVar[bool] = True
    keeps_edge_attr = True

    def __init__(self, in_channels: int, edge_reduce: str = "sum") -> None:
        check_arguments(in_channels=in_channels, edge_reduce=edge_reduce)
        super().__init__(in_channels)
        self.edge_reduce = edge_reduce

    def connect(self, graph: Graph, S: Selection) -> tuple[Edges, Tensor | None]:
        """A' and its attributes, None if A has none."""
        assert isinstance(S, Partition)
        if isinstance(graph.edges, BoundedEdges):
            from lcpool.ops.contract.bounded import contract_within

            assert isinstance(S.sizes, Bounded)
            given = graph.batch_vector(), S.assignment_of(graph), S.sizes
            return contract_within(graph.edges, *given), None
        found = contract(graph.edge_index, S.label, S.num_pooled)
        edges = Edges.trusted(found.edges, S.num_pooled, graph.edges.symmetric, in_order=True)
        attr = graph.edge_attr
        if attr is None:
            return edges, None
        check_weights("edge_attr", attr)
        attr = attr if attr.is_floating_point() else attr.to(graph.x.dtype)
        return edges, found.reduce(attr, self.edge_reduce)

    def lift(self, x: Tensor, S: Assignment) -> Tensor:
        """The features of its cluster for each node: S_1 X'."""
        return S.with_weight(None).lift(x)

    __repr__ = arguments_repr


def by_graph(graph: Graph, order: Tensor | None = None) -> Tensor:
    """The nodes sorted by graph, within a graph by ``order``, by default that of their numbers."""
    if order is None:
        sorted_already = graph.batch is None or graph.sizes is not None
        nodes = torch.arange(graph.num_nodes, device=graph.x.device)
        return nodes if sorted_already else graph.members.node
    if graph.batch is None:
        return order
    batch = graph.batch
    if isinstance(graph.sizes, Bounded):
        batch = batch.where(graph.sizes.real, graph.batch_size)  # padding rows come last
    return order[batch[order].argsort(stable=True)]


def ends(edges: Edges, entries: Entries) -> tuple[Tensor, Tensor]:
    """Source and target of each of the ``entries`` of ``edges``, to gather by.

    For padded graphs, both are node 0 past the last edge.
    """
    source, target = entries.source, entries.target
    if not isinstance(edges, BoundedEdges):
        return source, target
    real = torch.arange(edges.room, device=source.device) < edges.out.ptr[-1]
    return source.where(real, 0), target.where(real, 0)


def pair_centres(edge: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """The first end of each node's matched edge, the node itself where that is −1."""
    nodes = torch.arange(edge.numel(), device=edge.device)
    first = torch.cat([source.minimum(target), source.new_zeros(1)])  # −1 is the one at the end
    return nodes.where(edge < 0, first[edge])


def falling(*keys: Tensor) -> Tensor:
    """The order by falling values; where the first keys tie by the next, then by number."""
    order = keys[-1].detach().argsort(descending=True, stable=True)
    for key in reversed(keys[:-1]):
        order = order[key.detach()[order].argsort(descending=True, stable=True)]
    return order


def not_nan(graph: Graph, value: Tensor, scores: Tensor) -> Tensor:
    """``value``, unless one of the scores that it was made from is NaN."""
    if isinstance(graph.checks, Trust):
        return value
    ok = (scores == scores).all()
    return graph.checks.require(value, ok, lambda: NAN.format("scores"))
