"""Partitions of padded graphs, against exact ones; interpreted."""

from math import inf

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from lcpool import CellPooling, EdgePooling, GraclusPooling, KMISPooling, RandomAssignment
from lcpool.graph.bounded import Bounded, BoundedEdges
from lcpool.graph.capture import without_copies
from lcpool.graph.checks import Unread
from lcpool.graph.edges import Neighbours
from lcpool.graph.graph import Graph
from lcpool.ops import kernels

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
COUNTS = torch.tensor([7, 0, 12, 1, 9, 0])
# What is behind the last node or edge.
SPARE, NO_NODE = 5, 2**40

POOLS = {
    "cell": lambda: CellPooling(4),
    "cell, lost nodes": lambda: CellPooling(4, ratio=1),
    "kmis": lambda: KMISPooling(4),
    "kmis over 2 hops": lambda: KMISPooling(4, k=2),
    "edge": lambda: EdgePooling(4),
    "graclus": lambda: GraclusPooling(4),
    "randomassign": lambda: RandomAssignment(4),
}


def exact_graph(seed: int) -> Graph:
    """Undirected graphs of several components; two of them are empty."""
    generator = torch.Generator().manual_seed(seed)
    batch = torch.arange(len(COUNTS)).repeat_interleave(COUNTS)
    n = len(batch)
    wanted = (torch.rand(n, n, generator=generator) < 0.08) & (batch[:, None] == batch)
    index = (wanted | wanted.T).nonzero().T.contiguous().to(DEVICE)
    x = torch.randn(n, 4, generator=generator, dtype=torch.float64).to(DEVICE)
    return Graph.of(x, index, None, batch.to(DEVICE), len(COUNTS))


def bounded_graph(graph: Graph) -> Graph:
    """The same with room to spare, in which nothing is usable."""
    rows, n = graph.edges.out, graph.num_nodes
    x = torch.cat([graph.x.detach(), graph.x.new_full((SPARE, 4), torch.nan)])
    ptr = torch.cat([rows.ptr, rows.ptr[-1:].expand(SPARE)])
    node = torch.cat([rows.node, rows.node.new_full((SPARE,), NO_NODE)])
    begins = torch.cat([COUNTS.new_zeros(1), COUNTS.cumsum(0)]).to(DEVICE)
    sizes = Bounded(begins, int(COUNTS.max()) + 2, n + SPARE, 1, n + SPARE)
    edges = BoundedEdges(Neighbours(ptr, node), {1: node.numel(), inf: n * n}.__getitem__, True)
    return Graph(x, edges, None, sizes.batch, len(COUNTS), sizes, Unread())


def leaf(graph: Graph) -> Graph:
    graph.x.requires_grad_()
    return graph


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", POOLS)
def test_equals_the_exact_graphs(name, seed, monkeypatch, poisoned):
    here = leaf(exact_graph(seed))
    there = leaf(bounded_graph(here))
    numbers = torch.rand(2, 100, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    monkeypatch.setattr(torch, "rand", lambda rows, columns, **_: numbers[:rows, :columns])
    torch.manual_seed(seed)
    pool = POOLS[name]().double().to(DEVICE)
    pool.warned_of_lost = True
    wanted = pool(here)
    wanted.x.square().sum().backward()
    lifted = wanted.lift()
    if DEVICE.type == "cpu":
        from lcpool.ops.backends import gpu

        monkeypatch.setattr(kernels, "cpu_kernels", lambda: gpu)
    with without_copies():
        found = pool(there)
    k, n = wanted.x.size(0), here.num_nodes
    found.x[:k].square().sum().backward()
    assert torch.equal(found.graph.sizes.ptr, wanted.graph.sizes.ptr)
    torch.testing.assert_close(found.x[:k], wanted.x)
    assert torch.equal(found.batch[:k], wanted.batch)
    torch.testing.assert_close(there.x.grad[:n], here.x.grad)
    torch.testing.assert_close(found.lift()[:n], lifted)
    for ours, exact in ((found.perm, wanted.perm), (found.score, wanted.score)):
        if exact is not None:
            torch.testing.assert_close(ours[:k], exact)
    rows, edges = found.graph.edges.out, wanted.graph.edges
    assert torch.equal(rows.ptr[: k + 1], edges.out.ptr)
    assert (rows.ptr[k:] == edges.out.ptr[-1]).all()
    assert torch.equal(rows.node[: edges.out.node.numel()], edges.out.node)
    assert found.graph.edges.reach(1) == there.edges.reach(1)
    assert found.graph.edges.reach(2) == there.edges.reach(inf)
