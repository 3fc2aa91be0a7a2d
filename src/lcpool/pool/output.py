"""What a pooling returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor

from lcpool.graph.assignment import Assignment
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
    """The six items that PyG's poolings return, by position or by name, and what came with them.

    Items:
        x: features X' of the pooled nodes.
        edge_index: edges of A'.
        edge_attr: weights or attributes of those edges, or None.
        batch: the graph of each pooled node.
        perm: the input node each pooled node stands on; None where it stands on none.
        score: h of the kept nodes; None where nodes have no score.

    Attributes:
        graph: the pooled graph and what is known of it, for the next layer.
        batch_size: the number of graphs, trailing empty ones included.
        assignment: S, from input nodes to pooled nodes.
        losses: auxiliary losses by name, unweighted.
        loss: their weighted sum, to be added to the training loss; 0 where there are none.
        graph_loss: that sum for each graph, 0 for empty ones; None where there are no losses.
    """

    losses: Mapping[str, Tensor] = MappingProxyType({})
    graph_loss: Tensor | None = None
    made: Assignment | Callable[[], Assignment] | None = None
    lifting: Callable[[Tensor, Assignment], Tensor] | None = None
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
        """Make the tuple; the keywords become attributes."""
        self = super().__new__(cls, x, edge_index, edge_attr, batch, perm, score)
        for name, value in attributes.items():
            setattr(self, name, value)
        return self

    @classmethod
    def of(
        cls,
        graph: Graph,
        S: Selection,
        lifting: Callable[[Tensor, Assignment], Tensor],
        **attributes: Any,
    ) -> Pooled:
        """The output of a pooling that selected S and gave ``graph``."""
        return cls(
            graph.x, graph.edge_index, graph.edge_attr, graph.batch_vector(), S.perm, S.score,
            graph=graph, made=S.made, lifting=lifting, **attributes,
        )  # fmt: skip

    @lazy
    def graph(self) -> Graph:
        """The pooled graph; checked here where the output was put together by hand."""
        return Graph.of(self.x, self.edge_index, self.edge_attr, self.batch)

    @property
    def batch_size(self) -> int:
        """The number of graphs, trailing empty ones included."""
        return self.graph.batch_size

    @property
    def loss(self) -> Tensor | float:
        """The weighted sum of the auxiliary losses, a mean over graphs; 0 where there are none."""
        return self._loss

    @loss.setter
    def loss(self, value: Tensor | float) -> None:
        # One value for the whole batch: what each graph had is no part of it any more.
        self._loss = value if isinstance(value, Tensor) else self.x.new_tensor(float(value))
        self.graph_loss = None

    @lazy
    def assignment(self) -> Assignment:
        """S, made when it is first asked for."""
        if self.made is None:
            raise ValueError(
                "this output tells no assignment, so there are no labels and no way back: it comes "
                "from a layer that is no lcpool.Pooling."
            )
        return self.made if isinstance(self.made, Assignment) else self.made()

    def labels(self) -> Tensor:
        """The pooled node that each input node belongs to most, −1 where it belongs to none."""
        return self.assignment.labels(self.perm)

    def lift(self, x: Tensor | None = None) -> Tensor:
        """Bring features of the pooled nodes back to the input nodes: S X'.

        For TopK and SAG the dropped nodes get zeros; for LCPool every node gets the mean of the
        clusters it belongs to (zeros if to none); for ASAP, DiffPool and MinCut it is S times X'.

        Args:
            x: features of the pooled nodes, by default the ones in this output.
        """
        S, x = self.assignment, self.x if x is None else x
        return S.lift(x) if self.lifting is None else self.lifting(x, S)

    def _replace(self, **items: Any) -> Pooled:
        """The same output with other items."""
        known = self.graph
        new = Pooled(**{**self._asdict(), **items}, **self.__dict__)
        if not {"edge_index", "batch"}.isdisjoint(items):  # Nothing is known of these.
            known = replace(known, edges=Edges(new.edge_index, new.x.size(0)), sizes=None)
        new.graph = replace(known, x=new.x, edge_attr=new.edge_attr, batch=new.batch)
        return new

    def __repr__(self) -> str:
        shapes = (
            f"{name}={None if value is None else list(value.shape)}"
            for name, value in self._asdict().items()
        )
        return f"{self.__class__.__name__}({', '.join(shapes)})"
