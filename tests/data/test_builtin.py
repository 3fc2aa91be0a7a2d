import time

import torch

from lcpool import cluster_connect
from lcpool.data import GraphSet, builtin, load_dataset
from lcpool.data.builtin import PLAIN, builtin_labels
from lcpool.data.checks import check_columns


def colours(graph) -> torch.Tensor:
    return graph.x[:, -3:].argmax(1)


def hub_pairs(graph) -> torch.Tensor:
    """Colours at both ends of every edge between different hubs that LCPool's connect makes."""
    hubs = colours(graph).nonzero().squeeze(1)
    edges = cluster_connect(graph.edge_index, hubs, graph.num_nodes, self_loops=False)
    return colours(graph)[hubs][edges]


def test_it_is_small_balanced_and_made_quickly():
    start = time.process_time()
    graphs = builtin()
    assert time.process_time() - start < 2
    assert len(graphs) == 600
    assert graphs.y.bincount().tolist() == [300, 300]
    assert graphs.num_features == 6
    assert 20 <= graphs.node_counts.min() < graphs.node_counts.max() <= 60


def test_a_seed_always_gives_the_same_graphs():
    one, again, other = builtin(num_graphs=20), builtin(num_graphs=20), builtin(1, num_graphs=20)
    assert torch.equal(one.x, again.x)
    assert torch.equal(one.edge_index, again.edge_index)
    assert one.x.shape != other.x.shape or not torch.equal(one.x, other.x)


def mean_statistics(graphs: GraphSet, label: int) -> torch.Tensor:
    """What a look at single nodes and edges tells: features, degrees, colours next to colours."""
    batch = graphs.batch((graphs.y == label).nonzero().squeeze(1))
    degree = batch.edge_index[0].bincount(minlength=len(batch.x))
    colour = batch.x[:, -3:].argmax(1)
    pairs = (3 * colour[batch.edge_index[0]] + colour[batch.edge_index[1]]).bincount(minlength=9)
    shares = [degree.bincount(minlength=6) / len(degree), pairs / pairs.sum()]
    return torch.cat([batch.x.mean(0), *shares])


def test_single_nodes_and_edges_do_not_tell_the_classes_apart():
    graphs = builtin()
    difference = mean_statistics(graphs, 0) - mean_statistics(graphs, 1)
    assert difference.abs().max() < 0.03


def test_every_graph_has_as_many_red_hubs_as_blue_ones():
    for graph in builtin(num_graphs=50).to_graphs():
        plain, red, blue = colours(graph).bincount()
        assert red == blue
        assert plain > red + blue


def test_selected_hubs_keep_no_edge_but_their_clusters_stay_a_ring():
    for graph in builtin(num_graphs=50).to_graphs():
        hubs = colours(graph) != PLAIN
        assert not (hubs[graph.edge_index[0]] & hubs[graph.edge_index[1]]).any()
        assert hub_pairs(graph).size(1) == 2 * int(hubs.sum())


def test_neighbouring_hubs_tell_the_class_nearly_always():
    graphs = builtin()
    alike = torch.tensor(
        [(pairs[0] == pairs[1]).float().mean() for pairs in map(hub_pairs, graphs.to_graphs())]
    )
    accuracy = ((alike > 0.5).long() == graphs.y).float().mean()
    assert 0.9 < accuracy < 1


def test_labels_are_what_their_names_say():
    graphs, plain = load_dataset("builtin-labels"), builtin()
    check_columns(graphs)
    assert torch.equal(graphs.x, plain.x)
    assert graphs.target_names == ("alternating", "large", "leafy")
    assert 0.08 < graphs.y.isnan().double().mean() < 0.12
    for graph, label in zip(graphs.to_graphs()[:100], plain.y.tolist(), strict=False):
        hubs = int((colours(graph) != PLAIN).sum())
        leaves = int((graph.edge_index[0].bincount() == 1).sum())
        expected = torch.tensor([label == 0, hubs >= 8, leaves > 2 * hubs])
        known = ~graph.y[0].isnan()
        assert torch.equal(graph.y[0, known].bool(), expected[known])
    again = builtin_labels(num_graphs=30)
    torch.testing.assert_close(again.y, builtin_labels(num_graphs=30).y, equal_nan=True)
