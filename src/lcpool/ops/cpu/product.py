"""S'ᵀAS' with its weights and their gradients on a CPU, row by row.

Forward is the search of :mod:`lcpool.ops.cpu.connect` with numbers. On the way back each row of A'
is walked again. Numbers are summed in dense rows, one of S'ᵀA and one of A', that each thread keeps
for itself: no product is stored, and sums are made in the order of the entries, so that the same
input gives the same bits, with the same number of threads.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.assignment import Assignment
from lcpool.ops.checks import Checks
from lcpool.ops.connect import connect_by_joins
from lcpool.ops.cpu.compiled import compiled
from lcpool.ops.cpu.connect import EDGES_PER_THREAD, TOO_MANY, search
from lcpool.ops.cpu.team import in_parts
from lcpool.ops.operator import operator
from lcpool.ops.precision import wide
from lcpool.ops.sizes import row_pointers


def connect_assignment(
    edge_index: Tensor, edge_weight: Tensor, S: Assignment, self_loops: bool, max_edges: int
) -> tuple[Tensor, Tensor]:
    """The edges of S'ᵀAS', sorted, and their weights."""
    value = edge_weight.new_ones(S.node.numel()) if S.value is None else S.value
    dtype = torch.promote_types(edge_weight.dtype, value.dtype)
    numbers = (wide(edge_weight.to(dtype)), wide(value.to(dtype)))
    weight, edges = multiply(
        edge_index, S.node, S.cluster, *numbers, S.num_nodes, S.num_clusters, self_loops, max_edges
    )
    return edges, weight.to(dtype)


class ConnectAssignment:
    """The weights of S'ᵀAS' and its edges."""

    @staticmethod
    def forward(
        edge_index: Tensor,
        node: Tensor,
        cluster: Tensor,
        edge_weight: Tensor,
        value: Tensor,
        num_nodes: int,
        num_clusters: int,
        self_loops: bool,
        max_edges: int,
    ) -> tuple[Tensor, Tensor]:
        """Both in one search."""
        graph, values = by_rows(
            edge_index, node, cluster, edge_weight, value, num_nodes, num_clusters
        )
        edges, weight = search(graph, self_loops, max_edges, values)
        return torch.from_numpy(weight), torch.from_numpy(edges)

    @staticmethod
    def fake(edge_index: Tensor, _: Tensor, __: Tensor, edge_weight: Tensor, *___: Any) -> Any:
        """As many edges as will be found."""
        size = torch.library.get_ctx().new_dynamic_size()
        return edge_weight.new_empty(size), edge_index.new_empty(2, size)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Only what came in and went out is kept for the gradient."""
        _, edges = output
        ctx.mark_non_differentiable(edges)
        ctx.save_for_backward(edges, *inputs[:5])
        ctx.sizes, ctx.options = inputs[5:7], inputs[7:]

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """All gradients by a kernel; by joins where theirs are asked for in turn."""
        edges, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            grads = gradients_by_joins(grad, inputs, ctx.sizes, ctx.options)
        else:
            grads = [*multiply_backward(grad.contiguous(), edges, *inputs, *ctx.sizes)]
        return None, None, None, *grads, None, None, None, None


class Gradients:
    """The gradients of the weights of A and of the entries of S'."""

    @staticmethod
    def forward(
        grad: Tensor,
        edges: Tensor,
        edge_index: Tensor,
        node: Tensor,
        cluster: Tensor,
        edge_weight: Tensor,
        value: Tensor,
        num_nodes: int,
        num_clusters: int,
    ) -> tuple[Tensor, Tensor]:
        """The gradients of the weights of A and of the entries of S'."""
        graph, values = by_rows(
            edge_index, node, cluster, edge_weight, value, num_nodes, num_clusters
        )
        rows = (row_pointers(edges[0], num_clusters).numpy(), edges[1].numpy())
        part = partial(spread_rows, graph=graph, values=values, rows=rows, grad=grad.numpy())
        parts = in_parts(part, num_clusters, grad.numel(), EDGES_PER_THREAD)
        a, left, right = (sum(grads[1:], start=grads[0]) for grads in zip(*parts, strict=True))
        source, n, c = (t.contiguous().numpy() for t in (edge_index[0], node, cluster))
        value_grad = from_rows(c, graph[2], left) + from_rows(n, graph[4], right)
        return torch.from_numpy(from_rows(source, graph[0], a)), torch.from_numpy(value_grad)

    @staticmethod
    def fake(
        grad: Tensor,
        edges: Tensor,
        edge_index: Tensor,
        node: Tensor,
        cluster: Tensor,
        edge_weight: Tensor,
        value: Tensor,
        *_: int,
    ) -> tuple[Tensor, Tensor]:
        """As these."""
        return edge_weight.new_empty(edge_weight.shape), value.new_empty(value.shape)


def gradients_by_joins(
    grad: Tensor, inputs: list[Tensor], sizes: tuple[int, int], options: tuple[bool, int]
) -> list[Tensor | None]:
    """Gradients that have gradients, as far as they are wanted."""
    edge_index, node, cluster, edge_weight, value = inputs
    S = Assignment(node, cluster, value, *sizes)
    _, weight = connect_by_joins(edge_index, edge_weight, S, *options, Checks())
    assert weight is not None
    wanted = [v for v in (edge_weight, value) if v.requires_grad]
    found = iter(torch.autograd.grad(weight, wanted, grad, create_graph=True))
    return [next(found) if v.requires_grad else None for v in (edge_weight, value)]


ENTRIES = "Tensor edge_index, Tensor node, Tensor cluster, Tensor edge_weight, Tensor value"
SIZES = "SymInt num_nodes, SymInt num_clusters"
multiply = operator(
    f"connect_assignment({ENTRIES}, {SIZES}, bool self_loops, SymInt max_edges) "
    "-> (Tensor, Tensor)",
    ConnectAssignment,
)
multiply_backward = operator(
    f"connect_assignment_backward(Tensor grad, Tensor edges, {ENTRIES}, {SIZES}) "
    "-> (Tensor, Tensor)",
    Gradients,
)


def by_rows(
    edge_index: Tensor,
    node: Tensor,
    cluster: Tensor,
    edge_weight: Tensor,
    value: Tensor,
    num_nodes: int,
    num_clusters: int,
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A, S'ᵀ and S' by rows: where rows begin and their columns, of each; the entries of each."""
    (source, target), n, c, a, s = (
        t.detach().contiguous().numpy() for t in (edge_index, node, cluster, edge_weight, value)
    )
    A = to_rows(source, target, a, num_nodes)
    St, S = to_rows(c, n, s, num_clusters), to_rows(n, c, s, num_nodes)
    return (*A[:2], *St[:2], *S[:2]), (A[2], St[2], S[2])


@compiled
def to_rows(row, col, value, num_rows):
    """Where each row begins, its columns and its entries, in the order that they had."""
    if row.size >= 2**32:
        raise ValueError(TOO_MANY)
    ptr = np.zeros(num_rows + 2, np.uint32)
    for e in range(row.size):
        ptr[row[e] + 2] += 1
    # Cumulated one place late: filling row r advances ptr[r + 1] from its start to its end.
    for r in range(2, num_rows + 2):
        ptr[r] += ptr[r - 1]
    cols, values = np.empty(row.size, np.uint32), np.empty_like(value)
    for e in range(row.size):
        at = ptr[row[e] + 1]
        ptr[row[e] + 1] += 1
        cols[at], values[at] = col[e], value[e]
    return ptr[:-1], cols, values


@compiled
def from_rows(row, ptr, values):
    """The entries in the order that they had before :func:`to_rows`."""
    at, value = ptr.copy(), np.empty_like(values)
    for e in range(row.size):
        value[e] = values[at[row[e]]]
        at[row[e]] += 1
    return value


@compiled
def reach(p, graph, values, half, seen, reached):
    """(S'ᵀA)(p, :) into ``half``: which of its entries are not zero, and how many."""
    out_ptr, out, into_ptr, into, _, _ = graph
    a, v, _ = values
    count = 0
    for c in range(into_ptr[p], into_ptr[p + 1]):
        n, s_np = into[c], v[c]
        for e in range(out_ptr[n], out_ptr[n + 1]):
            m = out[e]
            if seen[m] != p:
                seen[m] = p
                half[m] = 0
                reached[count] = m
                count += 1
            half[m] += s_np * a[e]
    return count


@compiled
def spread_rows(start, stop, graph, values, rows, grad):
    """What flows from rows ``start`` to ``stop`` of A' to A, to S'ᵀ and to S', each by its rows.

    With g a row of the gradient, h = g S'ᵀ and t = (S'ᵀA)(p, :):
    dA(n, m) = s_np h_m, dS'ᵀ(p, n) = Σ_m a_nm h_m and dS'(m, q) = t_m g_q.
    """
    out_ptr, out, into_ptr, into, onto_ptr, onto = graph
    (a, v, s), (ptr, col) = values, rows
    grad_a, grad_v, grad_s = np.zeros_like(a), np.zeros_like(v), np.zeros_like(s)
    half, h = np.empty(out_ptr.size - 1, s.dtype), np.empty(out_ptr.size - 1, s.dtype)
    seen = np.full(out_ptr.size - 1, -1, np.int32)
    reached = np.empty(out_ptr.size - 1, np.uint32)
    g, zero = np.zeros(into_ptr.size - 1, s.dtype), s.dtype.type(0)
    for p in range(start, stop):
        for e in range(ptr[p], ptr[p + 1]):
            g[col[e]] = grad[e]
        for r in range(reach(p, graph, values, half, seen, reached)):
            m = reached[r]
            t, total = half[m], zero
            for e in range(onto_ptr[m], onto_ptr[m + 1]):
                g_q = g[onto[e]]
                total += g_q * s[e]
                grad_s[e] += g_q * t
            h[m] = total
        for c in range(into_ptr[p], into_ptr[p + 1]):
            n, s_np, total = into[c], v[c], zero
            for e in range(out_ptr[n], out_ptr[n + 1]):
                h_m = h[out[e]]
                total += a[e] * h_m
                grad_a[e] += s_np * h_m
            grad_v[c] = total
        for e in range(ptr[p], ptr[p + 1]):
            g[col[e]] = 0
    return grad_a, grad_v, grad_s
