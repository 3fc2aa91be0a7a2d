"""What a pooling returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor

from lcpool.ops.edges import Edges
from lcpool.ops.graph import Graph
from lcpool.ops.lazy import lazy


class _Items(NamedTuple):
    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    perm: Tensor | None
    score: Tensor | None


class Pooled(_Items):
    """The six items that PyG's poolings return, by position or by name, and what came with them.

    Items:
        x: features X' of the pooled nodes.
        edge_index: edges of A'.
        edge_attr: weights or attributes of those edges, or None.
        batch: the graph of each pooled node.
        perm: the input node each pooled node stands on; None for dense assignment.
        score: h of the kept nodes; None for dense assignment.

    Attributes:
        batch_size: the number of graphs, trailing empty ones included.
        graph: the pooled graph and what is known of it.
        assignment: S', from input nodes to pooled nodes.
        losses: auxiliary losses by name, unweighted.
        loss: their weighted sum, to be added to the training loss; 0 where there are none.
        graph_loss: that sum for each graph, 0 for empty ones; None where there are no losses.
    """

    batch_size: int = 0
    graph: Graph
    losses: Mapping[str, Tensor] = MappingProxyType({})
    loss: Tensor | float = 0.0
    graph_loss: Tensor | None = None
    _assignment: Any = None

    def __new__(
        cls,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor,
        perm: Tensor | None,
        score: Tensor | None,
        **attributes: Any,
    ) -> Pooled:
        """Make the tuple; the keywords become attributes."""
        self = super().__new__(cls, x, edge_index, edge_attr, batch, perm, score)
        for name, value in attributes.items():
            setattr(self, name, value)
        return self

    @lazy
    def assignment(self) -> Any:
        """S', made when it is first asked for."""
        return self._assignment() if callable(self._assignment) else self._assignment

    @classmethod
    def of(
        cls, graph: Graph, perm: Tensor | None, score: Tensor | None, **attributes: Any
    ) -> Pooled:
        """The output of a pooling that gave ``graph``, which is kept for the next layer."""
        return cls(
            graph.x, graph.edge_index, graph.edge_attr, graph.batch_vector(), perm, score,
            batch_size=graph.batch_size, graph=graph, **attributes,
        )  # fmt: skip

    def _replace(self, **items: Any) -> Pooled:
        """The same output with other items."""
        new = Pooled(**{**self._asdict(), **items}, **self.__dict__)
        known = self.__dict__.get("graph")
        if known is None:
            return new
        if not {"edge_index", "batch"}.isdisjoint(items):  # Nothing is known of these.
            known = replace(known, edges=Edges(new.edge_index, new.x.size(0)), sizes=None)
        new.graph = replace(known, x=new.x, edge_attr=new.edge_attr, batch=new.batch)
        return new

    def lift(self, x: Tensor | None = None) -> Tensor:
        """Bring features of the pooled nodes back to the input nodes: S'X'.

        For TopK and SAG the dropped nodes get zeros; for LCPool every node gets the mean of the
        clusters it belongs to (zeros if to none); for ASAP, DiffPool and MinCut it is S' times X'.

        Args:
            x: features of the pooled nodes, by default the ones in this output.
        """
        lifted: Tensor = self.assignment.lift(self.x if x is None else x)
        return lifted
