"""Poolings that keep the nodes of highest score: what the paper's two procedures share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.checks import Trust
from lcpool.graph.graph import Graph, check_channels, check_features
from lcpool.nn import ConvScore, Score
from lcpool.nn.arguments import arguments_repr, check_arguments
from lcpool.ops.connect import MAX_EDGES
from lcpool.ops.topk import KeepPlan, Kept, above, check_ratio, gate, keep_counts, topk
from lcpool.pool.base import Pooling
from lcpool.pool.output import Pooled
from lcpool.pool.selection import NAN, Selection


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KeptNodes(Selection):
    """Kept nodes î and their features X', which come with the scores.

    Attributes:
        perm: î.
        x: X' = (X* ⊙ h)(î, :).
        place: the place of each input node in î, −1 for a dropped one; None if not known.
        plan: how many nodes each graph has and keeps, if that is known before scoring.
        whole: S of all clusters if it was computed for X*.
    """

    merges: ClassVar[bool] = False
    perm: Tensor
    x: Tensor
    place: Tensor | None = None
    plan: KeepPlan | None = None
    whole: Assignment | None = None

    @property
    def kept(self) -> Kept:
        """î, with the graph and the place of each."""
        return Kept(self.perm, self.batch, self.place)


class ScoredPooling(Pooling):
    r"""Keep the nodes of highest score.

    .. math::
        h = g(X^*, A), \quad \hat{i} = \mathrm{topk}(h), \quad X' = (X^* \odot h)(\hat{i}, :)

    A subclass defines X* (:meth:`gather`), S (:meth:`assigned`) and A' (:meth:`connect`). The
    arguments are those of :class:`LocalClusterPooling`.
    """

    def __init__(
        self,
        score: Callable[..., Tensor],
        ratio: float | None,
        min_score: float | None = None,
        multiplier: float = 1.0,
        max_edges: int = MAX_EDGES,
    ) -> None:
        check_arguments(
            score=score, min_score=min_score, multiplier=multiplier, max_edges=max_edges
        )
        super().__init__()
        self.score = score if isinstance(score, Score) else ConvScore(score)
        self.ratio = None if min_score is not None else check_ratio(ratio)
        self.min_score, self.multiplier, self.max_edges = min_score, multiplier, max_edges

    def gather(self, graph: Graph) -> tuple[Tensor, Assignment | None]:
        """X*, and S of all clusters if it was computed for it."""
        return graph.x, None

    def assigned(
        self, graph: Graph, perm: Tensor, S: Assignment | None
    ) -> Callable[[], Assignment]:
        """A function that makes S(:, î); called only if S is needed."""
        raise NotImplementedError

    def pooled_counts(self, counts: Tensor) -> Tensor | None:
        """⌈ratio · n⌉ for each graph of n nodes; None with ``min_score``."""
        return None if self.ratio is None else keep_counts(self.ratio, counts)

    def plan(self, graph: Graph) -> KeepPlan | None:
        """How many nodes each graph has and keeps; None with ``min_score``."""
        return None if self.ratio is None else KeepPlan.of(self.ratio, graph)

    def select(self, graph: Graph, attn: Tensor | None = None) -> KeptNodes:
        """î and X', by the scores of X*, or of ``attn`` in its place."""
        plan = self.plan(graph)
        X, S = self.gather(graph)
        X, score, kept, ok = self.choose(X, graph, plan, attn)
        perm = kept.perm
        if ok is not None:
            perm = graph.checks.require(perm, ok, lambda: NAN.format("scores"))
        return KeptNodes(
            self.assigned(graph, perm, S),
            perm.new_zeros(perm.numel()) if kept.batch is None else kept.batch,
            None if plan is None else plan.kept,
            perm=perm, score=score, x=X, place=kept.place, plan=plan, whole=S,
        )  # fmt: skip

    def choose(
        self, X: Tensor, graph: Graph, plan: KeepPlan | None, attn: Tensor | None
    ) -> tuple[Tensor, Tensor, Kept, Tensor | None]:
        """X', h(î), î, and whether no score is NaN, or None if the caller does not care."""
        rank = self.score.rank(X if attn is None else attn, graph)
        h = self.score.gate(rank, graph)
        if plan is None:
            assert self.min_score is not None
            perm, batch = above(h, graph, self.min_score)
        else:
            perm, batch = topk(rank, graph, plan)
        ok = None if isinstance(graph.checks, Trust) else (h == h).all()
        return *gate(X, h.to(X.dtype), perm), Kept(perm, batch), ok

    def reduce(self, graph: Graph, S: Selection) -> Tensor:
        """X' = (X* ⊙ h)(î, :), which came with the scores, times ``multiplier``."""
        assert isinstance(S, KeptNodes)
        return S.x if self.multiplier == 1 else S.x * self.multiplier

    def forward(
        self,
        x: Tensor | Graph,
        edge_index: Tensor | Graph | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        attn: Tensor | None = None,
        *,
        batch_size: int | None = None,
    ) -> Pooled:
        """Pool a batch of graphs, as :meth:`Pooling.forward` does.

        With ``attn``, nodes are scored by these features in place of X*. Then they have the layer's
        width, and x may have any other.
        """
        graph = self.check(x, edge_index, edge_attr, batch, batch_size, width=attn is None)
        if attn is None:
            return self.pooled(graph, self.select(graph))
        attn = check_features("attn", attn, like=graph.x)
        for layer in (self, self.score, getattr(self.score, "conv", None)):
            check_channels(layer, attn, "attn")
        return self.pooled(graph, self.select(graph, attn))

    __repr__ = arguments_repr

    def size_repr(self) -> str:
        """How many nodes are kept and what they are multiplied by, as PyG writes it."""
        size = f"ratio={self.ratio}" if self.min_score is None else f"min_score={self.min_score}"
        return f"{size}, multiplier={self.multiplier}"
