"""A' = S'ᵀ(A + I)S' and its weights, of padded graphs on a GPU.

A = Aᵀ, and S has an entry for each edge of A + I, numbered by target: the entries of a cluster are
the row of the node that it is called after. With T = (A + I)S', the weights and their gradient are

    a'_pq = Σ_n s_np t_nq  over the nodes n of cluster p,
    dS'(n, p) = Σ_q t_nq (g_pq + g_qp)  over the neighbours q of p in A',

with G the gradient of A'. S' and T have a dense row of k_g numbers for each node of graph g. All
sums are made in a fixed order, without atomics: the same input gives the same bits.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.graph.assignment import Assignment, positions
from lcpool.graph.bounded import Bounded, BoundedEdges
from lcpool.graph.capture import NotCapturableError
from lcpool.graph.edges import Neighbours
from lcpool.graph.precision import wide
from lcpool.ops.connect import HOPS
from lcpool.ops.connect.bounded import BLOCK, ENTRIES, clusters_within
from lcpool.ops.connect.gpu import clusters_of, columns, row_times_column
from lcpool.ops.launch import cdiv, kernel
from lcpool.ops.topk import KeepPlan, Kept

# Entries of S', and neighbours of their clusters, that a program multiplies at a time.
ROWS, PRODUCTS = 16, 32


def plus_identity(edges: BoundedEdges, sizes: Bounded) -> BoundedEdges:
    """A + I: self-loops last in their rows, one for each node, in the place of those of A."""
    rows, (ptr, node, _) = edges.num_nodes, edges.out
    room, counts = node.numel() + rows, ptr.new_empty(rows + 1)
    last = sizes.ptr[-1:]
    count_with_loop[(rows,)](ptr, node, last, counts, BLOCK, num_warps=1)
    found = counts.cumsum(0)
    to_node, source = node.new_empty(2, room)
    write_with_loop[(rows,)](ptr, node, last, found, to_node, source, BLOCK, num_warps=1)

    def reach(hops: float) -> int:
        # A node without edges is within reach of itself now.
        return room if hops == 1 else edges.reach(hops) + rows

    return BoundedEdges(Neighbours(found, to_node), reach, edges.distinct, source, loops=True)


def connect_bounded(
    edges: BoundedEdges, S: Assignment, kept: Kept, batch: Tensor, plan: KeepPlan, self_loops: bool
) -> tuple[BoundedEdges, Tensor]:
    """A' and its weights, in the order of its rows; S is of all clusters, also dropped ones."""
    if not edges.loops or S.node_index is not edges.out.node or S.weight is None:
        raise NotCapturableError("its assignment has no entry for each edge of A + I, in order")
    assert isinstance(plan.sizes, Bounded)
    kept = kept._replace(place=positions(kept.perm, edges.num_nodes))
    found = clusters_within(edges, kept, batch, plan, self_loops, HOPS)
    # At least Σ n_g k_g.
    most = int(plan.kept.counts[0])
    room = min(edges.reach(math.inf), edges.num_nodes * most)
    rows = DenseRows.of(batch, plan, room, columns(most))
    weight: Tensor = Weights.apply(wide(S.weight), edges, found, kept, rows)
    return found, weight.to(S.weight.dtype)


class DenseRows(NamedTuple):
    """Rows of k_g numbers for the nodes of each graph g, one after the other."""

    batch: Tensor  # the graph of each node
    ptr: Tensor  # the first node of each graph, and the end of the last
    first: Tensor  # the first cluster of each graph, and the end of the last
    stop: Tensor  # where the rows of each graph end
    room: int  # no more numbers than this are in all rows
    width: int  # numbers of a row that a program takes at a time

    @classmethod
    def of(cls, batch: Tensor, plan: KeepPlan, room: int, width: int) -> DenseRows:
        ptr, first = plan.sizes.ptr, plan.kept.ptr
        return cls(
            batch.contiguous(), ptr, first, (ptr.diff() * first.diff()).cumsum(0), room, width
        )


class Weights(torch.autograd.Function):
    """The weights of A' from the entries of S."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, edges: BoundedEdges, found: BoundedEdges, kept: Kept,
        rows: DenseRows,
    ) -> Tensor:  # fmt: skip
        value, (ptr, node, _), n = value.contiguous(), edges.out, edges.num_nodes
        graphs = (rows.batch, rows.ptr, rows.ptr.numel() - 1, rows.first)
        origin, S, T = ptr.new_empty(n), *(value.new_empty(rows.room) for _ in range(2))
        clusters_of_nodes[(n,)](
            ptr, node, edges.reverse, value, kept.place, *graphs, rows.stop, origin, S, rows.width,
            num_warps=1,
        )  # fmt: skip
        add_neighbours[(n,)](ptr, node, *graphs, origin, S, T, rows.width, num_warps=1)
        weight = value.new_empty(found.room)
        add_members[(cdiv(found.room, ENTRIES),)](
            found.source, found.out.node, found.out.ptr, found.num_nodes, kept.perm, ptr, node,
            value, origin, T, weight, ENTRIES,
        )  # fmt: skip
        ctx.save_for_backward(T)
        ctx.given = edges, found, kept, origin
        return weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (T,), (edges, found, kept, origin) = ctx.saved_tensors, ctx.given
        of_value = T.new_empty(edges.room)
        multiply_rows[(cdiv(edges.room, ROWS),)](
            edges.out.node, edges.source, edges.out.ptr, edges.num_nodes, kept.place, found.out.ptr,
            found.out.node, found.reverse, grad.contiguous(), origin, T, of_value, ROWS, PRODUCTS,
            num_warps=1,
        )  # fmt: skip
        return of_value, *(None,) * 4


@kernel
def count_with_loop(ptr, node, last, counts, BLOCK: tl.constexpr):
    """How many neighbours other than itself a node has, and one more; no node has none."""
    i = tl.program_id(0)
    count = (i < tl.load(last)).to(tl.int64)
    stop = tl.load(ptr + i + 1)
    for first in range(tl.load(ptr + i), stop, BLOCK):
        e = first + tl.arange(0, BLOCK)
        count += tl.sum((tl.load(node + e, e < stop, i) != i).to(tl.int64))
    tl.store(counts, tl.zeros((), tl.int64), i == 0)
    tl.store(counts + 1 + i, count)


@kernel
def write_with_loop(ptr, node, last, to_ptr, to_node, source, BLOCK: tl.constexpr):
    """The neighbours other than itself of a node, then the node."""
    i = tl.program_id(0).to(tl.int64)
    done, stop = tl.load(to_ptr + i), tl.load(ptr + i + 1)
    for first in range(tl.load(ptr + i), stop, BLOCK):
        e = first + tl.arange(0, BLOCK)
        j = tl.load(node + e, e < stop, i)
        flags = (j != i).to(tl.int64)
        at = done + tl.cumsum(flags, 0) - 1
        tl.store(to_node + at, j, flags == 1)
        tl.store(source + at, tl.zeros_like(j) + i, flags == 1)
        done += tl.sum(flags)
    tl.store(to_node + done, i, i < tl.load(last))
    tl.store(source + done, i, i < tl.load(last))


@triton.jit
def row_of(i, batch, ends, graphs, first):
    """The first cluster of a node's graph and their number; none for padding rows."""
    zero, size = clusters_of(tl.load(batch + i), first)
    return zero, tl.where(i < tl.load(ends + graphs), size, 0)


@kernel
def clusters_of_nodes(
    ptr, node, reverse, value, place, batch, ends, graphs, first, until, origin, S,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """S' as dense rows: the number for cluster q is at the node's origin + q."""
    i = tl.program_id(0).to(tl.int64)
    zero, size = row_of(i, batch, ends, graphs, first)
    g = tl.load(batch + i)
    begin = tl.load(until + g) - (tl.load(ends + g + 1) - i) * size - zero
    tl.store(origin + i, begin)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    for block in range(zero, zero + size, COLUMNS):
        q = block + tl.arange(0, COLUMNS)
        total = tl.zeros((COLUMNS,), S.dtype.element_ty)
        for e in range(start, stop):
            # S has the entry (i, j) in the row of j.
            cluster = tl.load(place + tl.load(node + e))
            total += tl.where(cluster == q, tl.load(value + tl.load(reverse + e)), 0.0)
        tl.store(S + begin + q, total, q < zero + size)


@kernel
def add_neighbours(ptr, node, batch, ends, graphs, first, origin, S, T, COLUMNS: tl.constexpr):
    """T = (A + I)S'."""
    i = tl.program_id(0).to(tl.int64)
    zero, size = row_of(i, batch, ends, graphs, first)
    start, stop, to = tl.load(ptr + i), tl.load(ptr + i + 1), T + tl.load(origin + i)
    for block in range(zero, zero + size, COLUMNS):
        q = block + tl.arange(0, COLUMNS)
        total = tl.zeros((COLUMNS,), S.dtype.element_ty)
        for e in range(start, stop):
            total += tl.load(S + tl.load(origin + tl.load(node + e)) + q, q < zero + size, 0.0)
        tl.store(to + q, total, q < zero + size)


@kernel
def add_members(
    source, target, found_ptr, clusters, perm, ptr, node, value, origin, T, weight,
    ENTRIES: tl.constexpr,
):  # fmt: skip
    """a'_pq = Σ_n s_np t_nq for each edge (p, q) of A'."""
    e = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    here = e < tl.load(found_ptr + clusters)
    p, q = tl.load(source + e, here, 0), tl.load(target + e, here, 0)
    row = tl.load(perm + p, here, 0)
    tl.store(weight + e, row_times_column(row, here, q, ptr, node, value, origin, T), here)


@kernel
def multiply_rows(
    node, cluster, ptr, nodes, place, found_ptr, found, reverse, grad, origin, T, of_value,
    ROWS: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """Σ_q t_nq (g_pq + g_qp) for each entry (n, p) of S, 0 for dropped clusters."""
    e = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = e < tl.load(ptr + nodes)
    row = tl.load(origin + tl.load(node + e, here, 0), here, 0)
    p = tl.load(place + tl.load(cluster + e, here, 0), here, -1)
    start, stop = tl.load(found_ptr + p, p >= 0, 0), tl.load(found_ptr + p + 1, p >= 0, 0)
    total = tl.zeros((ROWS, PRODUCTS), T.dtype.element_ty)
    for step in range(0, tl.max(stop - start), PRODUCTS):
        f = start[:, None] + step + tl.arange(0, PRODUCTS)[None, :]
        going = f < stop[:, None]
        both = tl.load(grad + f, going, 0.0)
        both += tl.load(grad + tl.load(reverse + f, going, 0), going, 0.0)
        at = row[:, None] + tl.load(found + f, going, 0)
        total += both * tl.load(T + at, going, 0.0)
    tl.store(of_value + e, tl.sum(total, 1), here)
