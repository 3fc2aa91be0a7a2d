"""Graclus against one edge after the other, by the literal formula."""

import pytest
import torch
from graphs import Example, graphs
from hypothesis import given

from lcpool import GraclusPooling
from lcpool.graph.graph import Graph
from lcpool.ops.matching import plain
from lcpool.pool.graclus import cut_weights, shuffled


def brute_force(graph):
    edges, n = graph.edge_index.t().tolist(), graph.num_nodes
    weight = [1.0] * len(edges) if graph.edge_attr is None else graph.edge_attr.tolist()
    degree = [0.0] * n
    for (u, v), w in zip(edges, weight, strict=True):
        degree[u] += w
        degree[v] += w
    cut = [
        w * (1 / degree[u] + 1 / degree[v]) for (u, v), w in zip(edges, weight, strict=True)
    ]  # fmt: skip
    return torch.tensor(cut, dtype=torch.float64)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("weighted", [False, True])
def test_heaviest_edges_first(weighted):
    @given(graphs())
    def check(example: Example) -> None:
        weight = example.weights().abs() + 0.1 if weighted else None
        graph = Graph.of(
            example.features(), example.edge_index, weight, example.batch, len(example.sizes)
        )
        cut = brute_force(graph)
        torch.testing.assert_close(cut_weights(graph), cut)
        out = GraclusPooling(8)(graph)
        labels, free = out.labels(), [True] * example.num_nodes
        tie = shuffled(graph)
        order = sorted(range(len(cut)), key=lambda e: (-round(float(cut[e]), 9), -int(tie[e])))
        pairs = set()
        for e in order:
            u, v = example.edge_index[:, e].tolist()
            if u != v and free[u] and free[v]:
                free[u] = free[v] = False
                pairs.add(frozenset((u, v)))
        sizes = labels.bincount(minlength=out.x.size(0))
        found = {
            frozenset((labels == c).nonzero().view(-1).tolist())
            for c in (sizes == 2).nonzero().view(-1)
        }
        assert found == pairs
        assert not (sizes > 2).any()

    check()


def test_a_graph_does_not_depend_on_its_batch():
    """Ties too: they go by the places of nodes in their graph, also where ``batch`` is unsorted."""
    ring = torch.stack([torch.arange(12), torch.arange(12).roll(1)])
    ring = torch.cat([ring, ring.flip(0)], dim=1)
    pool, x = GraclusPooling(2), torch.randn(12, 2)
    alone = pool(x, ring).labels()
    twice = torch.cat([ring, ring + 12], dim=1)
    batch = torch.arange(2).repeat_interleave(12)
    labels = pool(x.repeat(2, 1), twice, batch=batch).labels()
    assert torch.equal(labels[:12], alone)
    assert torch.equal(labels[12:] - labels[:12].max() - 1, alone)
    mixed = torch.arange(24).view(2, 12).t().reshape(-1)  # one node of each in turn
    back = mixed.argsort()
    again = pool(x.repeat(2, 1)[mixed], back[twice], batch=batch[mixed]).labels()[back]
    assert torch.equal(again, labels)


def test_rounds_are_few_where_all_weights_are_equal(monkeypatch):
    """A ring of 4096 nodes: in the order of the numbers there would be as many rounds as pairs."""
    n = 4096
    ring = torch.stack([torch.arange(n), torch.arange(n).roll(1)])
    graph = Graph.of(torch.zeros(n, 1), torch.cat([ring, ring.flip(0)], dim=1))
    order = torch.argsort(shuffled(graph), descending=True, stable=True)
    rounds = 0
    count = torch.Tensor.scatter_reduce

    def spy(*args, **kwargs):
        nonlocal rounds
        rounds += 1
        return count(*args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "scatter_reduce", spy)
    into = graph.edges.entries.into
    sizes = graph.sizes_or_one()
    plain.matching(order, graph.edge_index, into.ptr, into.entry, sizes.counts, sizes.ptr)
    assert rounds <= 2 * 20
