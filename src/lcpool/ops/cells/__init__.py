r"""Cells: every node belongs to the kept node that is nearest to it.

Distances are counted in edges, whatever their direction. Of kept nodes that are equally near, the
one with the best score wins. Each cell is then connected, so if cells are joined where an edge
joins them, a pooled graph has exactly the components of the input that keep a node:

- two nodes of one component lie on a path, and each step of it stays in a cell or leads to a cell
  that an edge joins: their cells are connected;
- a cell never leaves its component, so no edge joins cells of two components.

Nearest-kept assignment is known from k-MIS (Bacciu et al., 2023) and MaxCutPool (Abate and Bianchi,
2025).
"""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.graph import Graph
from lcpool.graph.sizes import inverse
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import as_operator
from lcpool.ops.topk import KeepPlan, topk


def places(rank: Tensor) -> Tensor:
    """The place of each node by falling rank, 0 for the best; ties go to the lower index.

    Whole numbers in place of scores: in 16 bits scores tie, and NaN compares with nothing.
    """
    return inverse(rank.detach().argsort(descending=True, stable=True))


def topk_of_components(place: Tensor, graph: Graph, plan: KeepPlan) -> tuple[Tensor, Tensor]:
    """The k best nodes of each graph, where the best of each connected component come first.

    As long as a graph keeps as many nodes as it has components, none of them vanishes. If it keeps
    fewer, those whose best node has the lowest score do.

    Returns:
        ``perm``, the kept nodes, sorted by graph, and ``batch``, the graph of each.
    """
    rows, sizes = graph.edges.around, graph.sizes_or_one()
    first = best_of_components(rows.ptr, rows.node, place, sizes.counts, sizes.ptr)
    n = place.numel()
    # Doubles hold these whole numbers exactly.
    return topk(torch.where(first, 2 * n - place, n - place).double(), graph, plan)


def cells(graph: Graph, place: Tensor, perm: Tensor) -> Tensor:
    """The cell of each node: the position of its nearest kept node in ``perm``.

    −1 where no kept node can be reached. A node at distance t from the kept nodes joins the best
    cell among those of its neighbours at distance t − 1: that is the best of the nearest.

    Args:
        graph: the graphs; the direction of their edges does not matter.
        place: the place of each node by falling score, each once.
        perm: the kept nodes.

    Example:
        >>> path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> graph = Graph.of(torch.ones(5, 1), path)
        >>> cells(graph, place=torch.tensor([1, 2, 3, 4, 0]), perm=torch.tensor([4, 0]))
        tensor([1, 1, 0, 0, 0])
    """
    rows, sizes = graph.edges.around, graph.sizes_or_one()
    return nearest_kept(rows.ptr, rows.node, place, perm, sizes.counts, sizes.ptr)


@as_operator(
    "nearest_kept(Tensor ptr, Tensor node, Tensor place, Tensor perm, Tensor counts, Tensor first)"
    " -> Tensor",
    lambda ptr, node, place, *_: torch.empty_like(place),
)
def nearest_kept(
    ptr: Tensor, node: Tensor, place: Tensor, perm: Tensor, counts: Tensor, first: Tensor
) -> Tensor:
    """:func:`cells` of nodes whose neighbours are given as rows."""
    return kernels(place).nearest_kept(ptr, node, place, perm, counts, first)


@as_operator(
    "best_of_components(Tensor ptr, Tensor node, Tensor place, Tensor counts, Tensor first) "
    "-> Tensor",
    lambda ptr, node, place, *_: torch.empty_like(place, dtype=torch.bool),
)
def best_of_components(
    ptr: Tensor, node: Tensor, place: Tensor, counts: Tensor, first: Tensor
) -> Tensor:
    """Which nodes have the best place of their connected component."""
    return kernels(place).best_of_components(ptr, node, place, counts, first)
