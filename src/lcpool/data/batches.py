"""Batches cut from the columns of a set of graphs, several at a time.

To cut a batch takes some twenty operations on short columns of numbers. On a GPU each is a launch,
and together they take as long as a training step. Batches that are cut together share them, and are
slices of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lcpool.graph.checks import Trust
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph
from lcpool.graph.sizes import Sizes, owners, send

if TYPE_CHECKING:
    from lcpool.data.graphset import GraphSet

# Numbers of features and edges that are cut together on a GPU: 64 MiB of features.
AT_ONCE = 2**24
# Every batch begins at a multiple of 16 bytes: for other addresses Triton compiles another kernel.
ROWS, NUMBERS = 4, 2


class GraphBatch(NamedTuple):
    """Some graphs of a :class:`~lcpool.data.GraphSet` as one disjoint union, as PyG batches them.

    Attributes:
        graph: features, edges, the graph of each node, and sizes that are known on the host.
        edge_attr: edge features, or None.
        target: what to predict of each graph, as in :attr:`GraphSet.targets`.
        edge_counts: the number of edges of each graph, on the host, if it is known.
    """

    graph: Graph
    edge_attr: Tensor | None
    target: Tensor
    edge_counts: Tensor | None = None

    @property
    def x(self) -> Tensor:
        return self.graph.x

    @property
    def edge_index(self) -> Tensor:
        return self.graph.edge_index

    @property
    def batch(self) -> Tensor:
        return self.graph.batch_vector()

    @property
    def batch_size(self) -> int:
        return self.graph.batch_size

    @property
    def node_counts(self) -> Tensor:
        """The number of nodes of each graph, on the host."""
        assert self.graph.sizes is not None
        return self.graph.sizes.counts


def cut_batches(graphs: GraphSet, parts: Sequence[Tensor]) -> Iterator[GraphBatch]:
    """A batch of the graphs of each part; on a GPU, several are cut at once."""
    if not graphs.x.is_cuda:  # On a CPU a batch would leave the caches before it is used.
        for part in parts:
            yield from cut_together(graphs, [part])
        return
    some: list[Tensor] = []
    numbers = 0
    for part in parts:
        nodes, edges = graphs.node_counts[part].sum(), graphs.edge_counts[part].sum()
        size = int(nodes) * graphs.num_features + 4 * int(edges)
        if some and numbers + size > AT_ONCE:
            yield from cut_together(graphs, some)
            some, numbers = [], 0
        some.append(part)
        numbers += size
    if some:
        yield from cut_together(graphs, some)


def cut_together(graphs: GraphSet, parts: Sequence[Tensor]) -> Iterator[GraphBatch]:
    """A batch of the graphs of each part, all cut by the same operations, without synchronising."""
    index, sizes = torch.cat(list(parts)), np.array([len(part) for part in parts])
    nodes, edges = graphs.node_counts[index], graphs.edge_counts[index]
    first, part = begins(sizes), np.repeat(np.arange(len(sizes)), sizes)
    node_begin, edge_begin = begins(nodes.numpy())[first], begins(edges.numpy())[first]
    # Nodes are numbered within a batch, and rows through all batches, with gaps.
    node = begins(nodes.numpy())[:-1] - node_begin[part]
    row_begin = begins(padded(node_begin[1:] - node_begin[:-1], ROWS))
    ptr_begin = begins(padded(sizes + 1, NUMBERS))
    number = np.arange(len(index)) - first[part]
    ptr = np.zeros(ptr_begin[-1], np.int64)
    ptr[ptr_begin[part] + number] = node
    ptr[ptr_begin[:-1] + sizes] = node_begin[1:] - node_begin[:-1]
    # All sources of a batch come before all its targets.
    half = np.concatenate([np.tile(np.arange(a, b), 2) for a, b in pairwise(first)])
    ends = np.concatenate([np.repeat([0, graphs.edge_index.size(1)], size) for size in sizes])
    half_begin = begins(edges.numpy()[half])
    # Everything the device must know goes there in one copy, which begins at a round address.
    given = (ptr, index.numpy(), node, row_begin[part] + node, number, half, ends, half_begin)
    copied = send(torch.from_numpy(np.concatenate(given)), graphs.x.device)
    ptrs, picked, node_of, row_of, number_of, half_of, end_of, half_ptr = torch.split(
        copied, [len(values) for values in given]
    )

    row = torch.arange(int(row_begin[-1]), device=copied.device)
    owner = owners(row_of, row.numel())  # of a gap, the last graph before it
    taken = (graphs.node_ptr[picked] - row_of)[owner] + row
    x = graphs.x[taken.clamp_(max=graphs.x.size(0) - 1)]  # in gaps, any row
    batch, target = number_of[owner], graphs.targets[picked]
    owner = owners(half_ptr, int(half_begin[-1]))
    place = (graphs.edge_ptr[picked][half_of] + end_of - half_ptr[:-1])[owner]
    place += torch.arange(place.numel(), device=copied.device)
    shift = (graphs.node_ptr[picked] - node_of)[half_of]
    ends_of_edges = graphs.edge_ends[place] - shift[owner]

    for i, (a, b) in enumerate(pairwise(first.tolist())):
        total, num_edges = int(node_begin[i + 1] - node_begin[i]), edge_begin[i + 1] - edge_begin[i]
        rows, ends_at = slice(row_begin[i], row_begin[i] + total), 2 * edge_begin[i]
        known = Sizes.trusted(nodes[a:b], ptrs[ptr_begin[i] :][: b - a + 1], total)
        known.batch = batch[rows]
        edge_index = ends_of_edges[ends_at : ends_at + 2 * num_edges].view(2, -1)
        adjacent = Edges.trusted(edge_index, total, graphs.undirected, graphs.in_order)
        graph = Graph(x[rows], adjacent, None, known.batch, b - a, known, Trust())
        attr = graphs.edge_attr
        attr = None if attr is None else attr[place[ends_at : ends_at + num_edges]]
        yield GraphBatch(graph, attr, target[a:b], edges[a:b])


def begins(counts: Any) -> Any:
    """Where each of some counts begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def padded(counts: Any, multiple: int) -> Any:
    """The next multiple of each count."""
    return -(-counts // multiple) * multiple
