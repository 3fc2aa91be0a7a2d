"""î = topk(h), the kept nodes of each graph, and X' = (X ⊙ h)(î, :), their features."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.utils import scatter

from lcpool.graph.bounded import Bounded
from lcpool.graph.checks import check_lengths
from lcpool.graph.graph import Graph
from lcpool.graph.sizes import Sizes
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import as_operator, gradient_operator, operator
from lcpool.ops.topk import plain


def check_ratio(ratio: float | None) -> float:
    """``ratio`` if it is a float in (0, 1] or an int ≥ 1, else a ``ValueError``."""
    if isinstance(ratio, bool) or not isinstance(ratio, Real):
        raise TypeError(f"'ratio' must be a float or an int, not {type(ratio).__name__}.")
    if isinstance(ratio, Integral):
        if ratio < 1:
            raise ValueError(
                f"'ratio' must be a share of the nodes, a float in (0, 1], or a number of nodes, "
                f"an int from 1 on, not {ratio}."
            )
    elif not 0 < ratio <= 1:
        raise ValueError(
            f"'ratio' as a share of the nodes must lie in (0, 1], not {ratio}; "
            f"pass an int to keep a number of nodes."
        )
    return ratio


@cache
def share(ratio: float) -> Fraction:
    """The decimal that was written: 0.3 is 3/10, not the binary number just below it.

    Nine digits are exact. More would keep the rounding errors of 0.1 + 0.2, and
    ``share * num_nodes`` would exceed 64-bit integers.

    >>> share(0.3), share(0.1 + 0.2)
    (Fraction(3, 10), Fraction(3, 10))
    """
    return Fraction(str(ratio)).limit_denominator(10**9)


@as_operator(
    "keep_counts(Scalar ratio, Tensor num_nodes) -> Tensor", lambda _, n: torch.empty_like(n)
)
def keep_counts(ratio: float, num_nodes: Tensor) -> Tensor:
    """The number of nodes that a graph of n nodes keeps, ⌈ratio · n⌉, in exact integers.

    An int ``ratio`` is the number itself. No graph keeps more nodes than it has, and a graph with
    nodes keeps at least one.

    >>> keep_counts(0.3, torch.tensor([50, 0, 1]))
    tensor([15,  0,  1])
    >>> keep_counts(1, torch.tensor([50, 0])), keep_counts(1.0, torch.tensor([50, 0]))
    (tensor([1, 0]), tensor([50,  0]))
    """
    return torch.from_numpy(np.asarray(_kept(ratio, num_nodes.numpy())))


def _kept(ratio: float, n: Any) -> Any:
    """:func:`keep_counts`, of numpy and of torch."""
    if isinstance(ratio, Integral):
        return n.clip(max=min(int(ratio), 2**62))
    part = share(ratio)
    k = (n * part.numerator + (part.denominator - 1)) // part.denominator
    return k.clip(min=1) * (n > 0)


def kept_of(ratio: float, sizes: Bounded) -> Bounded:
    """:func:`keep_counts` on the device, for padded graphs, with an upper bound for the host.

    Σ⌈ratio · n⌉ ≤ ratio · Σn + graphs.
    """
    k, graphs = _kept(ratio, sizes.ptr.diff()), sizes.counts.numel()

    def bound(nodes: int, graphs: int) -> int:
        most = graphs * ratio if isinstance(ratio, Integral) else int(share(ratio) * nodes) + graphs
        return min(nodes, int(most))

    most = int(keep_counts(ratio, sizes.counts[:1]))
    total, longest = bound(sizes.total, graphs), bound(sizes.longest, graphs // sizes.runs)
    return Bounded(pad(k.cumsum(0), (1, 0)), most, total, sizes.runs, longest)


@dataclass(frozen=True)
class KeepPlan:
    """How many nodes of each graph are kept, known before the scores."""

    sizes: Sizes  # how many nodes each graph has; they need not be sorted by graph
    kept: Sizes  # how many of them are kept; these are sorted by graph

    @classmethod
    def of_one(cls, num_nodes: int, num_kept: int, device: torch.device) -> KeepPlan:
        """All nodes as one graph."""
        return cls(Sizes.of_one(num_nodes, device), Sizes.of_one(num_kept, device))

    @classmethod
    def of(cls, ratio: float, graph: Graph) -> KeepPlan:
        """Keep ⌈ratio · n⌉ nodes per graph; a GPU synchronises unless the sizes are known."""
        sizes = graph.sizes
        if isinstance(sizes, Bounded):
            return cls(sizes, kept_of(ratio, sizes))
        if sizes is None:
            sizes = Sizes.of(graph.host_counts(), graph.x.device, graph.num_nodes)
        # A batch with nodes keeps some.
        total = None if graph.num_nodes else 0
        kept = Sizes.of(keep_counts(ratio, sizes.counts), graph.x.device, total)
        return cls(sizes, kept)


class Kept(NamedTuple):
    """The kept nodes."""

    perm: Tensor  # î, and −1 in padding rows
    batch: Tensor | None = None  # the graph of each, if there are several
    # The position of each input node in î, −1 if it is dropped; if that is known.
    place: Tensor | None = None


def topk(rank: Tensor, graph: Graph, plan: KeepPlan) -> tuple[Tensor, Tensor]:
    """î: the k nodes of highest rank of each graph, sorted by graph, then by falling rank.

    Of equal nodes the one of lower index comes first. The ``batch`` of ``graph`` may be unsorted
    and have gaps. Returns î and the graph of each kept node.
    """
    check_lengths(rank=(rank, plan.sizes.total))
    sizes, kept = plan.sizes, plan.kept
    plans = (sizes.counts, sizes.ptr, kept.ptr, kept.total)
    if graph.batch is None or graph.sizes is not None:
        return sorted_topk(rank, *plans)
    node = graph.members.node
    perm, batch = sorted_topk(rank.index_select(0, node), *plans)
    return node[perm], batch


@as_operator(
    "topk(Tensor rank, Tensor counts, Tensor ptr, Tensor kept_ptr, SymInt total) "
    "-> (Tensor, Tensor)",
    lambda rank, counts, ptr, kept_ptr, total: (ptr.new_empty(total), ptr.new_empty(total)),
)
def sorted_topk(
    rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, total: int
) -> tuple[Tensor, Tensor]:
    """:func:`topk` for nodes that are sorted by graph."""
    return kernels(rank).topk(rank.detach().contiguous(), counts, ptr, kept_ptr, total)


def above(h: Tensor, graph: Graph, min_score: float) -> tuple[Tensor, Tensor]:
    """The nodes with h > ``min_score`` and the best of each graph, in their order; their graphs."""
    batch = graph.batch_vector()
    best = scatter(h.detach(), batch, dim_size=graph.batch_size, reduce="max")
    # Not h == best: where scores are NaN all nodes are kept, so that no graph is empty afterwards.
    perm = ((h > min_score) | ~(h < best[batch])).nonzero().view(-1)
    return perm, batch[perm]


class Gate:
    """(X ⊙ h)(î, :) and h(î); each node is kept at most once."""

    @staticmethod
    def fake(x: Tensor, h: Tensor, perm: Tensor) -> tuple[Tensor, Tensor]:
        return x.new_empty(perm.numel(), x.size(1)), h.new_empty(perm.numel())

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor | None, grad_score: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        x, h, perm = ctx.saved_tensors
        if grad is None:
            grad = x.new_zeros(perm.numel(), x.size(1))
        return *gate_backward(grad, grad_score, x, h, perm), None


gate = operator("gate(Tensor x, Tensor h, Tensor perm) -> (Tensor, Tensor)", Gate)
gate_backward = gradient_operator(plain.gate_backward, 2, 3)
