"""``Pooling``: the four questions that every pooling answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lcpool.graph.assignment import Assignment
from lcpool.graph.checks import Checks, check_edge_index, check_width
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph, check_channels, check_edge_attr, edge_weight
from lcpool.graph.sizes import Sizes
from lcpool.notice import warn_caller
from lcpool.ops.connect import MAX_EDGES
from lcpool.ops.operator import is_traced
from lcpool.ops.product import connect_assignment
from lcpool.ops.topk import KeepPlan
from lcpool.pool.output import Pooled
from lcpool.pool.selection import Selection


class PoolingError(ValueError):
    """A pooling gave something that cannot be used; the message names its class."""


class Pooling(nn.Module):
    r"""The base of every pooling: select, reduce, connect, lift.

    =============  =========================================  =====================================
    method         question                                   if you do not override it
    =============  =========================================  =====================================
    ``select``     which nodes become one: S                  –
    ``reduce``     the features X' of the pooled nodes        :math:`X' = S^\top X`
    ``connect``    the edges A' between them                  :math:`A' = S^\top A S`, no diagonal
    ``lift``       features back on the input nodes           :math:`S X'`
    =============  =========================================  =====================================

    A pooling of your own overrides ``select``, and what else differs. Each graph must be pooled as
    if it were alone: then several runs can be trained as one.

    ``losses`` gives auxiliary losses by name, one value per graph; each counts times its number in
    ``loss_weights`` (1 if it is not there) in ``out.loss`` and in training. ``pooled_counts`` tells
    how many nodes each graph will have, where that is known before selecting.

    Example:
        >>> import torch
        >>> class Halves(Pooling):
        ...     def select(self, graph):  # nodes 0 and 1 become one, 2 and 3, and so on
        ...         return Assignment.of_labels(torch.arange(graph.num_nodes) // 2)
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> out = Halves()(torch.ones(4, 1), path)
        >>> out.x.tolist(), out.edge_index.tolist()
        ([[2.0], [2.0]], [[0, 1], [1, 0]])
    """

    loss_weights: ClassVar[Mapping[str, float]] = {}
    # Whether graphs are pooled independently of the batch, so that runs can be trained as one.
    stackable: ClassVar[bool] = True
    # Whether a size is read from the device anyway, so that checks can wait for it.
    reads_sizes: ClassVar[bool] = True

    def __init__(self, in_channels: int | None = None) -> None:
        super().__init__()
        self.said_emptied = False
        if in_channels is not None:
            self.in_channels = check_width("in_channels", in_channels)

    def select(self, graph: Graph) -> Selection | Assignment:
        """S: a column for each pooled node, in any order, or a :class:`Selection`."""
        raise NotImplementedError(f"{type(self).__name__} must say which nodes become one: select.")

    def reduce(self, graph: Graph, S: Selection) -> Tensor:
        r"""X', ``[num_pooled, channels]``; by default :math:`S^\top X`, sums over clusters."""
        return S.assignment.reduce(graph.x)

    def connect(self, graph: Graph, S: Selection) -> tuple[Edges | Tensor, Tensor | None]:
        r"""A' as edges and their attributes; by default :math:`S^\top A S` without the diagonal.

        Clusters are joined where an edge joins them. The edges have weights where the input's do,
        or where S has weights. A pooling of your own returns ``edge_index, edge_attr``.
        """
        weight = edge_weight(graph.edge_attr, graph.x.dtype)
        plan = None
        if graph.sizes is not None and S.sizes is not None:
            plan = KeepPlan(graph.sizes, S.sizes)
        index, total = connect_assignment(
            graph.edge_index, S.assignment, weight, graph.batch, plan, False, MAX_EDGES,
            graph.checks,
        )  # fmt: skip
        unweighted = weight is None and S.assignment.weight is None
        edges = Edges.trusted(index, S.num_pooled, graph.edges.symmetric, in_order=True)
        return edges, None if unweighted else total

    def lift(self, x: Tensor, S: Assignment) -> Tensor:
        """Features of the pooled nodes on the input nodes; by default S X'."""
        return S.lift(x)

    def losses(self, graph: Graph, S: Selection) -> dict[str, Tensor]:
        """Auxiliary losses by name, ``[batch_size]`` each; by default none."""
        return {}

    def pooled_counts(self, counts: Tensor) -> Tensor | None:
        """How many nodes each graph will have, from how many it has, both on the host.

        None, the default, where only selecting tells.
        """
        return None

    def reset_parameters(self) -> None:
        """Draw the parameters of all parts anew."""
        for part in self.children():
            reset(part)

    def check(
        self,
        x: Any,
        edge_index: Any = None,
        edge_attr: Any = None,
        batch: Any = None,
        batch_size: int | None = None,
        width: bool = True,
    ) -> Graph:
        """The arguments of a call as a graph.

        A :class:`Graph` in place of x, or of the edges where x are other features of its nodes, was
        checked before.

        Args:
            x: node features, or the graph.
            edge_index: its edges, or the graph.
            edge_attr: their attributes.
            batch: the graph of each node.
            batch_size: the number of graphs.
            width: whether x must have the width that the layer was made for.
        """
        if isinstance(x, Graph) or isinstance(edge_index, Graph):
            if any(given is not None for given in (edge_attr, batch, batch_size)):
                raise TypeError("a Graph has its edge_attr and batch; pass neither beside it.")
            return x if isinstance(x, Graph) else replace(edge_index, x=x)
        if edge_index is None:
            raise TypeError("'edge_index' is missing: call the pooling as pool(x, edge_index, …).")
        graph = Graph.of(x, edge_index, edge_attr, batch, batch_size, self.reads_sizes)
        if width:
            check_channels(self, graph.x)
        return graph

    def forward(
        self,
        x: Tensor | Graph,
        edge_index: Tensor | Graph | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        batch_size: int | None = None,
    ) -> Pooled:
        """Pool a batch of graphs.

        Args:
            x: node features, ``[num_nodes, channels]``; or a checked :class:`Graph`.
            edge_index: source and target of each edge, ``[2, num_edges]``; or a checked
                :class:`Graph`, whose features are not used.
            edge_attr: edge weights or attributes.
            batch: the graph of each node; one graph if None. Need not be sorted.
            batch_size: the number of graphs. With it, empty graphs at the end are counted and a
                GPU need not synchronise for it.
        """
        graph = self.check(x, edge_index, edge_attr, batch, batch_size)
        return self.pooled(graph, self.select(graph))

    def pooled(self, graph: Graph, selected: Selection | Assignment) -> Pooled:
        """The pooled graph, once it is known what was selected."""
        S = self._selection(graph, selected)
        sizes = self._sizes(graph, S)
        X = self.reduce(graph, S)
        if not isinstance(X, Tensor) or X.dim() != 2 or X.size(0) != S.num_pooled:
            self._refuse(
                f"'reduce' must give a row of features for each of {S.num_pooled} pooled nodes, "
                f"not {_shape(X)}"
            )
        edges, attr = self._edges(S, self.connect(graph, S))
        after = Graph(X, edges, attr, S.batch, graph.batch_size, sizes, graph.checks)
        return Pooled.of(after, S, self.lift, **self._loss(graph, S))

    def _selection(self, graph: Graph, selected: Any) -> Selection:
        """What ``select`` gave, as a selection."""
        if isinstance(selected, Selection):
            return selected
        if not isinstance(selected, Assignment):
            self._refuse(f"'select' must return an Assignment, not {type(selected).__name__}")
        try:
            S = Selection.of(selected, graph)
        except ValueError as error:
            self._refuse(f"'select' gave an assignment that cannot be used: {error}", error)
        if S.sizes is not None:
            self._check_counts(graph, S.sizes.counts)
            self._say_emptied(graph.host_counts(), S.sizes.counts)
        return S

    def _check_counts(self, graph: Graph, found: Tensor) -> None:
        """Refuse a ``pooled_counts`` that tells other numbers of nodes than there are."""
        counts = None if graph.sizes is None else self.pooled_counts(graph.sizes.counts)
        if counts is not None and not torch.equal(counts, found):
            self._refuse(
                f"'pooled_counts' says {_few(counts)} nodes of the graphs, but 'select' gave "
                f"{_few(found)}: let it tell what each graph keeps, or return None"
            )

    def _say_emptied(self, before: Tensor, after: Tensor) -> None:
        """Say once that graphs lose all their nodes: what is read from such a graph is zero."""
        lost = 0 if self.said_emptied else int(((before > 0) & (after == 0)).sum())
        if lost:
            self.said_emptied = True
            warn_caller(
                f"{self.class_name} leaves graphs without a node ({lost} of {len(before)} in a "
                f"batch); what a network reads from them is zero. Keep at least one node of each."
            )

    def _edges(self, S: Selection, connected: Any) -> tuple[Edges, Tensor | None]:
        """What ``connect`` gave, as edges; those of one's own are checked."""
        try:
            edges, attr = connected
        except (TypeError, ValueError) as error:
            self._refuse(f"'connect' must return edge_index, edge_attr, not {_shape(connected)}",
                         error)  # fmt: skip
        if isinstance(edges, Edges):
            if edges.num_nodes != S.num_pooled:
                self._refuse(f"'connect' gave edges of {edges.num_nodes} nodes, not {S.num_pooled}")
            return edges, attr
        checks = Checks()
        try:
            edges = Edges.trusted(
                check_edge_index(edges, S.num_pooled, checks, S.batch), S.num_pooled
            )
            check_edge_attr(attr, edges.index)
            checks.settle()
        except (TypeError, ValueError) as error:
            self._refuse(f"'connect' gave edges that cannot be used: {error}", error)
        return edges, attr

    def _sizes(self, graph: Graph, S: Selection) -> Sizes | None:
        """How many nodes each graph has afterwards, if select or ``pooled_counts`` says."""
        if S.sizes is not None or graph.sizes is None or is_traced():
            return S.sizes
        if self.pooled_counts(graph.sizes.counts) is None:
            return None
        found = S.batch.bincount(minlength=graph.batch_size).cpu()
        self._check_counts(graph, found)
        return Sizes(found, graph.x.device)

    def _loss(self, graph: Graph, S: Selection) -> dict[str, Any]:
        """The auxiliary losses of a call: by name, their weighted sum, and that of each graph."""
        losses = self.losses(graph, S)
        if not isinstance(losses, Mapping):
            self._refuse(f"'losses' must return a dict of losses by name, not {_shape(losses)}")
        if not losses:
            return {}
        for name, value in losses.items():
            if not isinstance(value, Tensor) or value.shape != (graph.batch_size,):
                self._refuse(
                    f"the loss '{name}' must have one value per graph, shape "
                    f"[{graph.batch_size}], not {_shape(value)}"
                )
        weights = [self.loss_weights.get(name, 1.0) for name in losses]
        first = next(iter(losses.values()))
        total = first.new_zeros(graph.batch_size)
        total = sum((w * v for w, v in zip(weights, losses.values(), strict=True)), total)
        has_nodes = graph.node_counts() > 0
        return {
            "losses": {name: mean_where(has_nodes, value) for name, value in losses.items()},
            "loss": mean_where(has_nodes, total),
            "graph_loss": total.where(has_nodes, 0.0),
        }

    @property
    def class_name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    def _refuse(self, what: str, error: Exception | None = None) -> NoReturn:
        raise PoolingError(f"{self.class_name}: {what.rstrip('.')}.") from error


def _few(counts: Tensor) -> str:
    shown = ", ".join(map(str, counts[:8].tolist()))
    return f"[{shown}{', …' if counts.numel() > 8 else ''}]"


def _shape(value: Any) -> str:
    return f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def mean_where(wanted: Tensor, values: Tensor) -> Tensor:
    """The mean of the values that are wanted; 0 if none is."""
    return values.where(wanted, 0.0).sum() / wanted.sum().clamp(min=1)
