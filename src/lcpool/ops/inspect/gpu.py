"""The analysis of a batch on a GPU, in one launch, read in one transfer."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.graph.sizes import Sizes
from lcpool.ops.inspect import BatchFacts
from lcpool.ops.inspect.plain import sort_by_row
from lcpool.ops.launch import cdiv, kernel

__all__ = ["inspect", "sort_by_row"]

BLOCK = 256
# The sizes of at most this many graphs are found as well.
GRAPHS = 1024
# Flags for what a program has found.
STRAY, DISORDER, ONE_WAY, UNSORTED = (tl.constexpr(1 << bit) for bit in range(4))


def inspect(edge_index: Tensor, num_nodes: int, batch: Tensor | None) -> BatchFacts:
    # Duplicate edges count as disorder.
    ptr = torch.empty(num_nodes + 1, dtype=torch.int64, device=edge_index.device)
    count, num_batch = edge_index.size(1), 0 if batch is None else num_nodes
    programs = cdiv(max(count, num_nodes + 1), BLOCK)
    # The first and the last graph, where graphs begin, and the flags of each program: all of them
    # are written, so that nothing must be cleared before.
    found = ptr.new_empty(2 + GRAPHS + 1 + programs)
    graphs, step = (edge_index, 0) if batch is None else (batch, batch.stride(0))
    inspect_edges[(programs,)](
        edge_index, graphs, ptr, found, count, num_nodes, num_batch,
        *edge_index.stride(), step, count.bit_length(), BLOCK, GRAPHS,
    )  # fmt: skip
    on_host = found.cpu().numpy()
    seen = int(np.bitwise_or.reduce(on_host[2 + GRAPHS + 1 :]))
    first, last = on_host[:2].tolist() if num_batch else (0, 0)
    in_order, by_graph = not seen & (STRAY.value | DISORDER.value), not seen & UNSORTED.value
    symmetric, sizes = in_order and not seen & ONE_WAY.value, None
    if num_batch and by_graph and first >= 0 and last < GRAPHS:
        begins = slice(2, 2 + last + 2)
        sizes = Sizes.of_begins(on_host[begins], found[begins], num_nodes)
    in_range = not seen & STRAY.value
    return BatchFacts(in_range, in_order, symmetric, by_graph, first, last, ptr, sizes)


@kernel
def inspect_edges(
    edges, batch, ptr, found, count, num_nodes, num_batch, second, step, batch_step, steps,
    BLOCK: tl.constexpr, GRAPHS: tl.constexpr,
):  # fmt: skip
    """Each program: some edges, some nodes, and where the rows of these nodes begin."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < count
    source, target = edge(edges, second, step, e, inside)
    stray = (source < 0) | (source >= num_nodes) | (target < 0) | (target >= num_nodes)
    seen = STRAY * anywhere(inside & stray)
    last_source, last_target = edge(edges, second, step, e - 1, inside & (e > 0))
    ordered = (e == 0) | (last_source < source)
    ordered |= (last_source == source) & (last_target < target)
    seen += DISORDER * anywhere(inside & ~ordered)

    # Two binary searches in ordered edges: for the reverse edge, and for the first edge of row e.
    low, high = tl.zeros_like(e), tl.zeros_like(e) + count
    first, end = tl.zeros_like(e), tl.zeros_like(e) + count
    for _ in range(steps):
        middle, going = (low + high) // 2, inside & (low < high)
        s, t = edge(edges, second, step, middle, going)
        less = (s < target) | ((s == target) & (t < source))
        low, high = tl.where(going & less, middle + 1, low), tl.where(going & ~less, middle, high)
        middle, going = (first + end) // 2, (e <= num_nodes) & (first < end)
        less = tl.load(edges + middle * step, going, 0) < e
        first, end = tl.where(going & less, middle + 1, first), tl.where(going & ~less, middle, end)
    s, t = edge(edges, second, step, low, inside & (low < count))
    back = (low < count) & (s == target) & (t == source)
    seen += ONE_WAY * anywhere(inside & ~back)
    tl.store(ptr + e, first, e <= num_nodes)

    is_node = e < num_batch
    graph = tl.load(batch + e * batch_step, is_node, 0)
    before = tl.load(batch + (e - 1) * batch_step, is_node & (e > 0), -1)
    seen += UNSORTED * anywhere(is_node & (before > graph))
    tl.store(found + 2 + GRAPHS + 1 + tl.program_id(0), seen)
    tl.store(found + tl.zeros_like(e), graph, is_node & (e == 0))
    tl.store(found + tl.zeros_like(e) + 1, graph, e == num_batch - 1)
    # A node whose predecessor is of another graph begins its graph, and the empty ones before it.
    for gap in range(0, tl.minimum(tl.max(tl.where(is_node, graph - before, 0)), GRAPHS)):
        begun = graph - gap
        begins = is_node & (begun > before) & (begun >= 0) & (begun < GRAPHS)
        tl.store(found + 2 + begun, e, begins)
    tl.store(found + 3 + graph, num_batch, (e == num_batch - 1) & (graph >= 0) & (graph < GRAPHS))


@triton.jit
def anywhere(holds):
    """1 if ``holds`` is true anywhere."""
    return tl.max(holds.to(tl.int64))


@triton.jit
def edge(edges, second, step, e, mask):
    """Source and target of edges."""
    return tl.load(edges + e * step, mask, 0), tl.load(edges + second + e * step, mask, 0)
