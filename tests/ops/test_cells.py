"""Cells are the nearest kept nodes, and they keep what is connected connected."""

from itertools import combinations, pairwise

import networkx as nx
import pytest
import torch

from lcpool.graph.graph import Graph
from lcpool.ops.cells import cells, places, topk_of_components
from lcpool.ops.topk import KeepPlan


def some_graph(seed: int) -> nx.Graph:
    n, p = 1 + seed % 23, 0.3 * ((seed * 7) % 11) / 10
    graph = nx.gnp_random_graph(n, p, seed=seed)
    if seed % 2:  # every other one is connected
        graph.add_edges_from(pairwise(min(part) for part in nx.connected_components(graph)))
    return graph


def batch_of(graphs: list[nx.Graph], one_way: bool = False) -> Graph:
    union = nx.disjoint_union_all(graphs)
    pairs = torch.tensor(list(union.edges), dtype=torch.long).view(-1, 2).T
    pairs = pairs if one_way else torch.cat([pairs, pairs.flip(0)], dim=1)
    batch = torch.arange(len(graphs)).repeat_interleave(torch.tensor([len(g) for g in graphs]))
    return Graph.of(torch.ones(len(union), 1), pairs, None, batch, len(graphs))


def shuffled(n: int, seed: int) -> torch.Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("one_way", [False, True])
@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_a_cell_has_the_nodes_nearest_to_its_kept_node(seed, one_way, backend):
    graphs = [some_graph(seed + i) for i in range(3)]
    graph, union = batch_of(graphs, one_way), nx.disjoint_union_all(graphs)
    place = shuffled(len(union), seed)
    perm = place.argsort()[: max(1, len(union) // 4)]
    found = cells(graph, place, perm)
    for node, far in nx.all_pairs_shortest_path_length(union):
        near = [(far[i], int(place[i]), p) for p, i in enumerate(perm.tolist()) if i in far]
        assert int(found[node]) == (min(near)[-1] if near else -1)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_the_best_of_each_component_comes_first(seed, backend):
    graphs = [some_graph(seed + i) for i in range(3)]
    graph, union = batch_of(graphs), nx.disjoint_union_all(graphs)
    place = shuffled(len(union), seed)
    perm, batch = topk_of_components(place, graph, KeepPlan.of(0.3, graph))
    start = 0
    for g, alone in enumerate(graphs):
        parts = [[i + start for i in part] for part in nx.connected_components(alone)]
        best = {min(part, key=place.__getitem__) for part in parts}
        nodes = range(start, start + len(alone))
        order = sorted(nodes, key=lambda i: (i not in best, int(place[i])))
        kept = perm[batch == g].tolist()
        assert kept == order[: -(-3 * len(alone) // 10)]
        start += len(alone)


def test_ties_and_sixteen_bits():
    assert places(torch.tensor([0.5, 1.0, 1.0, 0.5])).tolist() == [2, 0, 1, 3]
    scores = torch.rand(5000, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert places(scores).sort().values.equal(torch.arange(5000))


def all_graphs(n: int):
    """Every graph of n nodes, up to a few copies."""
    for atlas in nx.graph_atlas_g():
        if len(atlas) == n:
            yield nx.convert_node_labels_to_integers(atlas)


def coarse(graph: nx.Graph, cell: list[int]) -> nx.Graph:
    """The cells, joined where an edge joins them."""
    found = nx.Graph()
    found.add_nodes_from(c for c in cell if c >= 0)
    found.add_edges_from((cell[u], cell[v]) for u, v in graph.edges if cell[u] != cell[v])
    return found


def check_theorems(graph: nx.Graph, kept: list[int], place: torch.Tensor) -> None:
    found = cells(batch_of([graph]), place, torch.tensor(kept)).tolist()
    pooled = coarse(graph, found)
    assert pooled.number_of_nodes() == len(kept)
    # Off the diagonal there are never more edges than before.
    assert pooled.number_of_edges() <= graph.number_of_edges()
    # No component is split or merged; one without a kept node vanishes.
    for part in nx.connected_components(graph):
        inside = {found[i] for i in part}
        if inside == {-1}:
            assert not set(kept) & part
        else:
            assert inside in list(nx.connected_components(pooled))
    # Each cell is connected.
    for c in range(len(kept)):
        assert nx.is_connected(graph.subgraph(i for i in graph if found[i] == c))


@pytest.mark.parametrize("n", range(1, 7))
def test_connection_is_kept_in_every_small_graph(n):
    for number, graph in enumerate(all_graphs(n)):
        for k in range(1, n + 1):
            for kept in combinations(range(n), k):
                check_theorems(graph, list(kept), shuffled(n, number))


@pytest.mark.parametrize("seed", range(40))
def test_connection_is_kept_in_larger_graphs(seed):
    graph = nx.gnp_random_graph(60, 0.01 + 0.002 * seed, seed=seed)
    place = shuffled(60, seed)
    for k in (1, 7, 30):
        check_theorems(graph, shuffled(60, seed + k)[:k].tolist(), place)


@pytest.mark.parametrize("seed", range(40))
def test_directed_graphs_stay_weakly_and_strongly_connected(seed):
    graph = nx.gnp_random_graph(12, 0.08 + 0.01 * seed, seed=seed, directed=True)
    edge_index = torch.tensor(list(graph.edges), dtype=torch.long).view(-1, 2).T
    found = cells(
        Graph.of(torch.ones(12, 1), edge_index), shuffled(12, seed), shuffled(12, seed + 1)[:4]
    ).tolist()
    pooled = nx.DiGraph()
    pooled.add_nodes_from(c for c in found if c >= 0)
    pooled.add_edges_from((found[u], found[v]) for u, v in graph.edges if found[u] != found[v])
    for connected in (nx.is_weakly_connected, nx.is_strongly_connected):
        if connected(graph):
            assert connected(pooled)
