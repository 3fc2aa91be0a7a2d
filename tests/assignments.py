"""Assignments of the nodes of random graphs, and the product that they are checked against."""

from copy import copy

import torch
from graphs import dense, edges_of

from lcpool import Assignment
from lcpool.graph.checks import Checks
from lcpool.graph.sizes import Sizes
from lcpool.ops.connect.product import connect_assignment
from lcpool.ops.topk import KeepPlan

# Graphs of a batch: how many nodes they have, and how many clusters. An empty one, one that keeps
# nothing, one node alone, one cluster, and one of more clusters than a word or a block holds.
SIZES, KEPT = (7, 0, 3, 1, 5, 20), (4, 0, 0, 1, 1, 34)


class Case:
    """A batch of directed graphs with weights, and an S' that is not local; some stand twice.

    ``most`` is how many edges, and how many entries of S', a graph has at the most before that.
    """

    def __init__(self, sizes=SIZES, kept=KEPT, most=20, dtype=torch.float64):
        self.generator = torch.Generator().manual_seed(0)
        self.num_nodes, self.num_clusters = sum(sizes), sum(kept)
        edges, entries, first, zero = [], [], 0, 0
        for n, k in zip(sizes, kept, strict=True):
            count = (min(n * k, most),)
            edges.append(first + self.draw(n, (2, min(n * n, most))))
            entries.append(torch.stack([first + self.draw(n, count), zero + self.draw(k, count)]))
            first, zero = first + n, zero + k
        self.edge_index = self.twice(torch.cat(edges, dim=1))
        node, cluster = self.twice(torch.cat(entries, dim=1))
        weight, value = (
            torch.randn(size, generator=self.generator, dtype=torch.float64).to(dtype)
            for size in (self.edge_index.size(1), node.numel())
        )
        self.weight = weight.requires_grad_()
        self.S = Assignment(
            node, self.num_nodes, cluster, self.num_clusters, value.requires_grad_()
        )
        self.counts = [torch.tensor(c) for c in (sizes, kept)]
        self.plan = self.plan_on("cpu")
        self.batch = self.plan.sizes.batch

    def plan_on(self, device):
        return KeepPlan(*(Sizes(c, torch.device(device)) for c in self.counts))

    def to(self, device):
        """The same on another device."""
        other, S = copy(self), self.S
        other.edge_index, other.batch = self.edge_index.to(device), self.batch.to(device)
        other.weight, value = (
            x.detach().to(device, copy=True).requires_grad_() for x in (self.weight, S.weight)
        )
        node, cluster = S.node_index.to(device), S.cluster_index.to(device)
        other.S = Assignment(node, self.num_nodes, cluster, self.num_clusters, value)
        other.plan = self.plan_on(device)
        return other

    def draw(self, end, shape):
        return torch.randint(0, max(end, 1), shape, generator=self.generator)

    def twice(self, pairs):
        """Some pairs stand two or three times, in no order."""
        pairs = torch.cat([pairs, pairs[:, ::3], pairs[:, ::5]], dim=1)
        return pairs[:, torch.randperm(pairs.size(1), generator=self.generator)]

    def connect(self, self_loops=True, max_edges=10**9, with_graphs=True):
        graphs = (self.batch, self.plan) if with_graphs else (None, None)
        options = (self_loops, max_edges, Checks())
        return connect_assignment(self.edge_index, self.S, self.weight, *graphs, *options)

    def operands(self):
        """What the operator takes, before its options."""
        graphs = [self.batch, self.plan.sizes.counts, self.plan.kept.counts, self.plan.kept.ptr]
        entries = (
            self.edge_index,
            self.S.node_index,
            self.S.cluster_index,
            self.weight,
            self.S.weight,
        )
        return *entries, graphs, self.num_nodes, self.num_clusters

    def product(self, self_loops=True):
        """The literal formula: where A' has entries, and them."""
        S, A = self.S.to_dense(), torch.zeros(self.num_nodes, self.num_nodes, dtype=torch.float64)
        A = A.index_put(tuple(self.edge_index), self.weight.double(), accumulate=True)
        ones = self.S.with_weight(torch.ones_like(self.S.weight)).to_dense().double()
        pattern = ones.T @ dense(self.edge_index, self.num_nodes) @ ones
        if not self_loops:
            pattern.fill_diagonal_(0)
        edges = edges_of(pattern)
        return edges, (S.T.double() @ A @ S.double())[edges[0], edges[1]]

    def gradients(self, values):
        # A gradient that is not the same everywhere.
        grad = torch.arange(values.numel(), dtype=values.dtype, device=values.device).cos()
        return torch.autograd.grad(values, (self.weight, self.S.weight), grad)
