"""When LCPool keeps a graph connected: docs/theorems.md has the proofs."""

from itertools import combinations

import networkx as nx
import pytest
import torch

from lcpool import cluster_connect


def pooled(graph: nx.Graph, kept: tuple[int, ...]) -> nx.Graph:
    """A' = ones(A + AᵀA + A² + AᵀA²)(î, î), by the library."""
    kind = nx.DiGraph if graph.is_directed() else nx.Graph
    pairs = torch.tensor(list(graph.edges), dtype=torch.long).view(-1, 2).T
    if not graph.is_directed():
        pairs = torch.cat([pairs, pairs.flip(0)], dim=1)
    edge_index = cluster_connect(pairs, torch.tensor(kept), num_nodes=len(graph))
    found = kind(edge_index.T.tolist())
    found.add_nodes_from(range(len(kept)))
    return found


def dominates(graph: nx.Graph, kept: tuple[int, ...]) -> bool:
    return all(i in kept or set(graph[i]) & set(kept) for i in graph)


def atlas(n: int) -> list[nx.Graph]:
    """All graphs of n nodes."""
    return [g for g in nx.graph_atlas_g() if len(g) == n]


def minimal(graph: nx.Graph, order: list[int]) -> set[int]:
    """A minimal dominating set: nodes are dropped in this order while all stay covered."""
    inside = set(graph)
    for node in order:
        if dominates(graph, tuple(inside - {node})):
            inside.remove(node)
    return inside


@pytest.mark.parametrize("n", range(1, 7))
def test_a_connected_graph_stays_connected_if_the_kept_nodes_dominate(n):
    fell_apart = 0
    for graph in filter(nx.is_connected, atlas(n)):
        for k in range(1, n + 1):
            for kept in combinations(range(n), k):
                if dominates(graph, kept):
                    assert nx.is_connected(pooled(graph, kept))
                else:
                    fell_apart += not nx.is_connected(pooled(graph, kept))
    # Without domination it can fall apart: the ends of a path of five nodes.
    assert (fell_apart > 0) == (n >= 5)


@pytest.mark.parametrize("seed", range(20))
def test_larger_graphs_too(seed):
    graph = nx.random_labeled_tree(40, seed=seed)
    graph.add_edges_from(nx.gnp_random_graph(40, 0.002 * seed, seed=seed).edges)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(seed)).tolist()
    assert nx.is_connected(pooled(graph, tuple(sorted(minimal(graph, order)))))


@pytest.mark.parametrize("n", range(1, 7))
def test_half_of_the_nodes_suffice(n):
    """Ore's theorem: without isolated nodes, a minimal dominating set or its complement."""
    for graph in atlas(n):
        if nx.number_of_isolates(graph):
            continue
        one = minimal(graph, list(range(n)))
        other = set(graph) - one
        assert dominates(graph, tuple(other))
        assert min(len(one), len(other)) <= n // 2


def test_directed_graphs_need_a_kept_target():
    """Each dropped node needs an edge *to* a kept one; an edge from a kept one is not enough."""
    both = nx.DiGraph([(0, 2), (1, 2)])
    assert not nx.is_weakly_connected(pooled(both, (0, 1)))
    for seed in range(300):
        graph = nx.gnp_random_graph(6, 0.3, seed=seed, directed=True)
        if not nx.is_weakly_connected(graph):
            continue
        for k in range(1, 7):
            for kept in combinations(range(6), k):
                if dominates(graph, kept):  # graph[i] are the targets of i's edges
                    assert nx.is_weakly_connected(pooled(graph, kept))
    # Half of the nodes do not suffice: every end of an out-star must be kept.
    star = nx.DiGraph([(0, i) for i in range(1, 6)])
    least = min(
        k for k in range(1, 7) if any(dominates(star, s) for s in combinations(range(6), k))
    )
    assert least == 5
