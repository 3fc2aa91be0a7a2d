import pytest
import torch
from graphs import Example, graphs
from hypothesis import assume, given
from hypothesis import strategies as st

from lcpool import Assignment, assignment_connect
from lcpool.ops.checks import Checks
from lcpool.ops.connect import connect_by_joins

cpu = pytest.importorskip("lcpool.ops.cpu.connect")
product = pytest.importorskip("lcpool.ops.cpu.product")


def random_case(num_nodes=200, num_clusters=50, seed=0, dtype=torch.float64):
    """Edges with weights, and an S that is not local; both name some entries twice."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, num_nodes, (2, 3 * num_nodes), generator=generator)
    node = torch.randint(0, num_nodes, (2 * num_nodes,), generator=generator)
    cluster = torch.randint(0, num_clusters, node.shape, generator=generator)
    weight = torch.randn(edges.size(1), generator=generator, dtype=torch.float64).to(dtype)
    value = torch.randn(node.numel(), generator=generator, dtype=torch.float64).to(dtype)
    weight.requires_grad_()
    S = Assignment(node, cluster, value.requires_grad_(), num_nodes, num_clusters)
    return edges, S, weight


def with_gradients(connect, edge_index, S, weight, self_loops):
    edges, values = connect(edge_index, weight, S, self_loops, 10**9)
    # A gradient that is not the same everywhere.
    grads = torch.autograd.grad(values, (weight, S.value), values.detach().cos())
    return edges, (values, *grads)


def by_joins(*args):
    return connect_by_joins(*args, Checks())


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("num_clusters", [1, 50])
def test_equals_joins(num_clusters, self_loops):
    case = random_case(num_clusters=num_clusters)
    edges, numbers = with_gradients(product.connect_assignment, *case, self_loops)
    expected_edges, expected = with_gradients(by_joins, *case, self_loops)
    assert torch.equal(edges, expected_edges)
    for ours, theirs in zip(numbers, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@given(graphs(), st.booleans())
def test_equals_the_dense_product(example: Example, self_loops):
    """Values and gradients, on multigraphs and where nothing is kept."""
    perm, A = example.perm(), example.A.requires_grad_()
    assume(example.num_nodes)
    dense = torch.rand(example.num_nodes, perm.numel(), dtype=torch.float64).round(decimals=1)
    node, cluster = dense.nonzero().t().contiguous()
    value = dense[node, cluster].requires_grad_()
    weight = torch.ones(example.edge_index.size(1), dtype=torch.float64, requires_grad=True)
    S = Assignment(node, cluster, value, *dense.shape)
    edges, found = product.connect_assignment(example.edge_index, weight, S, self_loops, 10**9)
    whole = S.to_dense().T @ A @ S.to_dense()
    expected = whole[edges[0], edges[1]]
    torch.testing.assert_close(found, expected)
    left = whole.detach().clone()
    left[edges[0], edges[1]] = 0
    assert not (left if self_loops else left.fill_diagonal_(0)).any()
    grad = torch.rand_like(found)
    ours = torch.autograd.grad(found, (weight, value), grad)
    theirs = torch.autograd.grad(expected, (A, value), grad)
    torch.testing.assert_close(ours[0], theirs[0][example.edge_index[0], example.edge_index[1]])
    torch.testing.assert_close(ours[1], theirs[1])


def test_gradients_of_one_input_alone():
    edges, S, weight = random_case()
    for wanted, other in ((weight, S.value), (S.value, weight)):
        other.requires_grad_(False)
        assignment_connect(edges, S, weight)[1].sum().backward()
        assert wanted.grad is not None
        assert other.grad is None
        other.requires_grad_()
        wanted.grad = None


def test_the_same_bits_each_time(monkeypatch):
    monkeypatch.setattr(cpu, "EDGES_PER_THREAD", 1)
    monkeypatch.setattr(product, "EDGES_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    case = random_case(dtype=torch.float32)
    first, *others = (with_gradients(product.connect_assignment, *case, True) for _ in range(5))
    for edges, numbers in others:
        assert torch.equal(edges, first[0])
        assert all(torch.equal(a, b) for a, b in zip(numbers, first[1], strict=True))


@pytest.mark.parametrize("self_loops", [True, False])
def test_threads_change_the_order_of_sums_at_the_most(self_loops, monkeypatch):
    case = random_case()
    edges, alone = with_gradients(product.connect_assignment, *case, self_loops)
    monkeypatch.setattr(cpu, "EDGES_PER_THREAD", 1)
    monkeypatch.setattr(product, "EDGES_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    again, shared = with_gradients(product.connect_assignment, *case, self_loops)
    assert torch.equal(again, edges)
    assert torch.equal(shared[0], alone[0])  # A row has one thread.
    for a, b in zip(shared, alone, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_types(dtype):
    """Sums of 16-bit numbers are made in 32 bits; the result has the wider type of both."""
    edge_index, S, weight = random_case(dtype=dtype)
    _, values = assignment_connect(edge_index, S, weight)
    double = Assignment(S.node, S.cluster, S.value.double(), S.num_nodes, S.num_clusters)
    _, exact = assignment_connect(edge_index, double, weight)
    assert (values.dtype, exact.dtype) == (dtype, torch.float64)
    torch.testing.assert_close(values, exact.to(dtype), atol=0.05, rtol=0.02)


def test_ones_need_not_be_said():
    edge_index, S, weight = random_case()
    ones = Assignment(S.node, S.cluster, torch.ones_like(S.value), S.num_nodes, S.num_clusters)
    none = Assignment(S.node, S.cluster, None, S.num_nodes, S.num_clusters)
    found, expected = (assignment_connect(edge_index, of, weight) for of in (none, ones))
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])
