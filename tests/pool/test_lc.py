import warnings

import pytest
import torch
from graphs import Example, dense, edges_of, graphs
from hypothesis import assume, given
from torch_geometric.nn import GCNConv, GraphConv
from torch_geometric.utils import to_dense_adj

from lcpool import LCSMP, LCPooling, LocalClusterPooling
from lcpool.graph.graph import Graph
from lcpool.nn.conv import FastGCNConv

PATH = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])


@given(graphs())
def test_equals_the_equations_of_the_paper(example: Example):
    torch.manual_seed(example.seed)
    pool, x = LCPooling(8, hidden_channels=5).double(), example.features()
    out = pool(x, example.edge_index, batch=example.batch, batch_size=len(example.sizes))
    h = pool.score(x, example.edge_index, example.batch, len(example.sizes))
    torch.testing.assert_close(out.x, (x * h.view(-1, 1))[out.perm])
    torch.testing.assert_close(out.score, h[out.perm])
    A = example.A
    expected = (A + A.T @ A + A @ A + A.T @ A @ A)[out.perm][:, out.perm]
    assert torch.equal(out.edge_index, edges_of(expected))
    for b, size in enumerate(example.sizes):
        kept, dropped = out.perm[out.batch == b], example.batch == b
        dropped[out.perm] = False
        assert kept.numel() == -(-size // 2)
        if dropped.any():
            assert h[kept].min() >= h[dropped].max()


@given(graphs())
def test_proposition_7(example: Example):
    """A convolution and then LCPool is local cluster selection with that convolution as v."""
    torch.manual_seed(example.seed)
    conv, score = GraphConv(8, 8).double(), LCSMP(8).double()
    x, edges, batch = example.features(), example.edge_index, example.batch
    with_v = LocalClusterPooling(score, cluster=conv)(x, edges, batch=batch)
    without = LocalClusterPooling(score)(conv(x, edges), edges, batch=batch)
    for a, b in zip(with_v, without, strict=True):
        if a is not None:
            torch.testing.assert_close(a, b)


@given(graphs(undirected=True))
def test_a_connected_graph_stays_connected(example: Example):
    """If every node has a kept one within a hop, no component of the input falls apart: the ends
    of an edge then have kept nodes at most three hops apart."""
    torch.manual_seed(example.seed)
    pool, x = LCPooling(8, ratio=0.8).double(), example.features()
    out = pool(x, example.edge_index, batch=example.batch)
    within_a_hop = (torch.eye(example.num_nodes) + example.A)[:, out.perm].sum(dim=1) > 0
    assume(within_a_hop.all())
    before, after = components(example.A), components(dense(out.edge_index, out.perm.numel()))
    assert before == after


def components(A):
    reach = (torch.eye(A.size(0), dtype=A.dtype) + A + A.T) != 0
    for _ in range(A.size(0)):
        reach = (reach.double() @ reach.double()) != 0
    return len({tuple(row) for row in reach.tolist()})


def test_ties_are_not_lost_in_the_softmax():
    """Scores so low that their probabilities are all 0 are still told apart."""
    pool = LocalClusterPooling(Spread(), ratio=1.0)
    out = pool(torch.tensor([[0.0], [-200.0], [-150.0], [-300.0]]), PATH[:, :6])
    assert out.perm.tolist() == [0, 2, 1, 3]
    assert out.score[2] == out.score[3] == 0


class Spread(LCSMP):
    def __init__(self):
        super().__init__(1)

    def values(self, x, graph):
        return x


def test_edge_attr_is_dropped_with_a_warning_unless_filled():
    pool, x, attr = LCPooling(8), torch.randn(5, 8), torch.rand(8, 3)
    with pytest.warns(UserWarning, match="edge_fill") as caught:
        assert pool(x, PATH, attr).edge_attr is None
    assert caught[0].filename == __file__
    pool.edge_fill = -1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = pool(x, PATH, attr)
    A = to_dense_adj(PATH, edge_attr=attr, max_num_nodes=5)[0]
    for (p, q), value in zip(out.perm[out.edge_index].t().tolist(), out.edge_attr, strict=True):
        expected = A[p, q] if abs(p - q) == 1 else torch.full((3,), -1.0)
        torch.testing.assert_close(value, expected)


def test_gradients_reach_features_and_score():
    torch.manual_seed(0)
    pool = LCPooling(3).double()
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: pool(x, PATH).x, (x,))
    pool = LCPooling(8).double()
    pool(torch.randn(5, 8, dtype=torch.float64), PATH).x.square().sum().backward()
    for name, parameter in pool.named_parameters():
        # b_s moves all scores of a graph alike, which a softmax does not see.
        assert (parameter.grad.abs().sum() > 1e-12) == (name != "score.lin_s.bias"), name


@pytest.mark.slow
@pytest.mark.parametrize(("star", "strict"), [(False, False), (True, True)])
@pytest.mark.parametrize("order", ["one graph", "sorted", "shuffled"])
def test_every_kernel_gives_the_same_bits_each_time(order, star, strict, backend):
    """With torch's deterministic algorithms, which refuse some operations, and without."""
    n = {"triton": 12, "torch": 240, "numba": 2400}[backend]  # the last is enough for two threads
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, n, (2, 4 * n), generator=generator)
    edges[:, :n] //= n // 4  # hubs
    batch = torch.arange(n) * 3 // n if order == "sorted" else torch.arange(n) % 3
    x = torch.randn(n, 32, generator=generator, requires_grad=True)
    torch.manual_seed(0)
    pool = LCPooling(32, cluster=FastGCNConv(32, 32) if star else None)
    threads, results = torch.get_num_threads(), []
    try:
        torch.set_num_threads(2)
        torch.use_deterministic_algorithms(strict)
        for _ in range(2):
            out = pool(x, edges, batch=None if order == "one graph" else batch)
            grads = torch.autograd.grad(out.x.square().sum(), [x, *pool.parameters()])
            results.append([out.x, out.edge_index, out.score, out.lift(), *grads])
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_autocast_does_not_decide_who_is_kept():
    """In bfloat16 most of 200 scores tie, and the first of equals would be kept."""
    torch.manual_seed(0)
    pool, x = LCPooling(8), 1 + 0.01 * torch.rand(200, 8)
    edges = torch.randint(0, 200, (2, 600))
    expected = pool(x, edges)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = pool(x, edges)
        of_sixteen_bits = pool(x.bfloat16(), edges)
    assert torch.equal(out.perm, expected.perm)
    assert out.score.dtype == torch.float32
    torch.testing.assert_close(out.x, expected.x)
    assert of_sixteen_bits.x.dtype == torch.bfloat16
    assert of_sixteen_bits.score.dtype == torch.bfloat16
    assert pool.score(x, edges).unique().numel() > 190


def test_lc_pool_star():
    pool = LCPooling(8, cluster=GCNConv(8, 8))
    x = torch.randn(5, 8)
    out = pool(x, PATH)
    X = pool.cluster(x, PATH)
    torch.testing.assert_close(out.x, (X * pool.score(X, PATH).view(-1, 1))[out.perm])
    with pytest.raises(ValueError, match=r"\b8\b"):
        LCPooling(8, cluster=GCNConv(8, 4))(x, PATH)


def test_self_loops_of_the_result():
    for self_loops, expected in ((True, 3), (False, 0)):
        edges = LCPooling(8, self_loops=self_loops)(torch.randn(5, 8), PATH).edge_index
        assert (edges[0] == edges[1]).sum() == expected


def test_max_edges():
    with pytest.raises(ValueError, match="max_edges=2"):
        LCPooling(8, max_edges=2)(torch.randn(5, 8), PATH)


def test_lift_gives_every_node_the_mean_of_its_clusters():
    pool = LocalClusterPooling(lambda x, _: x[:, 0], ratio=2)
    out = pool(torch.tensor([[1.0], [9.0], [2.0], [8.0], [3.0]]), PATH)
    assert out.perm.tolist() == [1, 3]
    # 0 and 1 belong to the cluster of 1, 2 to both, 3 and 4 to the cluster of 3.
    lifted = out.lift(torch.tensor([[10.0], [20.0]]))
    assert lifted.view(-1).tolist() == [10.0, 10.0, 15.0, 20.0, 20.0]
    # An edge that stands twice does not count twice.
    twice = pool(torch.tensor([[1.0], [9.0], [2.0], [8.0], [3.0]]), PATH[:, [*range(8), 3]])
    assert torch.equal(twice.lift(torch.tensor([[10.0], [20.0]])), lifted)


def test_options_reach_the_parts():
    options = {"hidden_channels": 5, "rescale": True, "edge_fill": 1.0, "hops": 2}
    pool = LCPooling(8, 0.25, multiplier=2.0, **options)
    assert pool.score.hidden_channels == 5
    assert pool.score.rescale
    x = torch.randn(5, 8)
    out, h = pool(x, PATH, torch.zeros(8)), pool.score(x, PATH)
    torch.testing.assert_close(out.x, 2 * (x * h.view(-1, 1))[out.perm])
    assert set(out.edge_attr.tolist()) <= {0.0, 1.0}
    assert repr(pool) == (
        "LCPooling(8, ratio=0.25, multiplier=2.0, hidden_channels=5, rescale=True, edge_fill=1.0, "
        "hops=2)"
    )


def test_min_score():
    pool = LCPooling(8, min_score=0.2)
    x = torch.randn(5, 8)
    h = pool.score(x, PATH)
    expected = ((h > 0.2) | (h == h.max())).nonzero().view(-1)
    assert torch.equal(pool(x, PATH).perm, expected)


def test_repr():
    assert repr(LCPooling(8)) == "LCPooling(8, ratio=0.5)"
    assert repr(LCPooling(8, 3, cluster=GCNConv(8, 8))) == (
        "LCPooling(8, ratio=3, cluster=GCNConv(8, 8))"
    )
    assert repr(LocalClusterPooling(LCSMP(8))) == "LocalClusterPooling(LCSMP(8), ratio=0.5)"


class OwnGate(LCSMP):
    def gate(self, rank, graph):
        return super().gate(rank, graph).sqrt()


class OwnValues(LCSMP):
    def values(self, x, graph):
        return -super().values(x, graph)


class OwnRank(LCSMP):
    def rank(self, x, graph):
        return -super().rank(x, graph)


def graph_of(x, batch=(0, 0, 0, 1, 1)):
    return Graph.of(x, PATH, batch=torch.tensor(batch))


def test_the_operator_is_used_where_it_applies():
    for pool in (LCPooling(8), LCPooling(8, cluster=FastGCNConv(8, 8)), LCPooling(8, ratio=2)):
        assert pool.fused(graph_of(torch.randn(5, 8))) is not None
    assert LCPooling(8).double().fused(graph_of(torch.randn(5, 8).double())) is not None


@pytest.mark.parametrize("make", [OwnGate, OwnValues, OwnRank])
def test_a_score_of_ones_own_goes_step_by_step(make):
    pool, x = LCPooling(8), torch.randn(5, 8)
    pool.score = make(8)
    assert pool.fused(graph_of(x)) is None
    h = pool.score(x, PATH, torch.tensor([0, 0, 0, 1, 1]))
    out = pool(x, PATH, batch=torch.tensor([0, 0, 0, 1, 1]))
    torch.testing.assert_close(out.score, h[out.perm])


def test_what_else_goes_step_by_step():
    x = torch.randn(5, 8)
    hooked = LCPooling(8)
    hooked.score.lin_x.register_forward_hook(lambda *_: None)
    for pool in (LCPooling(8, rescale=True), LCPooling(8, min_score=0.1), hooked):
        assert pool.fused(graph_of(x)) is None
    assert LCPooling(8).fused(graph_of(x, (0, 1, 0, 1, 1))) is None
    assert LCPooling(8).bfloat16().fused(graph_of(x.bfloat16())) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert LCPooling(8).fused(graph_of(x)) is None


@pytest.mark.parametrize("star", [False, True])
def test_the_operator_gives_what_the_steps_give(star):
    pool = LCPooling(8, cluster=FastGCNConv(8, 8) if star else None).double()
    x = torch.randn(5, 8).double()
    one = pool.select(graph_of(x))
    pool.score.lin_x.register_forward_hook(lambda *_: None)
    steps = pool.select(graph_of(x))
    assert torch.equal(one.perm, steps.perm)
    torch.testing.assert_close((one.x, one.score), (steps.x, steps.score))
