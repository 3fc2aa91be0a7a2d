"""What local assignment selection and local cluster selection share."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lcpool.nn import ConvScore, Score
from lcpool.ops.assignment import Assignment
from lcpool.ops.checks import Trust
from lcpool.ops.connect import MAX_EDGES
from lcpool.ops.edges import Edges
from lcpool.ops.gate import gate
from lcpool.ops.graph import Graph, check_channels, check_features
from lcpool.ops.topk import KeepPlan, Kept, above, check_ratio, topk
from lcpool.pool.output import Pooled

ScoreFunction = Callable[[Tensor, Tensor], Tensor]

NAN_SCORES = (
    "the scores contain NaN: look for NaN or inf in 'x' or in the layer's parameters "
    "(a diverged training leaves them there)."
)


class SelectionPooling(nn.Module):
    """What both procedures share: X*, h = g(X*, A), î = topk(h), X' = (X* ⊙ h)(î, :).

    A subclass says how X* comes from X (:meth:`gather`) and how A' comes about (:meth:`connect`).
    """

    def __init__(
        self,
        score: ScoreFunction,
        ratio: float,
        min_score: float | None = None,
        multiplier: float = 1.0,
        max_edges: int = MAX_EDGES,
    ) -> None:
        super().__init__()
        check_instance("score", score)
        self.score = score if isinstance(score, Score) else ConvScore(score)
        self.ratio = check_ratio(ratio)
        self.min_score = min_score
        self.multiplier = multiplier
        self.max_edges = operator.index(max_edges)

    def reset_parameters(self) -> None:
        """Draw the parameters of all parts anew."""
        for part in self.children():
            reset(part)

    @property
    def keeps_planned(self) -> bool:
        """Whether the numbers of kept nodes are known beforehand: ⌈ratio · n⌉ of each graph."""
        return self.min_score is None and type(self).select is SelectionPooling.select

    def prepare(self, graph: Graph) -> Graph:
        """The graph to pool: the input, unless an operator is defined on something else."""
        return graph

    def gather(self, graph: Graph) -> tuple[Tensor, Assignment | None]:
        """X*, and S where it is made."""
        raise NotImplementedError

    def connect(
        self, graph: Graph, kept: Kept, plan: KeepPlan | None, S: Assignment | None
    ) -> tuple[Edges, Tensor | None, Assignment | Callable[[], Assignment]]:
        """A' as edges and attributes, and S', or what makes it when it is asked for."""
        raise NotImplementedError

    def select(self, rank: Tensor, graph: Graph, plan: KeepPlan | None) -> tuple[Tensor, ...]:
        """î, the graphs of the kept nodes, and h of all nodes."""
        h = self.score.gate(rank, graph)
        if plan is None:
            assert self.min_score is not None
            perm, batch = above(h, graph, self.min_score)
        else:
            perm, batch = topk(rank, graph, plan)
        return perm, batch, h

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        attn: Tensor | None = None,
        *,
        batch_size: int | None = None,
    ) -> Pooled:
        """Pool a batch of graphs.

        Args:
            x: node features, ``[num_nodes, channels]``.
            edge_index: source and target of each edge, ``[2, num_edges]``.
            edge_attr: edge weights or attributes.
            batch: the graph of each node; one graph if None. Need not be sorted.
            attn: features to score nodes by, in place of X*.
            batch_size: the number of graphs. With it, empty graphs at the end are counted and a
                GPU need not be asked.
        """
        graph = Graph.of(x, edge_index, edge_attr, batch, batch_size)
        check_channels(self, graph.x)
        return self.pool(graph, attn)

    def pool(self, graph: Graph, attn: Tensor | None = None) -> Pooled:
        """:meth:`forward` on checked input."""
        graph = self.prepare(graph)
        plan = KeepPlan.of(self.ratio, graph) if self.min_score is None else None
        X, S = self.gather(graph)
        scored = X if attn is None else check_features("attn", attn, like=graph.x)
        X, h, kept = self._choose(X, scored, graph, plan)
        X = X if self.multiplier == 1 else X * self.multiplier
        edges, attr, assignment = self.connect(graph, kept, plan, S)
        sizes = plan.kept if plan is not None and self.keeps_planned else None
        pooled = Graph(X, edges, attr, kept.batch, graph.batch_size, sizes, graph.checks)
        return Pooled.of(pooled, kept.perm, h, _assignment=assignment)

    def _choose(
        self, X: Tensor, scored: Tensor, graph: Graph, plan: KeepPlan | None
    ) -> tuple[Tensor, Tensor, Kept]:
        """X' = (X ⊙ h)(î, :), h(î) and î; in one step if possible."""
        chosen = None
        if scored is X and plan is not None and self.keeps_planned:
            chosen = self.score.choose(X, graph, plan)
        if chosen is None:
            rank = self.score.rank(scored, graph.edges)
            perm, batch, h = self.select(rank, graph, plan)
            ok = None if isinstance(graph.checks, Trust) else (h == h).all()
            (X, h), kept = gate(X, h.to(X.dtype), perm), Kept(perm, batch)
        else:
            X, h, kept, ok = chosen
        if ok is not None:
            perm = graph.checks.require(kept.perm, ok, lambda: NAN_SCORES)
            kept = kept._replace(perm=perm)
        return X, h, kept

    def _size_repr(self) -> str:
        return f"ratio={self.ratio}" if self.min_score is None else f"min_score={self.min_score}"


def check_instance(name: str, part: Any) -> None:
    """Raise where a class was passed in place of a layer made from it, or what is no layer."""
    if isinstance(part, type):
        raise TypeError(f"'{name}' must be a layer, {part.__name__}(…), not the class itself.")
    if part is not None and not callable(part):
        raise TypeError(f"'{name}' must be a layer or a function, not {part!r}.")
