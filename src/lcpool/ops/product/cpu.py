"""S'ᵀAS' with its weights and their gradients on a CPU, row by row.

Forward is the search of :mod:`lcpool.ops.connect.cpu` with weights; backward walks over each row of
A' again. Each thread sums in two dense rows, of S'ᵀA and of A': no product is stored. Sums are made
in the order of the entries: the same input and number of threads give the same bits.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment
from lcpool.graph.checks import Checks
from lcpool.graph.sizes import row_pointers
from lcpool.ops.connect.cpu import search
from lcpool.ops.connect.cpu_rows import EDGES_PER_THREAD, GraphRows, to_rows
from lcpool.ops.product import Connected, GraphSlices
from lcpool.ops.threads import compiled, in_parts

__all__ = [
    "connect_assignment",
    "connect_assignment_backward",
    "select_columns",
    "takes_assignment",
]


def takes_assignment(S: Assignment, graphs: GraphSlices | None) -> bool:
    return True


def select_columns(
    node: Tensor, cluster: Tensor, perm: Tensor, num_clusters: int
) -> tuple[Tensor, Tensor, Tensor] | None:
    arrays = (t.contiguous().numpy() for t in (node, cluster, perm))
    entry, *found = entries_in_columns(*arrays, num_clusters)
    if entry.size > node.numel():  # An index is out of range: plain torch raises the error.
        return None
    entry, node, cluster = (torch.from_numpy(values) for values in (entry, *found))
    return entry, node, cluster


def connect_assignment(
    edge_index: Tensor, edge_weight: Tensor, S: Assignment, graphs: GraphSlices | None,
    self_loops: bool, max_edges: int, checks: Checks,
) -> Connected:  # fmt: skip
    graph, values = by_rows(edge_index, edge_weight, S)
    edges, weight = search(graph, self_loops, max_edges, values)
    return Connected(torch.from_numpy(weight), torch.from_numpy(edges))


def connect_assignment_backward(
    grad: Tensor, edges: Tensor, edge_index: Tensor, edge_weight: Tensor, S: Assignment, *_: Any
) -> tuple[Tensor, Tensor]:
    graph, values = by_rows(edge_index, edge_weight, S)
    rows = (row_pointers(edges[0], S.num_clusters).numpy(), edges[1].numpy())
    given = (tuple(graph), values, rows, grad.numpy())
    parts = in_parts(row_gradients, S.num_clusters, grad.numel(), EDGES_PER_THREAD, *given)
    a, left, right = (sum(grads[1:], start=grads[0]) for grads in zip(*parts, strict=True))
    source, n, c = (t.contiguous().numpy() for t in (edge_index[0], S.node_index, S.cluster_index))
    value_grad = from_rows(c, graph.into_ptr, left) + from_rows(n, graph.onto_ptr, right)
    return torch.from_numpy(from_rows(source, graph.out_ptr, a)), torch.from_numpy(value_grad)


def by_rows(
    edge_index: Tensor, edge_weight: Tensor, S: Assignment
) -> tuple[GraphRows, tuple[Any, ...]]:
    """A, S'ᵀ and S' by rows, and the entries of each."""
    assert S.weight is not None
    (source, target), n, c, a, s = (
        t.detach().contiguous().numpy()
        for t in (edge_index, S.node_index, S.cluster_index, edge_weight, S.weight)
    )
    # S' has about half as many entries as A: one thread sorts A, another S' twice.
    kinds = ((source, target, a, S.num_nodes), (c, n, s, S.num_clusters), (n, c, s, S.num_nodes))

    def part(start: int, stop: int) -> list[Any]:
        return [to_rows(*kind, np.uint32) for kind in kinds[start:stop]]

    work = min(source.size, 2 * EDGES_PER_THREAD)
    A, St, S_ = chain(*in_parts(part, len(kinds), work, EDGES_PER_THREAD))
    (out_ptr, out, a), (into_ptr, into, v), (onto_ptr, onto, s) = A, St, S_
    return GraphRows(out_ptr, out, into_ptr, into, onto_ptr, onto), (a, v, s)


@compiled
def entries_in_columns(node, cluster, perm, num_clusters):
    """The entries in the columns ``perm``; too many if an index is out of range."""
    place = np.full(num_clusters, -1, np.int64)
    entry, nodes, columns = np.empty((3, node.size + 1), np.int64)
    for p in range(perm.size):
        if perm[p] < 0 or perm[p] >= num_clusters:
            return entry, nodes, columns
        place[perm[p]] = p
    count = 0
    for e in range(node.size):
        if cluster[e] < 0 or cluster[e] >= num_clusters:
            return entry, nodes, columns
        p = place[cluster[e]]
        # Always written, and overwritten unless it counts: no branch.
        entry[count], nodes[count], columns[count] = e, node[e], p
        count += p >= 0
    return entry[:count], nodes[:count], columns[:count]


@compiled
def from_rows(row, ptr, values):
    """The entries in the order that they had before :func:`to_rows`."""
    at, value = ptr.copy(), np.empty_like(values)
    for e in range(row.size):
        value[e] = values[at[row[e]]]
        at[row[e]] += 1
    return value


@compiled
def reach_nodes(p, graph, values, half, seen, reached):
    """Write (S'ᵀA)(p, :) into ``half`` and its columns into ``reached``; returns their number."""
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
def row_gradients(start, stop, graph, values, rows, grad):
    """The gradients of A, S'ᵀ and S', each by rows, from rows ``start`` to ``stop`` of A'.

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
        for r in range(reach_nodes(p, graph, values, half, seen, reached)):
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
