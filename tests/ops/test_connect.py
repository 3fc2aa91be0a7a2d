import tracemalloc

import pytest
import torch
from graphs import Example, dense, edges_of, graphs
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile

from lcpool import Assignment, LCPooling, assignment_connect, cluster_connect
from lcpool.graph.assignment import clusters
from lcpool.graph.checks import Checks
from lcpool.graph.edges import Edges
from lcpool.graph.sizes import Sizes
from lcpool.nn.conv import FastGCNConv
from lcpool.ops import connect
from lcpool.ops.connect import plain as joins
from lcpool.ops.topk import KeepPlan, Kept


def by_torch(example: Example, perm, self_loops=True):
    S = clusters(example.edge_index, perm, example.num_nodes)
    return joins.connect_by_joins(example.edge_index, None, S, self_loops, 10**6, Checks())[0]


def lemma_5(A, perm):
    return (A + A.T @ A + A @ A + A.T @ A @ A)[perm][:, perm]


def random_assignment(example: Example, generator_offset: int = 0) -> Assignment:
    """Positive entries on the pattern of I + A, possibly standing twice."""
    loops = torch.arange(example.num_nodes)
    node = torch.cat([example.edge_index[0], loops])
    cluster = torch.cat([example.edge_index[1], loops])
    generator = torch.Generator().manual_seed(example.seed + generator_offset)
    value = torch.rand(node.numel(), generator=generator, dtype=torch.float64) + 0.1
    return Assignment(node, example.num_nodes, cluster, example.num_nodes, value)


@pytest.mark.usefixtures("backend")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs(), st.booleans())
def test_lemma_5(example: Example, self_loops):
    perm = example.perm()
    expected = lemma_5(example.A, perm)
    if not self_loops:
        expected.fill_diagonal_(0)
    found = cluster_connect(example.edge_index, perm, example.num_nodes, self_loops)
    assert torch.equal(found, edges_of(expected))
    assert torch.equal(by_torch(example, perm, self_loops), found)


@pytest.mark.usefixtures("backend")
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs(), st.booleans())
def test_fewer_hops(example: Example, self_loops):
    A, perm = example.A, example.perm()
    for hops, reached in ((1, A), (2, A + A @ A)):
        expected = reached[perm][:, perm]
        if not self_loops:
            expected.fill_diagonal_(0)
        found = cluster_connect(example.edge_index, perm, example.num_nodes, self_loops, hops=hops)
        assert torch.equal(found, edges_of(expected))


def test_there_are_three_hops_at_most():
    for hops in (0, 4):
        with pytest.raises(ValueError, match="hops"):
            LCPooling(4, hops=hops)
    with pytest.raises(TypeError, match="hops"):
        LCPooling(4, hops="2")


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("astray", ["edges", "kept nodes"])
def test_what_does_not_stand_by_graph_counts_too(astray):
    """Edges that leave their graph, and kept nodes in another order than planned."""
    edge_index, batch = torch.tensor([[0, 1, 3, 4, 5], [1, 0, 4, 5, 3]]), torch.arange(6) // 3
    perm = torch.tensor([1, 2, 4, 3])
    if astray == "edges":
        edge_index = torch.cat([edge_index, torch.tensor([[1], [5]])], dim=1)
    else:
        perm = torch.tensor([4, 1, 3])
    counts = (Sizes(torch.tensor(c), perm.device) for c in ((3, 3), (2, 2)))
    found = connect.connect_clusters(
        Edges(edge_index, 6), Kept(perm, batch[perm]), batch, KeepPlan(*counts), True, 99, Checks()
    )
    assert torch.equal(found, edges_of(lemma_5(dense(edge_index, 6), perm)))


@given(graphs())
def test_lemma_5_is_local_assignment_selection_with_any_positive_s(example: Example):
    perm = example.perm()
    S = random_assignment(example).columns(perm)
    edges, weight = assignment_connect(example.edge_index, S)
    assert torch.equal(edges, cluster_connect(example.edge_index, perm, example.num_nodes))
    assert (weight > 0).all()


@given(graphs(undirected=True))
def test_proposition_6(example: Example):
    A, perm = example.A, example.perm()
    found = cluster_connect(example.edge_index, perm, example.num_nodes)
    assert torch.equal(found, edges_of((A + A @ A + A @ A @ A)[perm][:, perm]))


@given(graphs())
def test_lemma_8(example: Example):
    """S(:, î)ᵀ A S(:, î) = (SᵀAS)(î, î)."""
    perm, S = example.perm(), random_assignment(example)
    weight = example.weights()
    A = dense(example.edge_index, example.num_nodes, weight)
    edges, values = assignment_connect(example.edge_index, S.columns(perm), weight)
    whole = (S.to_dense().T @ A @ S.to_dense())[perm][:, perm]
    torch.testing.assert_close(dense(edges, perm.numel(), values), whole)
    assert torch.equal(edges, edges_of(dense(edges, perm.numel())))


@given(graphs())
def test_proposition_2(example: Example):
    """Connected contributors connect their clusters; S with a full diagonal preserves edges."""
    perm, S = example.perm(), random_assignment(example).columns(example.perm())
    edges, _ = assignment_connect(example.edge_index, S)
    found = set(map(tuple, edges.t().tolist()))
    rows, A = S.to_dense() != 0, example.A
    for n, m in edges_of(A).t().tolist():
        for p in rows[n].nonzero().view(-1).tolist():
            for q in rows[m].nonzero().view(-1).tolist():
                assert (p, q) in found
    for p, q in edges_of(A[perm][:, perm]).t().tolist():
        assert (p, q) in found


def test_proposition_2_needs_s_without_signs():
    """Two contributors of opposite sign cancel: the entry is there, and zero."""
    edge_index = torch.tensor([[0, 1], [2, 2]])
    S = Assignment.of_labels(torch.tensor([0, 0, 1])).with_weight(torch.tensor([1.0, -1.0, 1.0]))
    edges, weight = assignment_connect(edge_index, S)
    assert edges.tolist() == [[0], [1]]
    assert weight.tolist() == [0.0]


@given(graphs())
def test_proposition_3(example: Example):
    """With f = I, S'ᵀAS' is A(î, î)."""
    perm, weight = example.perm(), example.weights()
    S = Assignment.of_nodes(perm, example.num_nodes)
    A = dense(example.edge_index, example.num_nodes, weight)[perm][:, perm]
    edges, values = assignment_connect(example.edge_index, S, weight)
    torch.testing.assert_close(dense(edges, perm.numel(), values), A)
    kept, attr = connect.filter_edges(example.edge_index, weight, perm, example.num_nodes)
    torch.testing.assert_close(dense(kept, perm.numel(), attr), A)


@settings(max_examples=15)
@given(graphs(multi=False))
def test_gradients_reach_the_assignment_and_the_edge_weights(example: Example):
    S = random_assignment(example).columns(example.perm())
    assume(S.node_index.numel() and example.edge_index.size(1))

    def weights(value, edge_weight):
        S_ = S.with_weight(value)
        return assignment_connect(example.edge_index, S_, edge_weight)[1]

    value, edge_weight = S.weight.requires_grad_(), example.weights().requires_grad_()
    assert torch.autograd.gradcheck(weights, (value, edge_weight))
    assert torch.autograd.gradgradcheck(weights, (value, edge_weight))


@given(graphs())
def test_blocks_do_not_change_the_product(example: Example):
    perm, S = example.perm(), random_assignment(example).columns(example.perm())
    whole = assignment_connect(example.edge_index, S, example.weights())
    pattern = by_torch(example, perm)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joins, "MAX_MEETINGS", 3)
        blocks = assignment_connect(example.edge_index, S, example.weights())
        assert torch.equal(by_torch(example, perm), pattern)
    assert torch.equal(blocks[0], whole[0])
    torch.testing.assert_close(blocks[1], whole[1])


def star(leaves):
    hub = torch.zeros(leaves, dtype=torch.long)
    spokes = torch.stack([hub, torch.arange(1, leaves + 1)])
    return torch.cat([spokes, spokes.flip(0)], dim=1)


@pytest.mark.usefixtures("backend")
def test_a_graph_with_too_many_edges_is_refused_with_the_count(monkeypatch):
    monkeypatch.setattr(joins, "MAX_MEETINGS", 50)
    perm = torch.arange(21)
    with pytest.raises(ValueError, match="441"):
        cluster_connect(star(20), perm, 21, max_edges=440)
    assert cluster_connect(star(20), perm, 21, max_edges=441).size(1) == 441
    with pytest.raises(ValueError, match="420"):
        cluster_connect(star(20), perm, 21, self_loops=False, max_edges=1)


@pytest.mark.parametrize("backend", ["numba", "torch"], indirect=True)
def test_nothing_is_stored_for_a_graph_that_is_refused(backend, monkeypatch):
    """A star of 3000 leaves becomes 9 M edges, 144 MB. Refusing it takes a small part of that."""
    monkeypatch.setattr(joins, "MAX_MEETINGS", 2**16)
    tracemalloc.start()
    with (
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace,
        pytest.raises(ValueError, match="9,006,001"),
    ):
        cluster_connect(star(3000), torch.arange(3001), 3001, max_edges=9_000_000)
    by_numpy = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    events = trace.profiler.kineto_results.events()
    by_torch = max(event.nbytes() for event in events if event.name() == "[memory]")
    assert by_numpy + by_torch < 16e6


def test_edge_weights_are_checked():
    S = Assignment(torch.tensor([0, 1]), 3, torch.tensor([0, 0]), 1)
    with pytest.raises(ValueError, match="edge_attr"):
        assignment_connect(torch.tensor([[0], [1]]), S, torch.ones(2))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("num_nodes", [0, 1, 5])
def test_no_edges_and_nothing_kept(num_nodes):
    none = torch.empty(2, 0, dtype=torch.long)
    assert cluster_connect(none, torch.arange(num_nodes), num_nodes).shape == (2, 0)
    nobody = torch.empty(0, dtype=torch.long)
    assert cluster_connect(star(4), nobody, 5).shape == (2, 0)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("edges", "perm", "error", "words"),
    [
        ([[0, 3], [1, 1]], [0], ValueError, r"'edge_index'.*\[0, 3\].*\b3\b"),
        ([[0, -1], [1, 1]], [0], ValueError, r"'edge_index'.*\[-1, 1\]"),
        ([[0, 1], [1, 0]], [3], ValueError, "perm"),
        ([[0, 1], [1, 0]], [1, 1], ValueError, "perm"),
        ([[0, 1], [1, 0]], [[1]], ValueError, "perm"),
        ([[0.0, 1.0], [1.0, 0.0]], [0], TypeError, "float32"),
        ([[0, 1]], [0], ValueError, r"'edge_index'.*\[1, 2\]"),
    ],
)
def test_bad_input_is_named(edges, perm, error, words):
    with pytest.raises(error, match=words):
        cluster_connect(torch.tensor(edges), torch.tensor(perm), 3)


@pytest.mark.parametrize("num_nodes", [None, 3.0, torch.tensor(3)])
def test_a_number_of_nodes_is_an_int(num_nodes):
    with pytest.raises(TypeError, match="num_nodes"):
        cluster_connect(torch.tensor([[0], [1]]), torch.tensor([0]), num_nodes)


def test_more_than_kernels_can_number():
    """2³¹ edges that take no memory: they are counted before anything is read."""
    node = torch.zeros(1, dtype=torch.long)
    many, some = node.expand(2, 2**31), node.expand(2, 3)
    with pytest.raises(ValueError, match="edge_index"):
        cluster_connect(many, node, 5)
    with pytest.raises(ValueError, match="edge_index"):
        cluster_connect(node.int().expand(2, 2**31), node, 5)
    with pytest.raises(ValueError, match="perm"):
        cluster_connect(some, many[0], 5)
    for count in (2**31, -1):
        with pytest.raises(ValueError, match="num_nodes"):
            cluster_connect(some, node, count)
        with pytest.raises(ValueError, match="num_clusters"):
            Assignment(node, 5, node, count)
    with pytest.raises(ValueError, match="edge_index"):
        assignment_connect(many, Assignment(node, 5, node, 1))
    for layer in (LCPooling(4), FastGCNConv(4, 4)):
        with pytest.raises(ValueError, match="edge_index"):
            layer(torch.zeros(5, 4), many)


def test_indices_without_nodes():
    with pytest.raises(ValueError, match="edge_index"):
        cluster_connect(torch.tensor([[0], [0]]), torch.empty(0, dtype=torch.long), 0)


def test_int32_indices_are_fine():
    edges = cluster_connect(star(3).int(), torch.tensor([1, 2]).int(), 4)
    assert edges.tolist() == [[0, 0, 1, 1], [0, 1, 0, 1]]


@given(graphs(), st.booleans())
def test_surviving_edges_keep_their_attributes(example: Example, self_loops):
    perm, weight = example.perm(), example.weights()
    edges = cluster_connect(example.edge_index, perm, example.num_nodes, self_loops)
    attr = connect.surviving_edge_attr(
        example.edge_index, weight, perm, example.num_nodes, edges, fill=-1.0
    )
    A = dense(example.edge_index, example.num_nodes, weight)[perm][:, perm]
    expected = torch.where(A != 0, A, -1.0)[edges[0], edges[1]]
    torch.testing.assert_close(attr, expected)
    wide = connect.surviving_edge_attr(
        example.edge_index, weight.view(-1, 1).repeat(1, 2), perm, example.num_nodes, edges, -1.0
    )
    torch.testing.assert_close(wide, expected.view(-1, 1).repeat(1, 2))
