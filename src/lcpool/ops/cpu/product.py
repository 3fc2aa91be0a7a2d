"""S'ᵀAS' with its weights and their gradients on a CPU, row by row.

The pattern comes from the search of :mod:`lcpool.ops.cpu.connect`. Its numbers are summed in dense
rows, one of S'ᵀA and one of A', that each thread keeps for itself: no product is stored, and the
order of the sums is that of the entries, so that the same input gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.assignment import Assignment
from lcpool.ops.checks import Checks
from lcpool.ops.connect import connect_by_joins
from lcpool.ops.cpu.compiled import compiled, in_parts
from lcpool.ops.cpu.connect import EDGES_PER_THREAD, search
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


class Multiply:
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
        """By a search that adds up on its way."""
        inputs = (edge_index, node, cluster, edge_weight.detach(), value.detach())
        product = Product.of(*inputs, num_nodes, num_clusters)
        edges, weight = search(product.graph, self_loops, max_edges, product.values)
        return torch.from_numpy(weight), torch.from_numpy(edges)

    @staticmethod
    def fake(
        edge_index: Tensor, node: Tensor, cluster: Tensor, edge_weight: Tensor, *_: Any
    ) -> Any:
        """As many edges as will be found."""
        size = torch.library.get_ctx().new_dynamic_size()
        return edge_weight.new_empty(size), edge_index.new_empty(2, size)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        """Only what came in and went out is kept for the gradient."""
        _, edges = output
        ctx.mark_non_differentiable(edges)
        ctx.save_for_backward(edges, *inputs[:5])
        ctx.sizes, ctx.options = inputs[5:7], inputs[7:]

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Of ``edge_weight`` and ``value``; by joins where their own gradients are asked for."""
        edges, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():
            edge_index, node, cluster, edge_weight, value = inputs
            S, (loops, most) = Assignment(node, cluster, value, *ctx.sizes), ctx.options
            _, weight = connect_by_joins(edge_index, edge_weight, S, loops, most, Checks())
            assert weight is not None
            wanted = [v for v in (edge_weight, value) if v.requires_grad]
            found = iter(torch.autograd.grad(weight, wanted, grad, create_graph=True))
            grads = [next(found) if v.requires_grad else None for v in (edge_weight, value)]
        else:
            grads = [*multiply_backward(grad.contiguous(), edges, *inputs, *ctx.sizes)]
        return None, None, None, *grads, None, None, None, None


class MultiplyBackward:
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
        """Gathered along the same search."""
        inputs = (edge_index, node, cluster, edge_weight.detach(), value.detach())
        return Product.of(*inputs, num_nodes, num_clusters).gradients(edges, grad)

    @staticmethod
    def fake(
        grad: Tensor,
        edges: Tensor,
        edge_index: Tensor,
        node: Tensor,
        cluster: Tensor,
        edge_weight: Tensor,
        value: Tensor,
        *_: Any,
    ) -> tuple[Tensor, Tensor]:
        """As these."""
        return torch.empty_like(edge_weight), torch.empty_like(value)


ENTRIES = "Tensor edge_index, Tensor node, Tensor cluster, Tensor edge_weight, Tensor value"
SIZES = "SymInt num_nodes, SymInt num_clusters"
multiply = operator(
    f"connect_assignment({ENTRIES}, {SIZES}, bool self_loops, SymInt max_edges) "
    "-> (Tensor, Tensor)",
    Multiply,
)
multiply_backward = operator(
    f"connect_assignment_backward(Tensor grad, Tensor edges, {ENTRIES}, {SIZES}) "
    "-> (Tensor, Tensor)",
    MultiplyBackward,
)


@dataclass(frozen=True)
class Product:
    """A, S'ᵀ and S' by rows.

    Attributes:
        graph: the pattern of each: where its rows begin, and their columns.
        orders: where the entries of each stood before.
        values: the entries of each.
    """

    graph: tuple[Any, ...]
    orders: tuple[Any, ...]
    values: tuple[Any, ...]

    @classmethod
    def of(
        cls,
        edge_index: Tensor,
        node: Tensor,
        cluster: Tensor,
        edge_weight: Tensor,
        value: Tensor,
        num_nodes: int,
        num_clusters: int,
    ) -> Product:
        """Sort the entries by row; within a row they keep their order."""
        (source, target), n, c = (t.numpy() for t in (edge_index, node, cluster))
        A = by_rows(source, target, num_nodes)
        St, S = by_rows(c, n, num_clusters), by_rows(n, c, num_nodes)
        a, s = edge_weight.detach().numpy(), value.detach().numpy()
        return cls((*A[:2], *St[:2], *S[:2]), (A[2], St[2], S[2]), (a[A[2]], s[St[2]], s[S[2]]))

    def gradients(self, edges: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of the entries of A and of S', from those of A'."""
        rows = self._rows(edges)
        part = partial(
            spread_rows, graph=self.graph, values=self.values, rows=rows, grad=grad.numpy()
        )
        parts = in_parts(part, len(rows[0]) - 1, edges.size(1), EDGES_PER_THREAD)
        a, left, right = (sum(grads[1:], start=grads[0]) for grads in zip(*parts, strict=True))
        grad_a, grad_s = np.empty_like(a), np.empty_like(left)
        grad_a[self.orders[0]] = a
        grad_s[self.orders[1]] = left
        grad_s[self.orders[2]] += right
        return torch.from_numpy(grad_a), torch.from_numpy(grad_s)

    def _rows(self, edges: Tensor) -> tuple[Any, Any]:
        """Where the rows of A' begin, and their columns."""
        row, col = edges
        return row_pointers(row, len(self.graph[2]) - 1).numpy(), col.numpy()


@compiled
def by_rows(row, col, num_rows):
    """Where each row begins, its columns, and where they stood before."""
    ptr = np.zeros(num_rows + 2, np.int64)
    for e in range(row.size):
        ptr[row[e] + 2] += 1
    # Cumulated one place late: filling row r advances ptr[r + 1] from its start to its end.
    for r in range(2, num_rows + 2):
        ptr[r] += ptr[r - 1]
    cols, order = np.empty(row.size, np.uint32), np.empty(row.size, np.int64)
    for e in range(row.size):
        at = ptr[row[e] + 1]
        ptr[row[e] + 1] += 1
        cols[at], order[at] = col[e], e
    return ptr[:-1], cols, order


@compiled
def reach(p, graph, values, half, seen, reached):
    """(S'ᵀA)(p, :) into ``half``: which of its entries are not zero, and how many."""
    out_ptr, out, into_ptr, into, _, _ = graph
    a, v, _ = values
    count = 0
    for c in range(into_ptr[p], into_ptr[p + 1]):
        n = into[c]
        for e in range(out_ptr[n], out_ptr[n + 1]):
            m = out[e]
            if seen[m] != p:
                seen[m] = p
                half[m] = 0
                reached[count] = m
                count += 1
            half[m] += v[c] * a[e]
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
    g = np.zeros(into_ptr.size - 1, s.dtype)
    for p in range(start, stop):
        for e in range(ptr[p], ptr[p + 1]):
            g[col[e]] = grad[e]
        for r in range(reach(p, graph, values, half, seen, reached)):
            m = reached[r]
            h[m] = 0
            for e in range(onto_ptr[m], onto_ptr[m + 1]):
                h[m] += g[onto[e]] * s[e]
                grad_s[e] += g[onto[e]] * half[m]
        for c in range(into_ptr[p], into_ptr[p + 1]):
            n = into[c]
            for e in range(out_ptr[n], out_ptr[n + 1]):
                grad_v[c] += a[e] * h[out[e]]
                grad_a[e] += v[c] * h[out[e]]
        for e in range(ptr[p], ptr[p + 1]):
            g[col[e]] = 0
    return grad_a, grad_v, grad_s
