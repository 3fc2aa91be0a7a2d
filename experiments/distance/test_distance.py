"""The graphs are what the plan says, and the analysis counts what it says."""

import networkx as nx
import pandas as pd
import pytest
from torch_geometric.utils import to_networkx

from experiments.distance import analysis, run
from experiments.distance.graphs import NOISE, far, near
from lcpool.models import Architecture
from lcpool.settings import config_text
from lcpool.train.protocol import Protocol


def surroundings(data, hops: int) -> list[str]:
    """A hash of what each node sees within some hops, sorted."""
    graph = to_networkx(data, to_undirected=True)
    colours = data.x[:, :-NOISE].argmax(1).tolist()
    nx.set_node_attributes(graph, dict(enumerate(colours)), "colour")
    seen = nx.weisfeiler_lehman_subgraph_hashes(graph, node_attr="colour", iterations=hops)
    return sorted(rounds[-1] for rounds in seen.values())


@pytest.mark.parametrize("distance", [2, 4, 8])
def test_only_hubs_that_are_seen_together_tell_the_classes_apart(distance):
    by_size = {}
    for data in far(distance, seed=5, num_graphs=40):
        by_size.setdefault((data.num_nodes, int(data.y)), data)
    for size in (4, 6, 8):
        one, other = (by_size[size * distance, label] for label in (0, 1))
        below = max(1, (distance - 1) // 2)
        if distance > 2:
            assert surroundings(one, below) == surroundings(other, below)
        assert surroundings(one, distance) != surroundings(other, distance)


@pytest.mark.parametrize("family", [far, near])
def test_rings_are_connected_and_hubs_lie_at_the_distance(family):
    for data in family(4, seed=5, num_graphs=6):
        graph = to_networkx(data, to_undirected=True)
        assert nx.is_connected(graph)
        assert set(dict(graph.degree).values()) == {2}
        hubs = (data.x[:, 0] == 0).nonzero().view(-1).tolist()
        assert len(hubs) * 4 == data.num_nodes
        lengths = dict(nx.all_pairs_shortest_path_length(graph))
        assert min(lengths[a][b] for a in hubs for b in hubs if a != b) == 4


def test_near_is_decided_by_features_alone():
    for data in near(4, seed=5, num_graphs=30):
        red, blue = data.x[:, 1:3].sum(0).tolist()
        assert int(data.y) == int(blue > red)
        assert red != blue


def test_the_analysis_names_controls_and_counts_distances():
    rows = []
    kinds = (("topkpool", "graphconv", 1), ("cellpool", "graphconv", 1),
             ("nopool", "graphconv", 4), ("nopool", "somewhere:WithoutEdges", 1))  # fmt: skip
    for pool, conv, depth in kinds:
        config = config_text(Architecture(pool=pool, depth=depth), Protocol())
        rows += [
            {"pool": pool, "conv": conv, "dataset": f"far-{d}", "run": r, "config": config,
             "test_accuracy": 100 if pool == "cellpool" else 50 + r, "diverged": None,
             "device": "CPU", "torch": "2"}
            for d in run.DISTANCES[far] for r in (0, 1)
        ]  # fmt: skip
    table = analysis.accuracies(pd.DataFrame(rows))
    assert list(table.index) == [
        "topkpool", "cellpool", analysis.DEEPER, analysis.WITHOUT_EDGES,
    ]  # fmt: skip
    assert table.loc["cellpool"].tolist() == [100] * 4
    assert table.loc["topkpool", "far-2"] == 50.5
    assert [line.count(",") for line in analysis.answers(table)] == [3, 5]  # distances and names
    assert analysis.connected("cellpool") == "yes"
    assert analysis.connected("topkpool") == "no"


def test_expectations_name_the_poolings_that_refute_them():
    columns = ["far-2", "far-4", "far-8", "far-16", "near-4", "near-16"]
    rows = {
        "topkpool": [100, 50, 50, 50, 99, 99], "sagpool": [100, 50, 70, 50, 99, 99],
        "random": [50, 50, 50, 50, 90, 99], "lcpool": [100, 100, 80, 60, 99, 99],
        "cellpool": [100, 100, 100, 100, 99, 99], "graclus": [100, 100, 100, 50, 99, 99],
        analysis.WITHOUT_EDGES: [50, 50, 50, 50, 99, 99],
    }  # fmt: skip
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    assert analysis.refuting(table) == [["graclus"], ["sagpool"], [], ["random"]]
