"""``Pooling``: the four questions that every pooling answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lcpool.graph.assignment import Assignment
from lcpool.graph.checks import Checks, check_range
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph, check_channels, check_edge_attr, check_features, edge_weight
from lcpool.graph.sizes import Sizes, counts_of
from lcpool.nn.arguments import check_arguments
from lcpool.ops.connect import MAX_EDGES
from lcpool.ops.connect.product import connect_assignment
from lcpool.ops.operator import is_traced
from lcpool.ops.topk import KeepPlan
from lcpool.pool.output import Pooled
from lcpool.pool.selection import Selection
from lcpool.warn import warn_caller


class PoolingError(ValueError):
    """A pooling returned something that cannot be used; the message names its class."""


class Pooling(nn.Module):
    r"""The base class of every pooling: select, reduce, connect, lift.

    =============  =========================================  =====================================
    method         question                                   default
    =============  =========================================  =====================================
    ``select``     which nodes become one: S                  none: override it
    ``reduce``     the features X' of the pooled nodes        :math:`X' = S^\top X`
    ``connect``    the edges A' between them                  :math:`A' = S^\top A S`, no diagonal
    ``lift``       features back on the input nodes           :math:`S X'`
    =============  =========================================  =====================================

    Your own pooling overrides ``select``, and the others where it differs. It must pool each graph
    independently of the rest of the batch: then several runs can be trained as one.

    ``losses`` returns auxiliary losses by name, one value per graph; each is multiplied by its
    number in ``loss_weights`` (default 1) in ``out.loss`` and in training. ``pooled_counts``
    returns how many nodes each graph will have, where that is known before ``select``.

    Example:
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
    # Whether ``edge_attr`` of any width comes out, a row for each pooled edge: those of the input.
    keeps_edge_attr: bool = False
    # Whether a call reads a size from the device anyway, so that checks can be read with it.
    reads_sizes: ClassVar[bool] = True
    # Whether a connected graph stays connected, whatever its features.
    keeps_connected: ClassVar[bool] = False
    # Whether all rows of S have one sum and X' = SᵀX: then two graphs that WL-1 tells apart before
    # can be told apart after (Bianchi and Lachi 2023).
    expressive: ClassVar[bool] = False
    # How time grows with n nodes, m edges, degree d and k clusters, for features of one width.
    cost: ClassVar[str] = ""

    def __init__(self, in_channels: int | None = None) -> None:
        super().__init__()
        self.warned_of_empty = False
        if in_channels is not None:
            check_arguments(in_channels=in_channels)
            self.in_channels = in_channels

    def select(self, graph: Graph) -> Selection | Assignment:
        """S with one column per pooled node, in any order; or a :class:`Selection`."""
        raise NotImplementedError(
            f"{self.class_name} has no 'select': override it and return an Assignment."
        )

    def reduce(self, graph: Graph, S: Selection) -> Tensor:
        r"""X', ``[num_pooled, channels]``; by default :math:`S^\top X`, sums over clusters."""
        return S.assignment.reduce(graph.x)

    def connect(self, graph: Graph, S: Selection) -> tuple[Edges | Tensor, Tensor | None]:
        r"""``edge_index, edge_attr`` of A'; by default :math:`S^\top A S` without the diagonal.

        By default the edges have weights if those of the input or the entries of S have.
        """
        plan = None
        if graph.sizes is not None and S.sizes is not None:
            plan = KeepPlan(graph.sizes, S.sizes)
        index, weight = connect_assignment(
            graph.edge_index, S.assignment_of(graph), edge_weight(graph.edge_attr, graph.x.dtype),
            graph.batch, plan, False, MAX_EDGES, graph.checks,
        )  # fmt: skip
        unweighted = graph.edge_attr is None and S.assignment.weight is None
        edges = Edges.trusted(index, S.num_pooled, graph.edges.symmetric, in_order=True)
        return edges, None if unweighted else weight

    def lift(self, x: Tensor, S: Assignment) -> Tensor:
        """Features of the pooled nodes on the input nodes; by default S X'."""
        return S.lift(x)

    def losses(self, graph: Graph, S: Selection) -> dict[str, Tensor]:
        """Auxiliary losses by name, ``[batch_size]`` each; by default none."""
        return {}

    def pooled_counts(self, counts: Tensor) -> Tensor | None:
        """The number of nodes of each graph after pooling, from the number before, on the host.

        None, the default, if it is known only after ``select``.
        """
        return None

    def reset_parameters(self) -> None:
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
        """The arguments of a call as a graph; with ``width``, x must have the layer's width.

        The edges of a :class:`Graph` in place of ``x`` or ``edge_index`` were checked before.
        """
        if isinstance(x, Graph) or isinstance(edge_index, Graph):
            if any(given is not None for given in (edge_attr, batch, batch_size)):
                raise TypeError("a Graph contains edge_attr and batch; do not pass them as well.")
            graph = x if isinstance(x, Graph) else replace(edge_index, x=check_features("x", x))
        elif edge_index is None:
            raise TypeError(
                "'edge_index' is missing: call pool(data.x, data.edge_index, batch=data.batch)."
            )
        else:
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
            batch_size: the number of graphs. Pass it to count empty graphs at the end, and to
                spare a GPU a synchronisation.
        """
        graph = self.check(x, edge_index, edge_attr, batch, batch_size)
        return self.pooled(graph, self.select(graph))

    def pooled(self, graph: Graph, selected: Selection | Assignment) -> Pooled:
        """The output, from what :meth:`select` returned."""
        S = self._selection(graph, selected)
        X = self.reduce(graph, S)
        if not isinstance(X, Tensor) or X.dim() != 2 or X.size(0) != S.num_pooled:
            self._refuse(
                f"'reduce' must return one row of features for each of {S.num_pooled} pooled "
                f"nodes, not {shape_of(X)}"
            )
        edges, attr = self._edges(S, self.connect(graph, S))
        after = Graph(X, edges, attr, S.batch, graph.batch_size, S.sizes, graph.checks)
        return Pooled.of(after, S, lifting=self.lift, **self._loss(graph, S))

    def _selection(self, graph: Graph, selected: Any) -> Selection:
        """What ``select`` returned, with the sizes of the pooled graphs if the host knows them."""
        S = selected
        if isinstance(S, Assignment):
            try:
                S = Selection.of(S, graph)
            except ValueError as error:
                self._refuse(f"'select' returned an assignment that cannot be used: {error}", error)
            if S.sizes is not None:
                self._warn_of_empty(graph.host_counts(), S.sizes.counts)
        elif not isinstance(S, Selection):
            self._refuse(f"'select' must return an Assignment, not {type(S).__name__}")
        elif S.sizes is not None:
            return S
        if graph.sizes is None or is_traced():
            return S
        counts = self.pooled_counts(graph.sizes.counts)
        if counts is None:
            return S
        sizes = S.sizes
        if sizes is None:
            checks = Checks()  # not the graph's: a pooling can be wrong where the data are trusted
            batch = check_range("batch", S.batch, graph.batch_size, "graph", checks)
            found = checks.fetch(counts_of(batch, graph.batch_size))
            sizes = Sizes(found, graph.x.device)
            S = replace(S, sizes=sizes)
        if not torch.equal(counts, sizes.counts):
            self._refuse(
                f"'pooled_counts' returned {counts[:8].tolist()} nodes for the first graphs, but "
                f"'select' made {sizes.counts[:8].tolist()}: correct it, or let it return None"
            )
        return S

    def _warn_of_empty(self, before: Tensor, after: Tensor) -> None:
        """Warn once that graphs lose all their nodes: their readouts are zero."""
        lost = 0 if self.warned_of_empty else int(((before > 0) & (after == 0)).sum())
        if lost:
            self.warned_of_empty = True
            warn_caller(
                f"{self.class_name} leaves {lost} of {len(before)} graphs of a batch without a "
                f"node; their readouts are zero. Keep at least one node of each graph."
            )

    def _edges(self, S: Selection, connected: Any) -> tuple[Edges, Tensor | None]:
        """What ``connect`` returned; a tensor is checked, :class:`Edges` are trusted."""
        try:
            edges, attr = connected
        except (TypeError, ValueError) as error:
            what = f"'connect' must return edge_index, edge_attr, not {shape_of(connected)}"
            self._refuse(what, error)
        if isinstance(edges, Edges):
            count = edges.num_nodes
            if count != S.num_pooled:
                self._refuse(f"'connect' returned edges of {count} nodes, not {S.num_pooled}")
            return edges, attr
        try:
            edges = Edges(edges, S.num_pooled, like=S.batch)
            check_edge_attr(attr, edges.index)
        except (TypeError, ValueError) as error:
            self._refuse(f"'connect' returned edges that cannot be used: {error}", error)
        return edges, attr

    def _loss(self, graph: Graph, S: Selection) -> dict[str, Any]:
        """The auxiliary losses: by name, their weighted sum, and that sum for each graph."""
        losses = self.losses(graph, S)
        if not isinstance(losses, Mapping):
            self._refuse(f"'losses' must return a dict of losses by name, not {shape_of(losses)}")
        if not losses:
            return {}
        for name, value in losses.items():
            if not isinstance(value, Tensor) or value.shape != (graph.batch_size,):
                self._refuse(
                    f"the loss '{name}' must have one value per graph, shape "
                    f"[{graph.batch_size}], not {shape_of(value)}"
                )
        weighted = [self.loss_weights.get(name, 1.0) * value for name, value in losses.items()]
        total = sum(weighted, torch.zeros_like(weighted[0]))
        has_nodes = graph.node_counts() > 0
        return {
            "losses": {name: mean_where(has_nodes, value) for name, value in losses.items()},
            "loss": mean_where(has_nodes, total),
            "graph_loss": total.where(has_nodes, 0.0),
        }

    @property
    def class_name(self) -> str:
        """The name in messages."""
        return type(self).__name__

    def _refuse(self, what: str, error: Exception | None = None) -> NoReturn:
        raise PoolingError(f"{self.class_name}: {what.rstrip('.')}.") from error


def shape_of(value: Any) -> str:
    """The shape of a tensor, the type of anything else, for messages."""
    return f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def mean_where(wanted: Tensor, values: Tensor) -> Tensor:
    """The mean of the values that are wanted; 0 if none is."""
    return values.where(wanted, 0.0).sum() / wanted.sum().clamp(min=1)
