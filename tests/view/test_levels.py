"""``Model.pooled``: the numbers of each graph are those of the layers called by hand."""

import pytest
import torch
from graphs import dense
from targets import random_graphs, with_labels, with_values
from torch_geometric.data import Data
from untrained import labelled, untrained

from lcpool import Assignment, LCPooling, Pooling
from lcpool.data import GraphSet
from lcpool.nn.conv import convolve
from lcpool.settings import ALL_POOLS
from lcpool.train import Model
from lcpool.view import Level, PooledGraph

OWN = ("page_poolings:EdgeContraction", "torch_geometric.nn:TopKPooling", "untrained:Silent")


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    """Among others an empty graph, one of one node, and one without edges."""
    none = torch.empty(2, 0, dtype=torch.int64)
    odd = [Data(x=torch.ones(n, 2), edge_index=none) for n in (0, 1, 3)]
    return labelled([*random_graphs(4), *odd, *random_graphs(3, seed=1)])


def by_hand(model: Model, graphs: GraphSet) -> list[tuple]:
    """The graphs before and after each pooling, as one batch, called layer by layer."""
    network, found = model.network, []
    graph = graphs.batch(torch.arange(len(graphs))).graph
    x = convolved(network, 0, network.pre(graph.x), graph)
    for step, pool in enumerate(network.pools, start=1):
        out = pool(x, graph)
        found.append((graph, out))
        graph = out.graph
        x = convolved(network, step, graph.x, graph)
    return found


def convolved(network, step, x, graph):
    y = convolve(network.convs[step], x, graph.edges, graph.edge_attr if step else None)
    return network.norms[step](y)


def same(ours, theirs):
    assert (ours is None) == (theirs is None)
    if ours is not None:
        torch.testing.assert_close(ours, theirs)


def check(level: Level, before, out, g: int) -> None:
    """The level of graph g against the batch: what belongs to g, by masks."""
    nodes = (before.batch_vector() == g).nonzero().view(-1)
    pooled = (out.batch == g).nonzero().view(-1)
    edges = torch.isin(out.edge_index[0], pooled)
    assert level.num_nodes == len(pooled)
    torch.testing.assert_close(pooled[level.edge_index], out.edge_index[:, edges])
    same(level.edge_attr, None if out.edge_attr is None else out.edge_attr[edges])
    same(level.score, None if out.score is None else out.score[pooled])
    if out.perm is None:
        assert level.perm is None
    else:
        torch.testing.assert_close(nodes[level.perm], out.perm[pooled])
    if out.made is None:
        assert level.assignment is None
        return
    labels = out.labels()[nodes]
    member = labels >= 0
    assert level.labels[~member].tolist() == [-1] * int((~member).sum())
    torch.testing.assert_close(pooled[level.labels[member]], labels[member])
    S = out.assignment.to_dense()
    torch.testing.assert_close(level.assignment.to_dense(), S[nodes][:, pooled])


LOST = "ignore:CellPooling leaves out"  # of the graph without edges


@pytest.mark.slow
@pytest.mark.filterwarnings(LOST)
@pytest.mark.parametrize("pool", [*ALL_POOLS, *OWN])
def test_levels_are_those_of_the_layers(graphs: GraphSet, pool: str):
    model = untrained(graphs, pool, poolings=2, ratio=0.6)
    torch.manual_seed(1)
    with torch.no_grad():
        calls = by_hand(model, graphs)
    torch.manual_seed(1)
    pooled = model.pooled(graphs)
    assert [one.number for one in pooled] == list(range(len(graphs)))
    assert {len(one.levels) for one in pooled} == {0 if pool == "nopool" else 2}
    for g, one in enumerate(pooled):
        assert one.graph.num_nodes == int(graphs.node_counts[g])
        for level, (before, out) in zip(one.levels, calls, strict=False):
            check(level, before, out, g)


def adjacency(edge_index, num_nodes):
    return dense(edge_index, num_nodes) > 0


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["topkpool", "sagpool", "lcpool", "asapool", "random"])
def test_an_edge_between_kept_nodes_is_new_unless_it_was_there(graphs: GraphSet, pool: str):
    for one in untrained(graphs, pool).pooled(graphs):
        (level,) = one.levels
        A = adjacency(one.graph.edge_index, one.graph.num_nodes)
        u, v = level.perm[level.edge_index]
        assert level.new.tolist() == (~A[u, v]).tolist()
        if pool in ("topkpool", "sagpool"):
            assert not level.new.any()


@pytest.mark.slow
@pytest.mark.filterwarnings(LOST)
@pytest.mark.parametrize("pool", ["cellpool", "kmis", "edgepool", "graclus", "randomassign"])
def test_an_edge_between_clusters_that_an_edge_joined_is_not_new(graphs: GraphSet, pool: str):
    for one in untrained(graphs, pool).pooled(graphs):
        (level,) = one.levels
        assert level.new.tolist() == [False] * level.edge_index.size(1)


def test_new_edges_between_clusters():
    class Joined(Pooling):
        """Pairs of nodes, all of them joined."""

        def select(self, graph):
            return Assignment.of_labels(torch.arange(graph.num_nodes) // 2)

        def connect(self, graph, S):
            return torch.combinations(torch.arange(S.num_pooled)).t(), None

    from lcpool.graph.graph import Graph
    from lcpool.view.levels import level_of

    path = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    graph = Graph.of(torch.ones(6, 1), path)
    level = level_of(graph, Joined()(graph))
    assert level.edge_index.tolist() == [[0, 0, 1], [1, 2, 2]]
    assert level.new.tolist() == [False, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["diffpool", "mincutpool", "dmon", "untrained:Silent"])
def test_where_new_has_no_meaning(graphs: GraphSet, pool: str):
    assert all(one.levels[0].new is None for one in untrained(graphs, pool).pooled(graphs))


def test_unsorted_batches_and_one_graph_at_a_time():
    from lcpool.graph.graph import Graph
    from lcpool.view.levels import level_of, levels_of

    rows, torch_seed = random_graphs(2), torch.manual_seed(0)
    pool = LCPooling(2)
    sizes = [row.num_nodes for row in rows]
    order = torch.randperm(sum(sizes), generator=torch_seed)
    place = order.argsort()
    x = torch.cat([row.x for row in rows])
    x = x + torch.rand(x.shape)  # no ties
    edges = torch.cat([rows[0].edge_index, rows[1].edge_index + sizes[0]], dim=1)
    batch = torch.tensor([0] * sizes[0] + [1] * sizes[1])
    mixed = Graph.of(x[order], place[edges], batch=batch[order])
    with pytest.raises(ValueError, match="2 graphs"):
        level_of(mixed, pool(mixed))
    for g, level in enumerate(levels_of(mixed, pool(mixed))):
        mine = order[batch[order] == g] - (sizes[0] if g else 0)  # its nodes, as they come there
        one = Graph.of(x[batch == g][mine], mine.argsort()[rows[g].edge_index])
        alone = level_of(one, pool(one))
        assert level.perm.tolist() == alone.perm.tolist()
        assert level.labels.tolist() == alone.labels.tolist()
        assert sorted(level.edge_index.t().tolist()) == sorted(alone.edge_index.t().tolist())


@pytest.mark.parametrize("graphs", [labelled(random_graphs(9)), with_labels(9), with_values(9)])
def test_predictions_and_truth(graphs: GraphSet):
    model = untrained(graphs)
    pooled = model.pooled(graphs)
    given = model.predict(graphs)
    for g, one in enumerate(pooled):
        if graphs.task == "classes":
            assert one.prediction == int(given[g])
            assert one.truth == int(graphs.y[g])
        else:
            torch.testing.assert_close(one.prediction, given[g])
            torch.testing.assert_close(one.truth, graphs.y[g], equal_nan=True)
        if graphs.task == "values":
            assert one.probabilities is None
        else:
            torch.testing.assert_close(one.probabilities, model.probabilities(graphs)[g])


def test_lists_of_graphs_keep_their_positions_and_need_no_truth():
    rows = random_graphs(5)
    model = untrained(labelled(random_graphs(5)))
    for row in rows:
        row.pos = torch.rand(row.num_nodes, 2)
    pooled = model.pooled(rows)
    assert [one.graph is row for one, row in zip(pooled, rows, strict=True)] == [True] * 5
    assert [one.truth for one in pooled] == [None] * 5
    assert model.pooled([]) == []


def test_more_graphs_than_a_batch_come_in_their_order(monkeypatch: pytest.MonkeyPatch):
    graphs = labelled(random_graphs(23))
    model = untrained(graphs)
    whole = model.pooled(graphs)
    monkeypatch.setattr("lcpool.train.model.EVAL_BATCH", 5)
    for one, other in zip(whole, model.each_pooled(graphs), strict=True):
        assert one.number == other.number
        assert one.levels[0].perm.tolist() == other.levels[0].perm.tolist()
    assert not any(pool._forward_hooks for pool in model.network.pools)


def test_repr_shows_sizes():
    graphs = labelled(random_graphs(2))
    one = untrained(graphs, poolings=2).pooled(graphs)[1]
    assert isinstance(one, PooledGraph)
    sizes = [one.graph.num_nodes, *(level.num_nodes for level in one.levels)]
    assert " → ".join(map(str, sizes)) in repr(one)
