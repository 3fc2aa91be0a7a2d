"""GraphUNet: a row per node, the literal computation, and the way up by each lift."""

import networkx as nx
import pytest
import torch

from lcpool import (
    CellPooling,
    EdgePooling,
    GraphUNet,
    KMISPooling,
    LCPooling,
    SAGPooling,
    TopKPooling,
)

POOLS = {
    "cell": CellPooling,
    "lcpool": LCPooling,
    "topk": TopKPooling,
    "sag": SAGPooling,
    "kmis": lambda c, _: KMISPooling(c),
    "edge": lambda c, _: EdgePooling(c),
}


def undirected(graph: nx.Graph) -> torch.Tensor:
    pairs = torch.tensor(list(graph.edges)).T
    return torch.cat([pairs, pairs.flip(0)], dim=1)


EDGES = undirected(nx.disjoint_union(nx.cycle_graph(8), nx.path_graph(5)))
BATCH = torch.tensor([0] * 8 + [1] * 5)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("sum_res", [True, False])
def test_every_node_has_a_row_and_every_parameter_of_a_convolution_a_gradient(pool, sum_res):
    torch.manual_seed(0)
    network = GraphUNet(3, 8, 2, depth=2, sum_res=sum_res, pool=POOLS[pool])
    out = network(torch.randn(13, 3), EDGES, BATCH)
    assert out.shape == (13, 2)
    out.square().sum().backward()
    for conv in (*network.down, *network.up):
        assert all(p.grad is not None and p.grad.isfinite().all() for p in conv.parameters())


def test_equals_the_steps_one_by_one():
    torch.manual_seed(0)
    network = GraphUNet(3, 8, 2, depth=2).double()
    x = torch.randn(13, 3, dtype=torch.float64)
    first = network.down[0](x, EDGES).relu()
    one = network.pools[0](first, EDGES, batch=BATCH)
    second = network.down[1](one.x, one.edge_index).relu()
    two = network.pools[1](second, one.edge_index, batch=one.batch)
    third = network.down[2](two.x, two.edge_index).relu()
    up = network.up[1](second + third[two.labels()], one.edge_index).relu()
    wanted = network.up[0](first + up[one.labels()], EDGES)
    torch.testing.assert_close(network(x, EDGES, BATCH), wanted)


def test_a_graph_does_not_depend_on_its_batch():
    torch.manual_seed(0)
    network = GraphUNet(3, 8, 2, depth=2).double()
    x = torch.randn(13, 3, dtype=torch.float64)
    alone = network(x[:8], undirected(nx.cycle_graph(8)))
    torch.testing.assert_close(network(x, EDGES, BATCH)[:8], alone)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="depth"):
        GraphUNet(3, 8, 2, depth=0)
    with pytest.raises(ValueError, match="pool_ratios"):
        GraphUNet(3, 8, 2, depth=2, pool_ratios=[0.5])
    network = GraphUNet(3, 8, 2, depth=2, pool_ratios=[0.5, 2])
    assert [pool.ratio for pool in network.pools] == [0.5, 2]
