"""CellPool against the literal definition, node by node, and what it promises of components."""

import itertools
import warnings

import networkx as nx
import pytest
import torch
from graphs import Example, dense, graphs
from hypothesis import given, settings
from torch_geometric.nn import GraphConv, LEConv

from lcpool import CellPooling, ConvScore, ProjectionScore
from lcpool.ops.topk import keep_counts
from lcpool.testing import check_pooling

SCORES = {
    "lcsmp": lambda c: None,
    "topk": lambda c: ProjectionScore(c),
    "sag": lambda c: ConvScore(GraphConv(c, 1), "tanh"),
    "asap": lambda c: ConvScore(LEConv(c, 1), "sigmoid"),
}
every_score = pytest.mark.parametrize("score", SCORES)


def make(score: str = "lcsmp", ratio: float = 0.5, channels: int = 8, **options) -> CellPooling:
    torch.manual_seed(0)
    return CellPooling(channels, ratio, SCORES[score](channels), **options).double()


def call(pool, x, edge_index, edge_attr=None, batch=None, **options):
    """Without the warning that components were left out."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "CellPooling leaves out")
        return pool(x, edge_index, edge_attr, batch, **options)


def undirected(graph: nx.Graph) -> torch.Tensor:
    pairs = torch.tensor(list(graph.edges), dtype=torch.long).view(-1, 2).T
    return torch.cat([pairs, pairs.flip(0)], dim=1)


def brute_force(h: torch.Tensor, graph: nx.Graph, k: int) -> tuple[list[int], list[int]]:
    """The kept nodes in their order, and the place there of each node's nearest one."""
    best = {max(part, key=lambda i: (float(h[i]), -i)) for part in nx.connected_components(graph)}
    order = sorted(graph, key=lambda i: (i not in best, -float(h[i]), i))
    perm = order[:k]
    far = dict(nx.all_pairs_shortest_path_length(graph))
    labels = []
    for i in range(len(graph)):
        near = [(far[i][j], -float(h[j]), j, p) for p, j in enumerate(perm) if j in far[i]]
        labels.append(min(near)[-1] if near else -1)
    return perm, labels


@pytest.mark.parametrize("ratio", [0.5, 0.2, 3])
def test_equals_the_definition(ratio, backend):
    compare_with_the_definition("lcsmp", ratio, examples=10 if backend == "triton" else 30)


@pytest.mark.parametrize("score", ["topk", "sag", "asap"])
def test_equals_the_definition_with_the_scores_of_others(score):
    compare_with_the_definition(score, 0.5)


def compare_with_the_definition(score: str, ratio: float, examples: int = 30) -> None:
    @settings(max_examples=examples)
    @given(graphs())
    def check(example: Example) -> None:
        pool, x, weight = make(score, ratio), example.features(), example.weights()
        out = call(
            pool, x, example.edge_index, weight, example.batch, batch_size=len(example.sizes)
        )
        # Ranks, not h: LCSMP is a softmax, whose small values tie.
        whole = pool.check(x, example.edge_index, weight, example.batch, len(example.sizes))
        rank = pool.score.rank(x, whole).detach()
        A, start, count = dense(example.edge_index, example.num_nodes), 0, 0
        perm, labels = [], []
        for n, k in zip(
            example.sizes, keep_counts(ratio, torch.tensor(example.sizes)).tolist(), strict=True
        ):
            part = slice(start, start + n)
            graph = nx.from_numpy_array(A[part, part].numpy(), create_using=nx.DiGraph)
            kept, own = brute_force(rank[part], graph.to_undirected(), k)
            perm += [i + start for i in kept]
            labels += [c + count if c >= 0 else -1 for c in own]
            start, count = start + n, count + len(kept)
        assert out.perm.tolist() == perm
        assert out.labels().tolist() == labels
        S = torch.zeros(example.num_nodes, count, dtype=torch.float64)
        for i, c in enumerate(labels):
            if c >= 0:
                S[i, c] = 1
        torch.testing.assert_close(out.x, S.T @ x)
        pattern = (S.T @ A @ S).fill_diagonal_(0)
        assert torch.equal(out.edge_index, pattern.nonzero().t())
        weights = S.T @ dense(example.edge_index, example.num_nodes, weight) @ S
        torch.testing.assert_close(out.edge_attr, weights[tuple(out.edge_index)])

    check()


def test_gradients_are_those_of_gated_features():
    """X' does not change with h; its gradient is that of Sᵀ(X ⊙ h) for h, and of SᵀX for X."""
    pool = make()
    graph = nx.random_labeled_tree(30, seed=1)
    x, edges = torch.randn(30, 8, dtype=torch.float64, requires_grad=True), undirected(graph)
    out = pool(x, edges)
    S, weight = out.assignment.with_weight(None), torch.randn_like(out.x)
    given = torch.autograd.grad((out.x * weight).sum(), [x, *pool.parameters()])
    h = pool.score(x, edges)
    # The values of x that h multiplies, and those that h is made of, apart.
    gated = (S.reduce(x.detach() * h[:, None]) * weight).sum()
    plain = (S.reduce(x) * weight).sum()
    wanted = torch.autograd.grad(gated + plain, [x, *pool.parameters()])
    torch.testing.assert_close(given, wanted)
    assert torch.equal(out.x, S.reduce(x))


@pytest.mark.parametrize("n", range(1, 7))
def test_small_graphs_keep_their_components_at_every_ratio(n):
    """All graphs of up to six nodes, each number of kept nodes; and never more edges."""
    atlas = [g for g in nx.graph_atlas_g() if len(g) == n]
    for k in range(1, n + 1):
        pool = make(ratio=k, channels=2)
        out = call(
            pool,
            torch.randn(n * len(atlas), 2, dtype=torch.float64),
            undirected(nx.disjoint_union_all(atlas)),
            batch=torch.arange(len(atlas)).repeat_interleave(n),
        )
        assert out.x.size(0) == k * len(atlas)
        pooled = nx.Graph()
        pooled.add_nodes_from(range(out.x.size(0)))
        pooled.add_edges_from(out.edge_index.t().tolist())
        for g, before in enumerate(atlas):
            after = pooled.subgraph(range(k * g, k * g + k))
            parts = nx.number_connected_components
            assert parts(after) == min(parts(before), k)
            assert after.number_of_edges() <= before.number_of_edges()


def test_directed_graphs_keep_weak_and_strong_connection():
    tried = 0
    for seed, ratio in itertools.product(range(30), (0.5, 0.2)):
        graph = nx.gnp_random_graph(14, 0.15, seed=seed, directed=True)
        if not nx.is_weakly_connected(graph):
            continue
        edges = torch.tensor(list(graph.edges)).T
        out = make(ratio=ratio)(torch.randn(14, 8, dtype=torch.float64), edges)
        pooled = nx.DiGraph(out.edge_index.t().tolist())
        pooled.add_nodes_from(range(out.x.size(0)))
        assert nx.is_weakly_connected(pooled)
        if nx.is_strongly_connected(graph):
            tried += 1
            assert nx.is_strongly_connected(pooled)
    assert tried > 3


def test_lost_components_are_reported_once():
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    x, pool = torch.randn(6, 8, dtype=torch.float64), make(ratio=2)
    with pytest.warns(UserWarning, match="CellPooling leaves out"):
        out = pool(x, edges)
    assert int((out.labels() < 0).sum()) == 6 - int(out.assignment.to_dense().sum())
    assert torch.equal(out.lift()[out.labels() < 0].abs().sum(), torch.zeros((), dtype=x.dtype))
    pool(x, edges)  # no warning: pytest makes one an error
    make(ratio=4)(x, edges)


def test_equal_scores_in_16_bits_end():
    n = 400
    pool = make().bfloat16()
    path = undirected(nx.path_graph(n))
    out = pool(torch.ones(n, 8, dtype=torch.bfloat16), path)
    pooled = nx.Graph(out.edge_index.t().tolist())
    assert len(pooled) == n // 2
    assert nx.is_connected(pooled)


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_attributes_of_any_width(how):
    edges = undirected(nx.cycle_graph(6))
    attr = torch.arange(2.0 * edges.size(1), dtype=torch.float64).view(-1, 2)
    out = make(edge_reduce=how)(torch.randn(6, 8, dtype=torch.float64), edges, attr)
    labels, reduce = out.labels(), {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[how]
    for (u, v), found in zip(out.edge_index.t().tolist(), out.edge_attr, strict=True):
        own = (labels[edges[0]] == u) & (labels[edges[1]] == v)
        assert torch.equal(found, reduce(attr[own], 0))


def test_lift_gives_each_node_its_cell():
    out = make()(torch.randn(9, 8, dtype=torch.float64), undirected(nx.path_graph(9)))
    per_cell = torch.arange(out.x.size(0), dtype=torch.float64)
    torch.testing.assert_close(out.lift(per_cell), per_cell[out.labels()])


@every_score
def test_checks(score):
    def factory(channels: int, ratio: float) -> CellPooling:
        return CellPooling(channels, ratio, SCORES[score](channels))

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "CellPooling leaves out")
        check_pooling(factory)
