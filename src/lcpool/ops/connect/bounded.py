"""A' of padded graphs on a GPU, as padded rows of neighbours.

The number of edges stays on the device: nothing synchronises, so that the step can be captured.
"""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from lcpool.graph.assignment import positions
from lcpool.graph.bounded import Bounded, BoundedEdges
from lcpool.graph.capture import NotCapturableError
from lcpool.graph.edges import Neighbours
from lcpool.ops.connect.gpu import ClusterLayout, fits, layered, mark_pattern, write_edges
from lcpool.ops.launch import cdiv, kernel
from lcpool.ops.topk import KeepPlan, Kept

# Neighbours that a program looks at together.
BLOCK = 32
# Edges that a program looks for, one a thread.
ENTRIES = 128


def kept_edges(edges: BoundedEdges, perm: Tensor) -> BoundedEdges:
    """A(î, î), the edges between kept nodes; neighbours keep their order."""
    place = positions(perm, edges.num_nodes)
    counts = perm.new_empty(perm.numel() + 1)
    given = (edges.out.ptr, edges.out.node, place, perm)
    count_kept[(perm.numel(),)](*given, counts, BLOCK, num_warps=1)
    ptr, node = counts.cumsum(0), torch.empty_like(edges.out.node)
    write_kept[(perm.numel(),)](*given, ptr, node, BLOCK, num_warps=1)
    return BoundedEdges(Neighbours(ptr, node), edges.reach, edges.distinct)


def clusters_within(
    edges: BoundedEdges, kept: Kept, batch: Tensor, plan: KeepPlan, self_loops: bool, hops: int
) -> BoundedEdges:
    """:func:`~lcpool.ops.connect.cluster_connect`: kept nodes at most ``hops`` apart."""
    assert isinstance(plan.kept, Bounded)
    assert kept.batch is not None
    most = int(plan.kept.counts[0])
    if not fits(edges.num_nodes, kept.perm.numel(), most):
        raise NotCapturableError("its graphs are so large that they are connected by sorting")
    place = positions(kept.perm, edges.num_nodes) if kept.place is None else kept.place
    names = place, kept.perm
    graphs = ClusterLayout(batch, kept.batch, plan.kept.ptr, most)
    return of_bits(*layered(edges, hops), names, graphs, self_loops, edges, hops)


def of_bits(
    onto: Neighbours, out: Neighbours, members: Neighbours, names: tuple[Tensor, Tensor] | None,
    graphs: ClusterLayout, self_loops: bool, before: BoundedEdges, hops: int,
) -> BoundedEdges:  # fmt: skip
    """S'ᵀAS', which joins nodes of A that are at most ``hops`` apart."""
    bits = mark_pattern(onto, out, members, names, graphs, self_loops)
    ptr = bits.counts.cumsum(0)
    edges = ptr.new_empty(2, before.reach(hops))
    write_edges[(graphs.of_cluster.numel(),)](
        graphs.of_cluster, graphs.first, graphs.first.numel() - 1, bits.stride, bits.rows, ptr,
        edges, edges.size(1), bits.width, num_warps=1,
    )  # fmt: skip
    return BoundedEdges(
        Neighbours(ptr, edges[1]), lambda t: before.reach(hops * t), True, edges[0],
        None if self_loops else False, ascending=True,
    )  # fmt: skip


def reverse_edges(edges: BoundedEdges) -> Tensor:
    """The number of the edge from j to i, for each edge from i to j."""
    (ptr, node, _), rows = edges.out, edges.num_nodes
    reverse, steps = torch.empty_like(node), rows.bit_length()
    given = (ptr, node, edges.source, reverse, rows, steps)
    find_reverse[(cdiv(node.numel(), ENTRIES),)](*given, edges.ascending, ENTRIES)
    return reverse


@kernel
def count_kept(ptr, node, place, perm, counts, BLOCK: tl.constexpr):
    """How many neighbours of a kept node are kept."""
    p = tl.program_id(0)
    i = tl.load(perm + p)
    start, stop = tl.load(ptr + i, i >= 0, 0), tl.load(ptr + i + 1, i >= 0, 0)
    count = tl.zeros((), tl.int64)
    for first in range(start, stop, BLOCK):
        e = first + tl.arange(0, BLOCK)
        q = tl.load(place + tl.load(node + e, e < stop, 0), e < stop, -1)
        count += tl.sum((q >= 0).to(tl.int64))
    tl.store(counts, tl.zeros((), tl.int64), p == 0)
    tl.store(counts + 1 + p, count)


@kernel
def write_kept(ptr, node, place, perm, to_ptr, to_node, BLOCK: tl.constexpr):
    """The kept neighbours of a kept node, by their new numbers."""
    p = tl.program_id(0)
    i = tl.load(perm + p)
    start, stop = tl.load(ptr + i, i >= 0, 0), tl.load(ptr + i + 1, i >= 0, 0)
    done = tl.load(to_ptr + p)
    for first in range(start, stop, BLOCK):
        e = first + tl.arange(0, BLOCK)
        q = tl.load(place + tl.load(node + e, e < stop, 0), e < stop, -1)
        flags = (q >= 0).to(tl.int64)
        tl.store(to_node + done + tl.cumsum(flags, 0) - 1, q, q >= 0)
        done += tl.sum(flags)


@kernel
def find_reverse(
    ptr, node, source, reverse, rows, steps, ASCENDING: tl.constexpr, ENTRIES: tl.constexpr
):
    """The place of i in the row of j, for each j in the row of i: by halves, or one by one."""
    e = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    here = e < tl.load(ptr + rows)
    i, j = tl.load(source + e, here, 0), tl.load(node + e, here, 0)
    low, high = tl.load(ptr + j, here, 0), tl.load(ptr + j + 1, here, 0)
    if ASCENDING:
        for _ in range(steps + 1):
            middle, going = (low + high) // 2, low < high
            below = tl.load(node + middle, going, 0) < i
            low = tl.where(going & below, middle + 1, low)
            high = tl.where(going & ~below, middle, high)
    else:
        first = low
        for step in range(0, tl.max(high - first)):
            at = first + step
            low = tl.where(tl.load(node + at, at < high, -1) == i, at, low)
    tl.store(reverse + e, low, here)
