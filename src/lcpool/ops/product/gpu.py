"""S'ᵀAS' with its weights and their gradients on a GPU: dense rows for the graphs of a batch.

The pattern is found by bits (:mod:`lcpool.ops.connect.gpu`). For the weights each node has a dense
row of k_g numbers, one per cluster of its graph g. These rows are summed over the entries of A and
S', which one sort brings into rows; one thread sums an entry of A' or of a gradient. All sums are
made in the order of the entries, without atomics: the same input gives the same bits.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.checks import Checks
from lcpool.graph.edges import Neighbours
from lcpool.graph.sizes import longest, owners, row_pointers
from lcpool.ops.connect.gpu import ClusterLayout, fits, pattern
from lcpool.ops.launch import cdiv, kernel, power_of_2
from lcpool.ops.product import Connected, GraphSlices, SortedMatrices
from lcpool.ops.product.plain import select_columns

__all__ = [
    "connect_assignment",
    "connect_assignment_backward",
    "select_columns",
    "takes_assignment",
]

# The most numbers in the dense rows (1 GiB in 32 bits, twice that with gradients): else joins.
MAX_NUMBERS = 2**28
# Columns of a row, and entries, that a program takes at a time.
TILE_COLUMNS = 128
ENTRIES = 128


def parts(rows: SortedMatrices, num_nodes: int) -> list[Neighbours]:
    """The four matrices."""
    return [Neighbours(rows.ptr[i * even(num_nodes) :], rows.column) for i in range(4)]


def even(number: int) -> int:
    """The next even number."""
    return number + number % 2


def takes_assignment(S: Assignment, graphs: GraphSlices | None) -> bool:
    # The dense rows and the bits must fit into memory, and the graphs must be those of S'.
    if graphs is None:
        n, k = np.array([S.num_nodes]), np.array([S.num_clusters])
    else:
        n, k = graphs.num_nodes.numpy(), graphs.num_clusters.numpy()
    room = (n + k) @ k <= MAX_NUMBERS and k.sum() == S.num_clusters
    return bool(room) and fits(S.num_nodes, S.num_clusters, int(k.max(initial=0)))


def connect_assignment(
    edge_index: Tensor, edge_weight: Tensor, S: Assignment, graphs: GraphSlices | None,
    self_loops: bool, max_edges: int, checks: Checks,
) -> Connected | None:  # fmt: skip
    # None too where an edge or an entry leads out of its graph.
    if not takes_assignment(S, graphs):
        return None
    batch, sizes, kept, first = graphs or GraphSlices.of_one(S)
    most = longest(kept)
    known = ClusterLayout(batch, owners(first, S.num_clusters), first, most)
    rows = by_rows(edge_index, edge_weight, S, known)
    out, _, onto, members = parts(rows, S.num_nodes)
    edges = pattern(onto, out, members, None, known, self_loops, max_edges, checks)
    if edges is None:
        return None
    graph, origin, entry = (batch, first, rows.origin), rows.origin, rows.entry
    size, width = int(sizes @ kept), columns(most)
    dense, AS = entry.new_empty(size), entry.new_empty(size)
    dense_rows[(S.num_nodes,)](onto.ptr, onto.node, entry, *graph, dense, width, num_warps=1)
    add_rows[(S.num_nodes, 1)](
        out.ptr, out.node, entry, *graph, origin, dense, AS, 0, width, num_warps=1
    )
    weight = entry.new_empty(edges.size(1))
    pattern_weights[blocks(weight)](
        edges, weight.numel(), members.ptr, members.node, entry, origin, AS, weight, ENTRIES
    )
    return Connected(weight, edges, rows)


def connect_assignment_backward(
    grad: Tensor, edges: Tensor, edge_index: Tensor, edge_weight: Tensor, S: Assignment,
    graphs: GraphSlices | None, rows: SortedMatrices,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """None where joins were used.

    With G the gradient of A', U = S'G and W = S'Gᵀ:
    dA(n, m) = Σ_q u_nq s_mq and dS'(n, p) = Σ_{n → m} a_nm w_mp + Σ_{m → n} a_mn u_mp.
    """
    if not rows.ptr.numel():
        return None
    assert S.weight is not None
    batch, sizes, kept, first = graphs or GraphSlices.of_one(S)
    out, into, onto, _ = parts(rows, S.num_nodes)
    origin, entry = rows.origin, rows.entry
    # U and the rows of G, W and those of Gᵀ.
    size = int((sizes + kept) @ kept)
    dense = entry.new_zeros(2, size)
    dense_gradient[blocks(grad)](
        edges, grad, grad.numel(), origin[S.num_nodes :], dense, size, ENTRIES
    )
    add_rows[(S.num_nodes, 2)](
        onto.ptr, onto.node, entry, batch, first, origin, origin[S.num_nodes :], dense, dense, size,
        columns(longest(kept)), num_warps=1,
    )  # fmt: skip
    of_weight, of_value = torch.empty_like(edge_weight), torch.empty_like(S.weight)
    edge_gradients[blocks(of_weight)](
        edge_index, of_weight.numel(), onto.ptr, onto.node, entry, origin, dense, of_weight, ENTRIES
    )
    entry_gradients[blocks(of_value)](
        S.node_index.contiguous(), S.cluster_index.contiguous(), of_value.numel(), out.ptr,
        into.ptr, out.node, entry, origin, dense, size, of_value, ENTRIES,
    )  # fmt: skip
    return of_weight, of_value


def by_rows(
    edge_index: Tensor, edge_weight: Tensor, S: Assignment, graphs: ClusterLayout
) -> SortedMatrices:
    """Sort all four matrices by rows at once, and lay out the dense rows."""
    assert S.weight is not None
    (source, target), n = edge_index, even(S.num_nodes)
    row = torch.cat([source, target + n, S.node_index + 2 * n, S.cluster_index + 3 * n])
    row, order = row.sort(stable=True)
    column = torch.cat([target, source, S.cluster_index, S.node_index])[order]
    entry = torch.cat([edge_weight, edge_weight, S.weight, S.weight])[order]
    graph, first = torch.cat([graphs.batch, graphs.of_cluster]), graphs.first
    # A dense row ends at the sum of all k_g up to its own, with the last q of its graph.
    origin = first.diff()[graph].cumsum(0) - first[1:][graph]
    return SortedMatrices(row_pointers(row, 3 * n + S.num_clusters), column, origin, entry)


def columns(most: int) -> int:
    """The number of columns of a program."""
    return min(TILE_COLUMNS, power_of_2(most))


def blocks(entries: Tensor) -> tuple[int]:
    """A program for each block of entries."""
    return (cdiv(entries.numel(), ENTRIES),)


@kernel
def dense_rows(ptr, node, entry, batch, first, origin, out, COLUMNS: tl.constexpr):
    """S' as dense rows; duplicate entries are added."""
    i = tl.program_id(0).to(tl.int64)
    g = tl.load(batch + i)
    end = tl.load(first + g + 1)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    out += tl.load(origin + i)
    for block in range(tl.load(first + g), end, COLUMNS):
        q = block + tl.arange(0, COLUMNS)
        total = tl.zeros((COLUMNS,), out.dtype.element_ty)
        for e in range(start, stop):
            total += tl.where(tl.load(node + e) == q, tl.load(entry + e), 0.0)
        tl.store(out + q, total, q < end)


@kernel
def add_rows(
    ptr, node, entry, batch, first, origin, x_origin, x, out, apart, COLUMNS: tl.constexpr
):
    """The sum of dense rows of x over a node's entries; a second x is ``apart`` from the first."""
    i = tl.program_id(0).to(tl.int64)
    x += tl.program_id(1).to(tl.int64) * apart
    out += tl.program_id(1).to(tl.int64) * apart + tl.load(origin + i)
    g = tl.load(batch + i)
    end = tl.load(first + g + 1)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    for block in range(tl.load(first + g), end, COLUMNS):
        q = block + tl.arange(0, COLUMNS)
        total = tl.zeros((COLUMNS,), out.dtype.element_ty)
        for e in range(start, stop):
            row = x + tl.load(x_origin + tl.load(node + e))
            total += tl.load(entry + e) * tl.load(row + q, q < end, 0.0)
        tl.store(out + q, total, q < end)


@triton.jit
def load_edges(edges, count, ENTRIES: tl.constexpr):
    """The numbers of a program's edges, their sources and targets, and which of them exist."""
    e = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    here = e < count
    return e, tl.load(edges + e, here, 0), tl.load(edges + count + e, here, 0), here


@triton.jit
def row_times_column(row, here, q, ptr, node, entry, origin, x):
    """Σ_k of the entries (row, k) times x(k, q)."""
    start, stop = tl.load(ptr + row, here, 0), tl.load(ptr + row + 1, here, 0)
    total = tl.zeros(row.shape, x.dtype.element_ty)
    for step in range(0, tl.max(stop - start)):
        e = start + step
        going = e < stop
        at = tl.load(origin + tl.load(node + e, going, 0), going, 0) + q
        total += tl.load(entry + e, going, 0.0) * tl.load(x + at, going, 0.0)
    return total


@kernel
def pattern_weights(edges, count, ptr, node, entry, origin, AS, weight, ENTRIES: tl.constexpr):
    """The weights of S'ᵀAS' at its edges: Σ_n s_np (AS')(n, q)."""
    e, p, q, here = load_edges(edges, count, ENTRIES)
    tl.store(weight + e, row_times_column(p, here, q, ptr, node, entry, origin, AS), here)


@kernel
def dense_gradient(edges, grad, count, origin, x, apart, ENTRIES: tl.constexpr):
    """G and, ``apart`` from it, Gᵀ as dense rows."""
    e, p, q, here = load_edges(edges, count, ENTRIES)
    value = tl.load(grad + e, here, 0.0)
    tl.store(x + tl.load(origin + p, here, 0) + q, value, here)
    tl.store(x + apart + tl.load(origin + q, here, 0) + p, value, here)


@kernel
def edge_gradients(edges, count, ptr, node, entry, origin, U, of_weight, ENTRIES: tl.constexpr):
    """dA(n, m) = Σ_q u_nq s_mq."""
    edge, n, m, here = load_edges(edges, count, ENTRIES)
    start, stop = tl.load(ptr + m, here, 0), tl.load(ptr + m + 1, here, 0)
    row = U + tl.load(origin + n, here, 0)
    total = tl.zeros((ENTRIES,), U.dtype.element_ty)
    for step in range(0, tl.max(stop - start)):
        e = start + step
        going = e < stop
        at = tl.load(node + e, going, 0)
        total += tl.load(entry + e, going, 0.0) * tl.load(row + at, going, 0.0)
    tl.store(of_weight + edge, total, here)


@kernel
def entry_gradients(
    nodes, clusters, count, out_ptr, into_ptr, node, entry, origin, U, apart, of_value,
    ENTRIES: tl.constexpr,
):  # fmt: skip
    """dS'(n, p) = Σ_{n → m} a_nm w_mp + Σ_{m → n} a_mn u_mp."""
    e = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    here = e < count
    n, p = tl.load(nodes + e, here, 0), tl.load(clusters + e, here, 0)
    total = row_times_column(n, here, p, out_ptr, node, entry, origin, U + apart)
    total += row_times_column(n, here, p, into_ptr, node, entry, origin, U)
    tl.store(of_value + e, total, here)
