"""î = topk(h): which nodes of each graph are kept, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import scatter

from lcpool.graph.graph import Graph
from lcpool.graph.sizes import Sizes
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import operator


def check_ratio(ratio: float | None) -> float:
    """``ratio`` if it is a float in (0, 1] or an int ≥ 1, else a ``ValueError``."""
    if isinstance(ratio, bool) or not isinstance(ratio, Real):
        raise TypeError(f"'ratio' must be a float or an int, not {type(ratio).__name__}.")
    if isinstance(ratio, Integral):
        if ratio < 1:
            raise ValueError(f"'ratio' as a number of nodes must be at least 1, not {ratio}.")
    elif not 0 < ratio <= 1:
        raise ValueError(
            f"'ratio' as a share of the nodes must lie in (0, 1], not {ratio}; "
            f"pass an int to keep a number of nodes."
        )
    return ratio


@cache
def share(ratio: float) -> Fraction:
    """The decimal that was written: 0.3 is 3/10, not the binary number just below it.

    Nine digits are read exactly; beyond them lies the noise of arithmetic such as 0.1 + 0.2, and
    ``share * num_nodes`` would leave 64-bit integers.

    >>> share(0.3), share(0.1 + 0.2)
    (Fraction(3, 10), Fraction(3, 10))
    """
    return Fraction(str(ratio)).limit_denominator(10**9)


def keep_counts(ratio: float, num_nodes: Tensor) -> Tensor:
    """How many nodes a graph of n keeps, ⌈ratio · n⌉, in integers: exact whatever x's dtype.

    An int ``ratio`` is k itself. No graph keeps more nodes than it has, and none with nodes loses
    all.

    >>> keep_counts(0.3, torch.tensor([50, 0, 1]))
    tensor([15,  0,  1])
    >>> keep_counts(1, torch.tensor([50, 0])), keep_counts(1.0, torch.tensor([50, 0]))
    (tensor([1, 0]), tensor([50,  0]))
    """
    counts: Tensor = keep_counts_operator(ratio, num_nodes)
    return counts


class KeepCounts:
    """:func:`keep_counts`."""

    @staticmethod
    def forward(ratio: float, num_nodes: Tensor) -> Tensor:
        """In integers."""
        n = num_nodes.numpy()
        if isinstance(ratio, Integral):
            k = np.minimum(n, min(int(ratio), 2**62))
        else:
            part = share(ratio)
            k = (n * part.numerator + (part.denominator - 1)) // part.denominator
            k = np.minimum(np.maximum(k, 1), n)
        return torch.from_numpy(np.asarray(k))

    @staticmethod
    def fake(ratio: float, num_nodes: Tensor) -> Tensor:
        return torch.empty_like(num_nodes)


keep_counts_operator = operator("keep_counts(Scalar ratio, Tensor num_nodes) -> Tensor", KeepCounts)


@dataclass(frozen=True)
class KeepPlan:
    """How many nodes of each graph are kept, settled before any score is known.

    Attributes:
        sizes: how many nodes each graph has. They need not stand by graph.
        kept: how many of them are kept; these do.
    """

    sizes: Sizes
    kept: Sizes

    @classmethod
    def of_one(cls, num_nodes: int, num_kept: int, device: torch.device) -> KeepPlan:
        """All nodes as one graph."""
        return cls(Sizes.of_one(num_nodes, device), Sizes.of_one(num_kept, device))

    @classmethod
    def of(cls, ratio: float, graph: Graph) -> KeepPlan:
        """Count kept nodes; a GPU is waited for unless the sizes of the graphs are known."""
        sizes = graph.sizes
        if sizes is None:
            sizes = Sizes.of(graph.host_counts(), graph.x.device, graph.num_nodes)
        # Where there are nodes, some are kept.
        total = None if graph.num_nodes else 0
        kept = Sizes.of(keep_counts(ratio, sizes.counts), graph.x.device, total)
        return cls(sizes, kept)


class Kept(NamedTuple):
    """The kept nodes.

    Attributes:
        perm: î.
        batch: the graph of each, where graphs are told apart.
        place: where each node of the graph stands in î, −1 if it does not; where that is known.
    """

    perm: Tensor
    batch: Tensor | None = None
    place: Tensor | None = None


def topk(rank: Tensor, graph: Graph, plan: KeepPlan) -> tuple[Tensor, Tensor]:
    """The k nodes of highest rank of each graph: by graph, then falling, ties to the lower index.

    Args:
        rank: what to order the nodes by, ``[num_nodes]``.
        graph: the graphs; its ``batch`` may be unsorted and have gaps.
        plan: how many nodes each graph keeps.

    Returns:
        ``perm``, the kept nodes, and ``batch``, the graph of each.
    """
    sizes, kept = plan.sizes, plan.kept
    plans = (sizes.counts, sizes.ptr, kept.ptr, kept.total)
    if graph.batch is None or graph.sizes is not None:
        perm, batch = topk_operator(rank, *plans)
        return perm, batch
    node = graph.members.node
    perm, batch = topk_operator(rank.index_select(0, node), *plans)
    return node[perm], batch


class Best:
    """:func:`topk` where the nodes stand by graph."""

    @staticmethod
    def forward(
        rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, total: int
    ) -> tuple[Tensor, Tensor]:
        """By a kernel."""
        return kernels(rank).topk(rank.detach().contiguous(), counts, ptr, kept_ptr, total)

    @staticmethod
    def fake(
        rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, total: int
    ) -> tuple[Tensor, Tensor]:
        return ptr.new_empty(total), ptr.new_empty(total)


topk_operator = operator(
    "topk(Tensor rank, Tensor counts, Tensor ptr, Tensor kept_ptr, SymInt total) "
    "-> (Tensor, Tensor)",
    Best,
)


def above(h: Tensor, graph: Graph, min_score: float) -> tuple[Tensor, Tensor]:
    """The nodes with h > ``min_score``, and the best of each graph whatever its score.

    Returns:
        ``perm`` in the order of the nodes, and ``batch``, the graph of each.
    """
    batch = graph.batch_vector()
    best = scatter(h.detach(), batch, dim_size=graph.batch_size, reduce="max")
    # Not h == best: where scores are NaN all nodes are kept, so that no graph comes out empty.
    perm = ((h > min_score) | ~(h < best[batch])).nonzero().view(-1)
    return perm, batch[perm]
