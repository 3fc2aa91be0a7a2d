"""Isomorphic graphs in a set, compared with networkx."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from typer.testing import CliRunner

from lcpool.cli.app import app
from lcpool.data import GraphSet, Split, duplicates, find_duplicates


def data(nodes: int, edges: list, x: list | None = None, y: object = 0) -> Data:
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    features = torch.tensor(x if x is not None else [0.0] * nodes, dtype=torch.float)
    return Data(x=features.view(nodes, 1), edge_index=edge_index, y=y)


def both(graph: nx.Graph, y: object = 0) -> Data:
    """A graph of networkx as PyG data, every edge both ways."""
    graph = nx.convert_node_labels_to_integers(graph)
    return data(len(graph), [*graph.edges, *((v, u) for u, v in graph.edges)], y=y)


def shuffled(graph: Data, seed: int) -> Data:
    random = np.random.RandomState(seed)
    place = torch.from_numpy(random.permutation(graph.num_nodes))
    order = torch.from_numpy(random.permutation(graph.edge_index.size(1)))
    x = torch.empty_like(graph.x)
    x[place] = graph.x
    return Data(x=x, edge_index=place[graph.edge_index][:, order], y=graph.y)


def multigraph(graph: Data) -> nx.MultiDiGraph:
    found = nx.MultiDiGraph()
    found.add_nodes_from((v, {"x": row}) for v, row in enumerate(map(tuple, graph.x.tolist())))
    found.add_edges_from(graph.edge_index.t().tolist())
    return found


def isomorphic(one: Data, other: Data) -> bool:
    same = lambda a, b: a["x"] == b["x"]  # noqa: E731
    return nx.is_isomorphic(multigraph(one), multigraph(other), node_match=same)


@st.composite
def small_graphs(draw: st.DrawFn) -> list[Data]:
    """Directed multigraphs with self-loops, of up to four nodes of two kinds; many are alike."""
    found = []
    for _ in range(draw(st.integers(1, 12))):
        nodes = draw(st.integers(0, 4))
        node = st.integers(0, max(nodes - 1, 0))
        edges = draw(st.lists(st.tuples(node, node), max_size=5)) if nodes else []
        x = draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=nodes, max_size=nodes))
        found.append(data(nodes, edges, x))
    return found


@given(small_graphs())
def test_the_classes_are_those_of_networkx(graphs: list[Data]):
    found = find_duplicates(GraphSet.from_graphs(graphs))
    expected = [
        next(h for h, other in enumerate(graphs[: g + 1]) if isomorphic(graph, other))
        for g, graph in enumerate(graphs)
    ]
    assert found.first.tolist() == expected
    assert found.undecided == 0
    counts = [expected.count(first) > 1 for first in expected]
    assert found.duplicated.tolist() == counts


# The same colours by Weisfeiler and Leman, but not isomorphic.
ALIKE = [
    (nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))),
    (nx.circulant_graph(16, [1, 2]), nx.circulant_graph(16, [1, 6])),
    (nx.line_graph(nx.complete_bipartite_graph(4, 4)), nx.circulant_graph(16, [1, 4, 7])),
]


@pytest.mark.parametrize("pair", ALIKE)
@pytest.mark.parametrize("seed", range(3))
def test_graphs_of_the_same_colours_are_told_apart(pair: tuple, seed: int):
    one, other = map(both, pair)
    graphs = [one, other, shuffled(one, seed), shuffled(other, seed)]
    assert find_duplicates(GraphSet.from_graphs(graphs)).first.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "graph",
    [nx.grid_2d_graph(12, 12), nx.complete_graph(40), nx.star_graph(200), nx.path_graph(3000),
     nx.hypercube_graph(7), nx.random_regular_graph(3, 40, seed=0), nx.empty_graph(500),
     nx.disjoint_union_all([nx.path_graph(2)] * 500)],
    ids=["grid", "complete", "star", "path", "hypercube", "regular", "empty", "pairs"],
)  # fmt: skip
def test_large_and_symmetric_graphs_are_recognised(graph: nx.Graph):
    one = both(graph)
    found = find_duplicates(GraphSet.from_graphs([one, shuffled(one, 0), shuffled(one, 1)]))
    assert found.first.tolist() == [0, 0, 0]
    assert found.undecided == 0


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(duplicates, "MAX_TRIALS", 30_000)
    monkeypatch.setattr(duplicates, "MAX_WORK", 100_000)
    # Regular graphs have one colour, and no two of these are isomorphic.
    graphs = [both(nx.random_regular_graph(4, 60, seed=seed)) for seed in range(12)]
    found = find_duplicates(GraphSet.from_graphs([*graphs, shuffled(graphs[0], 0)]))
    assert found.undecided > 0
    assert "too hard" in found.sentences(GraphSet.from_graphs(graphs))[-1]


def test_zero_has_one_sign():
    graphs = GraphSet.from_graphs([data(1, [], [0.0]), data(1, [], [-0.0]), data(1, [], [1.0])])
    assert find_duplicates(graphs).first.tolist() == [0, 0, 2]


def test_features_that_collide_are_compared_as_they_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(duplicates, "_mixed", lambda keys: keys * np.uint64(0))
    graphs = GraphSet.from_graphs([data(1, [], [value]) for value in (1.0, 2.0, 1.0)])
    assert find_duplicates(graphs).first.tolist() == [0, 1, 0]


def test_labels_and_parts_of_duplicates_are_counted():
    edges, nan = [(0, 1), (1, 0)], float("nan")
    pair, path = (lambda y: data(2, edges, y=y)), (lambda y: data(3, edges, y=y))
    graphs = GraphSet.from_graphs([pair(0), path(0), pair(1), pair(0), path(0), data(9, [], y=1)])
    found = find_duplicates(graphs)
    assert found.duplicated.sum() == 5
    assert found.differing(graphs) == 3
    assert found.leaked(graphs) == 0
    one = Split(*map(torch.tensor, ([0, 5], [1, 3], [2, 4])))
    other = Split(*map(torch.tensor, ([0, 1, 5], [2], [3, 4])))
    assert found.leaked(replace(graphs, splits=(one,))) == 2
    assert found.leaked(replace(graphs, splits=(one, other))) == 3
    assert found.chosen_on(graphs) == 0
    assert found.chosen_on(replace(graphs, splits=(one, other))) == 2
    rows = [[nan, 1.0], [0.0, 1.0], [nan, 1.0], [nan, 1.0], [0.0, nan], [1.0, 1.0]]
    labels = replace(graphs, y=torch.tensor(rows), classes=(), task="labels")
    assert found.differing(labels) == 2


@pytest.mark.parametrize(
    ("name", "graphs", "differing"),
    [("MUTAG", 24, 0), ("PTC_MR", 31, 6), ("IMDB-BINARY", 579, 318)],
)
def test_real_sets_have_duplicates(real, real_graphs, name: str, graphs: int, differing: int):
    found = find_duplicates(real_graphs(name))
    assert (found.duplicated.sum(), found.differing(real_graphs(name))) == (graphs, differing)
    assert found.undecided == 0
    result = CliRunner().invoke(app, ["data", "check", str(real(name))])
    assert f"  {graphs} of {len(found.first)} graphs have an isomorphic duplicate" in result.stdout


def test_the_duplicates_of_mutag_are_those_of_networkx(real_graphs):
    graphs = real_graphs("MUTAG")
    found, rows = find_duplicates(graphs), graphs.to_graphs()
    sizes = [(graph.num_nodes, graph.num_edges, graph.x.sum(0).tolist()) for graph in rows]
    for g, graph in enumerate(rows):
        alike = [h for h in range(g + 1) if sizes[h] == sizes[g]]
        assert found.first[g] == next(h for h in alike if isomorphic(graph, rows[h]))
