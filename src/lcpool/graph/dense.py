"""Dense assignment without a dense adjacency.

S is N × k; nothing is N × N, and nothing is padded to the largest graph. A product such as SᵀX is a
sum over the nodes of each graph. The nodes are divided into chunks of fixed length, the products
are batched over chunks, and the chunks of a graph are added. At most one chunk per graph is partly
empty, so that the host has a bound on their number without synchronising.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lcpool.graph.assignment import Assignment, check_rows
from lcpool.graph.bounded import Bounded
from lcpool.graph.checks import Checks
from lcpool.graph.graph import Graph
from lcpool.graph.lazy import lazy
from lcpool.graph.sizes import inverse

CHUNK = 64


@dataclass(frozen=True)
class Chunks:
    """The nodes of each graph divided into chunks of ``CHUNK`` nodes."""

    slot: Tensor  # the position of each node, with chunk i from i · CHUNK on
    graph: Tensor  # the graph of each chunk
    batch_size: int
    spare: int = 0  # chunks behind the last, for padding rows

    @classmethod
    def of(cls, graph: Graph) -> Chunks:
        """The chunks of ``graph``."""
        batch, counts = graph.batch_vector(), graph.node_counts()
        chunks = (counts + CHUNK - 1) // CHUNK
        ends = chunks.cumsum(0)
        number = torch.arange(graph.num_nodes, device=batch.device)
        if graph.sizes is None:  # not sorted by graph
            number = inverse(batch.argsort(stable=True))
        slot = (ends - chunks)[batch] * CHUNK + number - (counts.cumsum(0) - counts)[batch]
        # Chunks past the last one are all zeros; any graph may own them.
        size, spare = graph.num_nodes // CHUNK + graph.batch_size, 0
        if isinstance(graph.sizes, Bounded):
            slot, spare = slot.where(graph.sizes.real, size * CHUNK + number % CHUNK), 1
        owner = torch.searchsorted(ends, torch.arange(size, device=batch.device), right=True)
        return cls(slot, owner.clamp(max=graph.batch_size - 1), graph.batch_size, spare)

    def pack(self, x: Tensor) -> Tensor:
        """Rows of nodes as ``[num_chunks, CHUNK, channels]``, zeros where there is no node."""
        chunks = self.graph.numel()
        packed = x.new_zeros((chunks + self.spare) * CHUNK, x.size(-1))
        return packed.index_copy(0, self.slot, x).view(-1, CHUNK, x.size(-1))[:chunks]


class DenseAssignment(Assignment):
    """A dense assignment matrix S: every node has a weight in each of its graph's k clusters.

    Cluster j of graph g is column g · k + j of S. ``value`` has the weights of each node in the k
    clusters of its graph, ``[num_nodes, k]``. The coordinates are computed on first use; products
    need none.
    """

    def __init__(self, value: Tensor, chunks: Chunks) -> None:
        self.checks, self.value, self.chunks = Checks(), value, chunks
        self.num_nodes, self.num_clusters = value.size(0), chunks.batch_size * value.size(1)

    @lazy
    def node_index(self) -> Tensor:
        """Each node k times."""
        nodes = torch.arange(self.num_nodes, device=self.value.device)
        return nodes.unsqueeze(-1).expand_as(self.value).reshape(-1)

    @lazy
    def cluster_index(self) -> Tensor:
        """The k clusters of the graph of each node."""
        k = self.value.size(1)
        first = self.chunks.graph[self.chunks.slot // CHUNK] * k
        return (first.unsqueeze(-1) + torch.arange(k, device=first.device)).reshape(-1)

    @lazy
    def weight(self) -> Tensor:
        """The entries, row by row."""
        return self.value.reshape(-1)

    @lazy
    def packed(self) -> Tensor:
        """S in chunks."""
        return self.chunks.pack(self.value)

    def blocks(self, x: Tensor) -> Tensor:
        """SᵀX of each graph, ``[batch_size, k, channels]``."""
        products = self.packed.mT @ self.chunks.pack(x)
        total = products.new_zeros(self.chunks.batch_size, *products.shape[1:])
        return total.index_add(0, self.chunks.graph, products)

    def reduce(self, x: Tensor) -> Tensor:
        """SᵀX, the clusters of all graphs below each other, ``[num_clusters, channels]``."""
        check_rows(x, self.num_nodes, "input node")
        reduced = self.blocks(x.unsqueeze(-1).flatten(1))
        return reduced.view(-1, *x.shape[1:])

    def lift(self, x: Tensor) -> Tensor:
        """S X', for X' with the clusters of all graphs below each other."""
        check_rows(x, self.num_clusters, "pooled node")
        clusters = x.reshape(self.chunks.batch_size, self.value.size(-1), -1)
        lifted = (self.packed @ clusters.index_select(0, self.chunks.graph)).flatten(0, 1)
        return lifted.index_select(0, self.chunks.slot).view(-1, *x.shape[1:])
