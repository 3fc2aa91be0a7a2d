"""What the base of all poolings promises: calls, outputs, assignments, constructors."""

import pytest
import torch
from graphs import Example, graphs
from hypothesis import given
from operators import ALL, DENSE, PARTITIONS, make
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, GraphConv

from lcpool import (
    Assignment,
    LCPooling,
    LocalAssignmentPooling,
    LocalClusterPooling,
    NoPooling,
    Pooled,
    Pooling,
    PoolingError,
    SAGPooling,
    TopKPooling,
)
from lcpool.graph.checks import Checks
from lcpool.graph.graph import Graph
from lcpool.pool.selection import Selection

every = pytest.mark.parametrize("name", ALL)
PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
X = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def same(one: Pooled, other: Pooled) -> bool:
    pairs = zip(one, other, strict=True)
    return all(a is b or (a is not None and torch.equal(a, b)) for a, b in pairs)


@every
def test_a_checked_graph_is_taken_in_place_of_x_or_of_the_edges(name):
    pool, graph = make(name), Graph.of(X, PATH)
    assert same(pool(graph), pool(X, PATH))
    assert same(pool(2 * X, graph), pool(2 * X, PATH))
    with pytest.raises(TypeError, match="batch"):
        pool(graph, batch=torch.zeros(4, dtype=torch.long))
    with pytest.raises(TypeError, match="'edge_index'"):
        pool(X)


@every
def test_arrays_and_dicts_are_refused_by_name(name):
    pool = make(name)
    with pytest.raises(TypeError, match=r"as_tensor\(edge_index\)"):
        pool(X, PATH.tolist())
    with pytest.raises(TypeError, match=r"as_tensor\(batch\)"):
        pool(X, PATH, batch=[0] * len(X))
    with pytest.raises(TypeError, match=r"'x' .*dict"):
        pool({"a": X}, PATH)


@every
def test_the_four_steps_are_what_a_call_takes(name):
    pool, graph = make(name), Graph.of(X, PATH)
    if name == "asap":
        graph = Graph.of(X, torch.cat([PATH, torch.arange(4).expand(2, -1)], dim=1))
    S, out = pool.select(graph), pool(X, PATH)
    assert torch.equal(pool.reduce(graph, S), out.x)
    edges, attr = pool.connect(graph, S)
    assert torch.equal(edges.index, out.edge_index)
    assert attr is out.edge_attr is None or torch.equal(attr, out.edge_attr)
    assert torch.equal(pool.lift(out.x, S.assignment), out.lift())
    assert torch.equal(S.batch, out.batch)


@every
def test_an_output_has_a_graph_and_shows_its_shapes(name):
    out = make(name)(X, PATH)
    assert out.graph.x is out.x
    assert repr(out).startswith(f"Pooled(x=[{out.x.size(0)}, 8], edge_index=[2, ")
    S = repr(make(name).select(Graph.of(X, PATH)))
    assert f"batch=[{out.x.size(0)}]" in S
    assert "tensor" not in S
    by_hand = Pooled(*out[:4])
    assert by_hand.graph.num_nodes == out.x.size(0)
    assert by_hand.batch_size == 1
    assert by_hand.perm is None


@every
def test_counts_are_known_beforehand(name):
    counts = torch.tensor([7, 0, 1, 4])
    expected = torch.full((4,), 3) if name in DENSE else torch.tensor([4, 0, 1, 2])
    found = make(name).pooled_counts(counts)
    follows = name in PARTITIONS and name != "cell"  # from the graph, not from a ratio
    assert found is None if follows else torch.equal(found, expected)


def test_a_threshold_is_known_only_after_selecting():
    assert LCPooling(8, min_score=0.2).pooled_counts(torch.tensor([7])) is None
    assert NoPooling().pooled_counts(torch.tensor([7])).tolist() == [7]


@given(graphs())
def test_assignments_are_of_one_type_and_of_the_features_type(example: Example):
    for name in ALL:
        x = example.features().float()
        batch = {"batch": example.batch, "batch_size": len(example.sizes)}
        S = make(name).float()(x, example.edge_index, **batch).assignment
        assert isinstance(S, Assignment)
        assert S.node_index.shape == S.cluster_index.shape
        assert S.weight is None or S.weight.dtype == x.dtype
        dense = S.to_dense()
        assert dense.shape == (S.num_nodes, S.num_clusters)
        y = torch.randn(S.num_clusters, 3)
        torch.testing.assert_close(S.lift(y), dense @ y, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(S.reduce(x), dense.T @ x, rtol=1e-4, atol=1e-5)


@every
def test_labels(name):
    """The pooled node with the largest share in S; a kept node's own where shares are equal."""
    out = make(name)(X, PATH)
    S, labels = out.assignment.to_dense(), out.labels()
    for node, label in enumerate(labels.tolist()):
        row = S[node]
        if not row.any():
            assert label == -1
            continue
        assert row[label] == row.max()
        best = (row == row.max()).nonzero().view(-1).tolist()
        own = [j for j in best if out.perm is not None and out.perm[j] == node]
        assert label == (own or best)[0]
    if name in ("topk", "sag"):
        kept = labels[out.perm]
        assert torch.equal(kept, torch.arange(out.perm.numel()))
        assert (labels == -1).sum() == 4 - out.perm.numel()


def test_lift_of_ones_own_is_what_an_output_does():
    class Doubling(LCPooling):
        def lift(self, x, S):
            return 2 * super().lift(x, S)

    pool = Doubling(8).double()
    out = pool(X, PATH)
    torch.testing.assert_close(out.lift(), 2 * out.assignment.lift(out.x))


def test_a_pooling_that_cannot_select_says_so():
    with pytest.raises(NotImplementedError, match=r"Pooling .*'select'"):
        Pooling()(X, PATH)

    class Wrong(Pooling):
        def select(self, graph):
            return torch.arange(4)

    with pytest.raises(PoolingError, match=r"Wrong.*'select'"):
        Wrong()(X, PATH)


def test_a_cluster_without_a_node_is_named_where_checks_are_pending(monkeypatch):
    """As on a GPU, where they are read with the next size."""

    def pend(checks, value, ok, message):
        checks._pending.append((ok, message))
        return value

    monkeypatch.setattr(Checks, "require", pend)
    S = Assignment.of_labels(torch.tensor([0, 0, 2, 2]), 3)
    with pytest.raises(ValueError, match="without gaps"):
        Selection.of(S, Graph.of(X, PATH))


# --- what PyG's own tests and examples do


@pytest.mark.parametrize("cls", [TopKPooling, SAGPooling, LCPooling])
def test_ratio_may_be_none_beside_min_score(cls):
    pool = cls(8, ratio=None, min_score=0.2).double()
    assert "min_score=0.2" in repr(pool)
    out = pool(X, PATH)
    assert (out.score > 0.2).sum() >= out.perm.numel() - 1


@pytest.mark.parametrize("cls", [TopKPooling, SAGPooling, LCPooling])
def test_attn_may_have_another_width_than_x(cls):
    """As in PyG's examples/colors_topk_pool.py: the layer has the width of what it scores."""
    attn = X[:, :3]
    pool = cls(3).double()
    out = pool(X, PATH, attn=attn)
    assert out.x.shape == (2, 8)
    alone = pool(attn, PATH)
    assert torch.equal(out.perm, alone.perm)
    torch.testing.assert_close(out.score, alone.score)
    with pytest.raises(ValueError, match=r"\b3\b"):
        pool(attn, PATH, attn=X)
    with pytest.raises(ValueError, match=r"\b3\b"):
        pool(X, PATH)


def test_parts_that_read_x_need_its_width_beside_attn():
    pool = LCPooling(8, cluster=GCNConv(8, 8)).double()
    with pytest.raises(ValueError, match=r"\b8\b"):
        pool(X[:, :3], PATH, attn=X)


@pytest.mark.slow
def test_verify_compiles_and_raises():
    class Assign(nn.Module):
        def forward(self, x, edge_index, edge_weight):
            loops = torch.arange(x.size(0)).expand(2, -1)
            node, cluster = torch.cat([edge_index + self.shift, loops], dim=1)
            return Assignment(node, x.size(0), cluster, x.size(0))

        shift = 0

    pool = LocalAssignmentPooling(Assign(), GraphConv(8, 1).double(), verify=True)
    fast = torch.compile(pool, fullgraph=True, dynamic=True, backend="aot_eager")
    path = PATH[:, :4]  # node 3 is alone
    torch.testing.assert_close(fast(X, path).x, pool(X, path).x)
    pool.assign.shift = 1
    torch._dynamo.reset()
    for call in (pool, fast):
        with pytest.raises(ValueError, match="'assign'"):
            call(X, path)
    torch._dynamo.reset()


# --- scores of one's own


def test_a_score_may_ask_for_batch_and_edge_attr():
    seen = []

    def score(x, edge_index, edge_attr, batch, batch_size):
        seen.append((edge_attr, batch, batch_size))
        return x[:, 0]

    pool = LocalAssignmentPooling(None, score)
    attr, batch = torch.rand(4), torch.tensor([0, 0, 0, 1])
    pool(X, PATH[:, :4], attr, batch)
    assert seen[0][0] is attr
    assert torch.equal(seen[0][1], batch)
    assert seen[0][2] == 2
    pool(X, PATH)
    assert seen[1][0] is None
    assert seen[1][1].tolist() == [0, 0, 0, 0]


def test_layers_of_pyg_are_called_as_its_sagpooling_calls_them():
    """GATConv would take edge_attr, but PyG's SAGPooling passes none."""
    torch.manual_seed(0)
    conv = GATConv(8, 1, edge_dim=1).double()
    out = LocalAssignmentPooling(None, conv, ratio=1.0)(X, PATH, torch.rand(6).double())
    torch.testing.assert_close(out.score, conv(X, PATH).view(-1)[out.perm])


def test_a_class_of_ones_own_asks_by_its_forward():
    class OfGraph(nn.Module):
        def forward(self, x, edge_index, batch=None):
            return x[:, 0] + batch

    out = LocalClusterPooling(OfGraph(), ratio=1.0)(
        X, PATH[:, :2], batch=torch.tensor([0, 0, 1, 1])
    )
    torch.testing.assert_close(out.score, (X[:, 0] + torch.tensor([0, 0, 1, 1]))[out.perm])
