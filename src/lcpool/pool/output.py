"""The output of a pooling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.bounded import BoundedEdges
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph
from lcpool.graph.lazy import lazy
from lcpool.pool.selection import Selection


class _Items(NamedTuple):
    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    perm: Tensor | None = None
    score: Tensor | None = None


class Pooled(_Items):
    """The output of a pooling: the six items that PyG's poolings return, and some attributes.

    By position or by name:
        x: features X' of the pooled nodes.
        edge_index: edges of A'.
        edge_attr: weights or attributes of these edges, or None.
        batch: the graph of each pooled node.
        perm: the input node that each pooled node came from, or None if there is no such node.
        score: h of the pooled nodes, or None (DiffPool, MinCut, DMoN, Graclus).

    Attributes:
        graph: the pooled graph, already checked; pass it to the next layer.
        batch_size: the number of graphs, empty ones at the end included.
        assignment: S, from input nodes to pooled nodes.
        losses: auxiliary losses by name, unweighted.
        loss: their weighted sum, to be added to the training loss; 0 if there are none.
        graph_loss: that sum for each graph, 0 for empty ones; None if there are no losses.
        merges: True if a pooled node stands for its whole cluster (k-MIS, CellPool, DiffPool);
            False if it stands for one kept node, and the others are dropped (TopK, SAG, LCPool).
    """

    losses: Mapping[str, Tensor] = MappingProxyType({})
    graph_loss: Tensor | None = None
    made: Assignment | Callable[[], Assignment] | None = None
    lifting: Callable[[Tensor, Assignment], Tensor] | None = None
    merges: bool = False
    _loss: Tensor | float = 0.0

    def __new__(
        cls,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor,
        perm: Tensor | None = None,
        score: Tensor | None = None,
        **attributes: Any,
    ) -> Pooled:
        self = super().__new__(cls, x, edge_index, edge_attr, batch, perm, score)
        for name, value in attributes.items():
            setattr(self, name, value)
        return self

    @classmethod
    def of(cls, graph: Graph, S: Selection | None = None, **attributes: Any) -> Pooled:
        """The output of a pooling that selected S, if that is known, and made ``graph``."""
        if S is not None:
            attributes["perm"], attributes["score"], attributes["merges"] = (
                S.perm,
                S.score,
                S.merges,
            )
            attributes["made"] = S.__dict__.get("assignment", S.S)
        # For padded graphs, edges are known as neighbours.
        index: Any = None if isinstance(graph.edges, BoundedEdges) else graph.edge_index
        return cls(graph.x, index, graph.edge_attr, graph.batch_vector(), graph=graph, **attributes)

    @lazy
    def graph(self) -> Graph:
        """The pooled graph; checked here if the output did not come from a pooling of lcpool."""
        return Graph.of(self.x, self.edge_index, self.edge_attr, self.batch)

    @property
    def batch_size(self) -> int:
        return self.graph.batch_size

    @property
    def loss(self) -> Tensor | float:
        """The weighted sum of the auxiliary losses, averaged over graphs; 0 if there are none."""
        return self._loss

    @loss.setter
    def loss(self, value: Tensor | float) -> None:
        # One value for the whole batch: the values per graph no longer belong to it.
        self._loss = value if isinstance(value, Tensor) else self.x.new_tensor(float(value))
        self.graph_loss = None

    @lazy
    def assignment(self) -> Assignment:
        """S, made on first use."""
        if self.made is None:
            raise ValueError(
                "this output has no assignment, so 'lift' and 'labels' are not possible: the layer "
                "that made it is not an lcpool.Pooling."
            )
        return self.made if isinstance(self.made, Assignment) else self.made()

    def labels(self) -> Tensor:
        """The pooled node that each input node belongs to most, −1 where it belongs to none."""
        return self.assignment.labels(self.perm)

    def lift(self, x: Tensor | None = None) -> Tensor:
        """Features of the pooled nodes, by default this output's, on the input nodes: S X'.

        With TopK and SAG, dropped nodes get zeros; with LCPool, every node gets the mean of the
        clusters it belongs to (zeros if it belongs to none).
        """
        S, x = self.assignment, self.x if x is None else x
        return S.lift(x) if self.lifting is None else self.lifting(x, S)

    def _replace(self, **items: Any) -> Pooled:
        """The same output with other items."""
        known = self.graph
        new = Pooled(**{**self._asdict(), **items}, **self.__dict__)
        if not {"edge_index", "batch"}.isdisjoint(items):  # their order is not known
            known = replace(known, edges=Edges(new.edge_index, new.x.size(0)), sizes=None)
        new.graph = replace(known, x=new.x, edge_attr=new.edge_attr, batch=new.batch)
        return new

    def __repr__(self) -> str:
        shapes = (
            f"{name}={None if value is None else list(value.shape)}"
            for name, value in self._asdict().items()
        )
        return f"{self.__class__.__name__}({', '.join(shapes)})"
