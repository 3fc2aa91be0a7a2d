"""The candidates do what the plan says: connected, covered, nearest, the same as one by one."""

from itertools import pairwise

import networkx as nx
import pytest
import torch

from experiments.connected import poolings
from experiments.connected.poolings import CANDIDATES, TopkCellsUngated, covering
from lcpool import CellPooling


def graph_of(seed: int) -> nx.Graph:
    generator = torch.Generator().manual_seed(seed)
    n = int(torch.randint(1, 25, (), generator=generator))
    graph = nx.gnp_random_graph(n, float(torch.rand((), generator=generator)) * 0.3, seed=seed)
    if seed % 2:  # every other one connected
        parts = [min(part) for part in nx.connected_components(graph)]
        graph.add_edges_from(pairwise(parts))
    return graph


def tensors(graph: nx.Graph, seed: int):
    pairs = torch.tensor(list(graph.edges), dtype=torch.long).view(-1, 2).T
    place = torch.randperm(len(graph), generator=torch.Generator().manual_seed(seed + 1))
    return torch.cat([pairs, pairs.flip(0)], dim=1), place


def one_by_one(graph: nx.Graph, place: list[int]) -> set[int]:
    inside = set(graph)
    for node in sorted(graph, key=lambda i: -place[i]):
        rest = inside - {node}
        if nx.is_dominating_set(graph, rest):
            inside = rest
    return inside


@pytest.mark.parametrize("seed", range(60))
def test_a_cover_is_that_of_one_by_one_and_at_most_half(seed: int):
    graph = graph_of(seed)
    edge_index, place = tensors(graph, seed)
    batch, n = torch.zeros_like(place), len(graph)
    found = covering(edge_index, place, batch, torch.tensor([n]))
    assert set(found.nonzero().view(-1).tolist()) == one_by_one(graph, place.tolist())
    half = covering(edge_index, place, batch, torch.tensor([(n + 1) // 2]))
    alone = nx.number_of_isolates(graph)
    assert nx.is_dominating_set(graph, set(half.nonzero().view(-1).tolist()))
    assert int(half.sum()) - alone <= (n - alone + 1) // 2


@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda candidate: candidate.__name__)
def test_connected_graphs_stay_connected(candidate):
    torch.manual_seed(0)
    for seed in range(1, 40, 2):
        graph = graph_of(seed)
        edge_index, _ = tensors(graph, seed)
        ratio = 0.5 if candidate.cover or not candidate.cells else 0.2
        out = candidate(3, ratio)(torch.randn(len(graph), 3), edge_index)
        pooled = nx.Graph(out.edge_index.T.tolist())
        pooled.add_nodes_from(range(out.x.size(0)))
        if candidate.cover or candidate.cells:
            assert nx.is_connected(pooled)
        if candidate.cells:
            assert out.edge_index.size(1) <= edge_index.size(1)


def test_gathered_and_ungated_are_the_sums():
    torch.manual_seed(1)
    edge_index, _ = tensors(graph_of(7), 7)
    x = torch.randn(int(edge_index.max()) + 1, 5)
    for name in ("TopkCellsGathered", "TopkCellsUngated"):
        pool = getattr(poolings, name)(5, 0.3)
        out = pool(x, edge_index)
        h = pool.score(x, edge_index) if name.endswith("Gathered") else torch.ones(len(x))
        cells = out.labels()
        for j in range(out.x.size(0)):
            torch.testing.assert_close(out.x[j], (h[:, None] * x)[cells == j].sum(0))
        out.x.square().sum().backward()
        trained = dict(pool.named_parameters())
        del trained["score.lin_s.bias"]  # the softmax does not depend on it
        assert all(value.grad.abs().sum() > 0 for value in trained.values())


@pytest.mark.parametrize("seed", range(1, 20, 2))
def test_the_chosen_candidate_is_cellpool(seed: int):
    graph = graph_of(seed)
    edges, _ = tensors(graph, seed)
    torch.manual_seed(seed)
    x = torch.randn(len(graph), 8, dtype=torch.float64, requires_grad=True)
    chosen, ours = TopkCellsUngated(8).double(), CellPooling(8).double()
    ours.load_state_dict(chosen.state_dict())
    outputs = [pool(x, edges) for pool in (chosen, ours)]
    for one, other in zip(*outputs, strict=True):
        torch.testing.assert_close(one, other)
    grads = [
        torch.autograd.grad(out.x.square().sum(), [x, *pool.parameters()])
        for out, pool in zip(outputs, (chosen, ours), strict=True)
    ]
    torch.testing.assert_close(*grads)
