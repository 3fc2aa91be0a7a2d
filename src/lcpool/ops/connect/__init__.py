"""A': how the kept clusters are connected, in three ways.

:func:`filter_edges` for node selection, :func:`assignment_connect` for local assignment selection
and :func:`cluster_connect` for local cluster selection.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment, nonzero, positions
from lcpool.graph.checks import (
    Checks,
    check_count,
    check_edge_index,
    check_index,
    check_number,
    check_range,
)
from lcpool.graph.edges import BothWays, Edges
from lcpool.graph.graph import check_edge_attr
from lcpool.graph.graph import edge_weight as one_weight_per_edge
from lcpool.graph.sizes import Sizes
from lcpool.ops.connect.product import connect_assignment
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import as_operator, is_traced, new_size
from lcpool.ops.topk import KeepPlan, Kept

# More edges than this (4 GiB of indices) are probably a mistake.
MAX_EDGES = 2**28
# On undirected graphs, A + AᵀA + A² + AᵀA² connects nodes at most this far apart.
HOPS = 3
TWICE = "'perm' names a node twice; keep each node once."


def filter_edges(
    edge_index: Tensor,
    edge_attr: Tensor | None,
    perm: Tensor,
    num_nodes: int,
    checks: Checks | None = None,
) -> tuple[Tensor, Tensor | None]:
    """A(î, î): the edges between kept nodes, in their order, with their attributes."""
    where = positions(perm, num_nodes)
    source, target = (where.index_select(0, end) for end in edge_index)
    kept = nonzero((source >= 0) & (target >= 0), checks)
    edges = torch.stack([source.index_select(0, kept), target.index_select(0, kept)])
    return edges, None if edge_attr is None else edge_attr.index_select(0, kept)


def cluster_connect(
    edge_index: Tensor,
    perm: Tensor,
    num_nodes: int,
    self_loops: bool = True,
    max_edges: int = MAX_EDGES,
    hops: int = HOPS,
) -> Tensor:
    r"""Connect kept nodes whose clusters touch (lemma 5).

    .. math::
        A' = \mathrm{ones}(A + A^\top A + A^2 + A^\top A^2)(\hat{i}, \hat{i})

    The cluster of a node is the node and all that have an edge into it. Two kept nodes are
    connected when an edge leads from the cluster of the first to the cluster of the second; on an
    undirected graph, when they are at most three hops apart. With two ``hops`` the first cluster is
    only its node, A' = ones(A + A²)(î, î); with one hop both are, A' = ones(A)(î, î).

    Args:
        edge_index: source and target of each edge, ``[2, num_edges]``. Duplicate edges and
            self-loops are fine.
        perm: the kept nodes î, each once, in the order that numbers the pooled graph.
        num_nodes: the number of nodes.
        self_loops: keep the diagonal of A', as the formula gives it.
        max_edges: refuse a pooled graph with more edges than this.
        hops: the largest distance of nodes that are connected: 3, as in the paper, 2 or 1.

    Returns:
        The edges of A', ``[2, num_pooled_edges]``, sorted and free of duplicates.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
        >>> cluster_connect(path, torch.tensor([0, 3, 4]), num_nodes=5, self_loops=False)
        tensor([[0, 1, 1, 2],
                [1, 0, 2, 1]])
    """
    checks = Checks()
    check_hops(hops)
    check_count("num_nodes", num_nodes)
    edge_index = check_edge_index(edge_index, num_nodes, checks, like=None)
    perm = check_perm(perm, num_nodes, checks, like=edge_index)
    edges = Edges.trusted(edge_index, num_nodes)
    return connect_clusters(edges, Kept(perm), None, None, self_loops, max_edges, checks, hops)


def check_hops(hops: int) -> int:
    """``hops`` if it is 1, 2 or 3, else a ``ValueError``."""
    check_number("hops", hops)
    if hops not in range(1, HOPS + 1):
        raise ValueError(f"'hops' must be 1, 2 or 3, not {hops}.")
    return int(hops)


def check_perm(perm: Tensor, num_nodes: int, checks: Checks, like: Tensor) -> Tensor:
    """``perm`` as an int64 tensor that names nodes, each at most once."""
    perm = check_index("perm", perm, like)
    if perm.dim() != 1:
        raise ValueError(f"'perm' must have one dimension, not shape {list(perm.shape)}.")
    perm = check_range("perm", perm, num_nodes, "node", checks)
    distinct = positions(perm, num_nodes)[perm] == torch.arange(perm.numel(), device=perm.device)
    return checks.require(perm, distinct.all(), lambda: TWICE)


def connect_clusters(
    edges: Edges,
    kept: Kept,
    batch: Tensor | None,
    plan: KeepPlan | None,
    self_loops: bool,
    max_edges: int,
    checks: Checks,
    hops: int = HOPS,
) -> Tensor:
    """:func:`cluster_connect` for checked input, by a compiled kernel if there is one.

    With ``batch``, the graph of each node, and ``plan``, a kernel works graph by graph.
    """
    perm = kept.perm
    if not is_traced():
        options = (self_loops, max_edges, checks, hops)
        return kernels(perm).connect_clusters(edges, kept, batch, plan, *options)
    if plan is None:
        plan, batch = KeepPlan.of_one(edges.num_nodes, perm.numel(), perm.device), None
    return connect_traced(
        edges.index, list(edges.rows()) if perm.is_cuda else [], edges.num_nodes, perm,
        perm.new_zeros(edges.num_nodes) if batch is None else batch,
        plan.sizes.counts, plan.kept.counts, self_loops, max_edges, hops,
    )  # fmt: skip


@as_operator(
    "connect_clusters(Tensor edge_index, Tensor[] rows, SymInt num_nodes, Tensor perm, "
    "Tensor batch, Tensor sizes, Tensor kept, bool self_loops, SymInt max_edges, int hops) "
    "-> Tensor",
    lambda edge_index, *_: edge_index.new_empty(2, new_size()),
)
def connect_traced(
    edge_index: Tensor, rows: list[Any], num_nodes: int, perm: Tensor, batch: Tensor,
    sizes: Tensor, kept: Tensor, self_loops: bool, max_edges: int, hops: int,
) -> Tensor:  # fmt: skip
    """:func:`connect_clusters` in calls that are traced."""
    edges = Edges.of_rows(edge_index, num_nodes, BothWays(*rows) if rows else None)
    plan = KeepPlan(Sizes(sizes, perm.device), Sizes(kept, perm.device))
    kept_nodes = Kept(perm, batch.index_select(0, perm))
    options = (self_loops, max_edges, Checks(), hops)
    return connect_clusters(edges, kept_nodes, batch, plan, *options)


def assignment_connect(
    edge_index: Tensor,
    assignment: Assignment,
    edge_weight: Tensor | None = None,
    self_loops: bool = True,
    max_edges: int = MAX_EDGES,
) -> tuple[Tensor, Tensor]:
    r"""Connect clusters by the edges between their nodes, weights and gradients included.

    .. math::
        A' = {S'}^\top A S'

    Args:
        edge_index: source and target of each edge, ``[2, num_edges]``. Duplicate edges add up.
        assignment: S', the weights of nodes in the kept clusters.
        edge_weight: the entries of A; ones where it is None.
        self_loops: keep the diagonal of A'.
        max_edges: refuse a pooled graph with more edges than this.

    Returns:
        The edges of A', sorted and free of duplicates, and their weights. Gradients flow into
        ``assignment.weight`` and ``edge_weight``.

    Example:
        >>> S = Assignment.of_labels(torch.tensor([0, 0, 1]))
        >>> assignment_connect(torch.tensor([[0, 1], [1, 2]]), S, self_loops=False)
        (tensor([[0],
                [1]]), tensor([1.]))
    """
    if not isinstance(assignment, Assignment):
        raise TypeError(
            f"'assignment' must be an lcpool.Assignment, not {type(assignment).__name__}."
        )
    checks = Checks()
    edge_index = check_edge_index(edge_index, assignment.num_nodes, checks, assignment.node_index)
    check_edge_attr(edge_weight, edge_index)
    checks.adopt(assignment.checks)
    if edge_weight is not None:
        edge_weight = one_weight_per_edge(edge_weight, edge_weight.dtype)
    options = (self_loops, max_edges, checks)
    return connect_assignment(edge_index, assignment, edge_weight, None, None, *options)


def surviving_edge_attr(
    edge_index: Tensor,
    edge_attr: Tensor,
    perm: Tensor,
    num_nodes: int,
    pooled_edges: Tensor,
    fill: float,
) -> Tensor:
    """The attributes of the edges of A that are also in A', and ``fill`` for the new ones.

    Attributes of duplicate edges of A add up; ``pooled_edges``, those of A', are sorted.
    """
    old, attr = filter_edges(edge_index, edge_attr, perm, num_nodes)
    assert attr is not None
    size = pooled_edges.size(1)
    keys, wanted = (e[0] * perm.numel() + e[1] for e in (pooled_edges, old))
    place = torch.searchsorted(keys, wanted)
    # Where A' has no diagonal, self-loops of A go to an extra last row.
    found = keys[place.clamp(max=size - 1)] == wanted if size else torch.zeros_like(place).bool()
    place = place.where(found, size)
    total = attr.new_zeros(size + 1, *attr.shape[1:]).index_add(0, place, attr)
    is_new = torch.ones(size + 1, dtype=torch.bool, device=attr.device)
    is_new[place] = False
    return total.masked_fill(is_new.view(-1, *[1] * (attr.dim() - 1)), fill)[:size]
