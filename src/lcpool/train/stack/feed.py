"""Batches of one shape, cut on the GPU from the columns of a set of graphs.

A batch is so many numbers of graphs. Kernels copy these graphs to tensors of a fixed size, so that
the step that begins with it can be captured once and replayed for other numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from lcpool.data import GraphBatch, GraphSet
from lcpool.graph.bounded import Bounded, BoundedEdges
from lcpool.graph.capture import NotCapturableError
from lcpool.graph.checks import MAX_COUNT, Checks, Unread
from lcpool.graph.edges import Edges, Neighbours
from lcpool.graph.graph import Graph
from lcpool.ops.connect import HOPS, connect_clusters
from lcpool.ops.launch import MAX_NODES, cdiv, kernel
from lcpool.ops.topk import KeepPlan, Kept
from lcpool.ops.topk.gpu import graph_of

# Rows or edges that a program copies.
BLOCK = 128
# Room for batches larger than those of the first epoch, and what it is a multiple of. The nodes of
# one run vary most, and room for them costs least: programs without nodes end at once.
SPARE, SPARE_OF_RUN, ROUND = 1.05, 1.5, 16


class NotCountedError(LookupError):
    """A feed was asked for the pairs within a number of hops that it was not told of."""

    def __init__(self, hops: float) -> None:
        super().__init__(f"pairs of nodes at most {hops} hops apart were not counted")
        self.hops = hops


class Columns:
    """The columns of a set of undirected graphs as a feed needs them, and an empty graph.

    Attributes:
        empty: the number of the empty graph, the last.
        sizes: the number of nodes and of edges of each graph, ``[2, graphs + 1]``, on the device.
        of_graph: the same on the host.
        first: the first node and the first edge of each.
        ptr, node: the neighbours of each node, as nodes of the whole set.
        distinct: no edge occurs twice.
    """

    def __init__(self, graphs: GraphSet) -> None:
        graphs.check()  # kernels trust what is in a batch
        if graphs.x.dtype != torch.float32 and graphs.x.is_cuda:
            raise NotCapturableError("features are not float32, for which there are no kernels")
        if not graphs.undirected:
            raise NotCapturableError("some edges have no reverse edge")
        if int(graphs.node_counts.max()) > MAX_NODES:
            raise NotCapturableError(f"a graph has more than {MAX_NODES:,} nodes")
        self.graphs, self.empty = graphs, len(graphs)
        device = graphs.x.device
        self.of_graph: Tensor = torch.stack(
            [pad(graphs.node_counts, (0, 1)), pad(graphs.edge_counts, (0, 1))]
        )
        self.sizes = self.of_graph.to(device)
        self.first = torch.stack([graphs.node_ptr, graphs.edge_ptr])
        rows = Edges.trusted(graphs.edge_index, graphs.x.size(0), in_order=graphs.in_order).out
        self.ptr, self.node = rows.ptr, rows.node
        pairs = graphs.edge_index[0] * graphs.x.size(0) + graphs.edge_index[1]
        self.distinct = torch.unique(pairs).numel() == pairs.numel()
        self.targets = torch.cat([graphs.targets, torch.zeros_like(graphs.targets[:1])])
        self._reach: dict[float, Tensor] = {}

    def reach(self, hops: float) -> Tensor:
        """An upper bound on the pairs of nodes at most ``hops`` apart in each graph, on the host.

        For one hop the number of edges, repeated ones and self-loops included; up to three hops,
        the pairs are counted; for more, all pairs of nodes of the graph.
        """
        if hops not in self._reach:
            self._reach[hops] = self._count_reach(hops)
        found: Tensor = self._reach[hops]
        return found

    def _count_reach(self, hops: float) -> Tensor:
        if hops == 1:
            edges: Tensor = self.of_graph[1]
            return edges
        pairs: Tensor = self.of_graph[0].square()
        if hops <= HOPS:
            # The bits of some graphs at a time.
            chunks = (pairs[:-1].cumsum(0) >> 26).unique(return_counts=True)[1]
            parts = torch.split(torch.arange(self.empty), chunks.tolist())
            pairs = torch.cat(
                [*(pairs_within(self.graphs, part, int(hops)) for part in parts), pairs[-1:]]
            )
        return pairs


def pairs_within(graphs: GraphSet, part: Tensor, hops: int) -> Tensor:
    """How many pairs of nodes are at most ``hops`` apart in each of some graphs, on the host."""
    batch = graphs.batch(part)
    nodes, sizes = torch.arange(batch.graph.num_nodes, device=graphs.x.device), batch.graph.sizes
    assert sizes is not None
    found = connect_clusters(
        batch.graph.edges, Kept(nodes, batch.batch, nodes), batch.batch, KeepPlan(sizes, sizes),
        True, MAX_COUNT, Checks(), hops,
    )  # fmt: skip
    return batch.batch[found[0]].bincount(minlength=len(part)).cpu()


class Feed:
    """Batches of ``size`` graphs of each of several runs, of one shape.

    Args:
        columns: the graphs.
        runs: the number of runs.
        size: the number of graphs of each run.
        hops: for which t the pairs of nodes at most t hops apart must be counted.

    Attributes:
        rooms: how many nodes, nodes of a run, and pairs at most t hops apart the tensors hold.
    """

    def __init__(
        self, columns: Columns, runs: int, size: int, hops: Iterable[float] = (1,)
    ) -> None:
        self.columns, self.runs, self.size = columns, runs, size
        self.graphs = runs * size
        self.rooms: dict[Any, int] = dict.fromkeys(("nodes", "longest", *hops), 0)

    def load(self, batches: Tensor) -> bool:
        """Make room for batches, ``[steps, graphs]`` on the host; return whether there was enough.

        Where there was not, rooms grow to a little more than is needed; none shrinks, or the next
        epochs would make others too small.
        """
        wanted = {key: self._needed(key, batches) for key in self.rooms}
        enough = all(self.rooms[key] >= n for key, n in wanted.items())
        if not enough:
            for key, n in wanted.items():
                spare = SPARE_OF_RUN if key == "longest" else SPARE
                self.rooms[key] = max(self.rooms[key], cdiv(int(n * spare) + 1, ROUND) * ROUND)
        return enough

    def _needed(self, key: Any, batches: Tensor) -> int:
        nodes = key in ("nodes", "longest")
        of_graph = self.columns.of_graph[0] if nodes else self.columns.reach(key)
        counts = of_graph[batches].view(len(batches), self.runs, self.size).sum(2)
        return int((counts if key == "longest" else counts.sum(1)).max())

    def reach(self, hops: float) -> int:
        """Room for pairs of nodes at most ``hops`` apart."""
        if hops not in self.rooms:
            raise NotCountedError(hops)
        return self.rooms[hops]

    def cut(self, picked: Tensor) -> GraphBatch:
        """The graphs with these numbers, on the device, as a batch of the fixed shape."""
        columns, graphs = self.columns, self.graphs
        sizes = columns.sizes.index_select(1, picked)
        begins = pad(sizes.cumsum(1), (1, 0))
        rows, room = self.rooms["nodes"], self.rooms[1]
        taken, batch = picked.new_empty(rows), picked.new_empty(rows)
        ptr, node = picked.new_empty(rows + 1), picked.new_empty(room)
        given = (picked, begins, columns.first, columns.first.size(1), graphs, graphs.bit_length())
        cut_rows[(cdiv(rows + 1, BLOCK),)](
            *given, columns.ptr, taken, batch, ptr, rows, BLOCK, num_warps=1
        )
        cut_edges[(cdiv(room, BLOCK),)](*given, columns.node, node, room, BLOCK, num_warps=1)
        most = int(columns.of_graph[0].max())
        known = Bounded(begins[0], most, rows, self.runs, self.rooms["longest"])
        known.batch = batch
        edges = BoundedEdges(Neighbours(ptr, node), self.reach, columns.distinct)
        x = columns.graphs.x.index_select(0, taken)
        graph = Graph(x, edges, None, batch, graphs, known, Unread())
        return GraphBatch(graph, None, columns.targets.index_select(0, picked))


@kernel
def cut_rows(
    picked, begins, first, stride, graphs, steps, all_ptr, taken, batch, ptr, rows,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The row of the whole set that each row is, its graph, and where its neighbours begin."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < tl.load(begins + graphs)
    g = tl.minimum(graph_of(i, begins, graphs, steps), graphs - 1)
    owner = tl.load(picked + g)
    # The empty graph has no rows.
    row = i - tl.load(begins + g) + tl.load(first + owner, real, 0)
    edge = tl.load(begins + graphs + 1 + g) - tl.load(first + stride + owner, real, 0)
    start = tl.load(all_ptr + row, real, 0) + edge
    tl.store(taken + i, tl.where(real, row, 0), i < rows)
    tl.store(batch + i, g, i < rows)
    tl.store(ptr + i, tl.where(real, start, tl.load(begins + 2 * graphs + 1)), i <= rows)


@kernel
def cut_edges(
    picked, begins, first, stride, graphs, steps, all_node, node, room, BLOCK: tl.constexpr
):
    """The neighbours of all rows."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ends = begins + graphs + 1
    real = e < tl.load(ends + graphs)
    g = tl.minimum(graph_of(e, ends, graphs, steps), graphs - 1)
    owner = tl.load(picked + g)
    edge = e - tl.load(ends + g) + tl.load(first + stride + owner, real, 0)
    neighbour = tl.load(all_node + edge, real, 0) - tl.load(first + owner, real, 0)
    tl.store(node + e, neighbour + tl.load(begins + g), real)
