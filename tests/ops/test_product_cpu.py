import pytest
import torch
from graphs import Example, graphs
from hypothesis import assume, given
from hypothesis import strategies as st

from lcpool import Assignment
from lcpool.graph.checks import Checks
from lcpool.ops.connect.plain import connect_by_joins
from lcpool.ops.connect.product import connect_assignment

cpu = pytest.importorskip("lcpool.ops.connect.cpu", reason="needs numba")


def random_case(num_nodes=200, num_clusters=50, seed=0, dtype=torch.float64):
    """Edges with weights, and an S that is not local; both name some entries twice."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, num_nodes, (2, 3 * num_nodes), generator=generator)
    node = torch.randint(0, num_nodes, (2 * num_nodes,), generator=generator)
    cluster = torch.randint(0, num_clusters, node.shape, generator=generator)
    weight = torch.randn(edges.size(1), generator=generator, dtype=torch.float64).to(dtype)
    value = torch.randn(node.numel(), generator=generator, dtype=torch.float64).to(dtype)
    weight.requires_grad_()
    S = Assignment(node, num_nodes, cluster, num_clusters, value.requires_grad_())
    return edges, S, weight


def with_gradients(connect, edge_index, S, weight, self_loops):
    edges, values = connect(edge_index, S, weight, self_loops)
    # A gradient that is not the same everywhere.
    grads = torch.autograd.grad(values, (weight, S.weight), values.detach().cos())
    return edges, (values, *grads)


def by_kernel(edge_index, S, weight, self_loops):
    return connect_assignment(edge_index, S, weight, None, None, self_loops, 10**9, Checks())


def by_joins(edge_index, S, weight, self_loops):
    return connect_by_joins(edge_index, weight, S, self_loops, 10**9, Checks())


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("num_clusters", [1, 50])
def test_equals_joins(num_clusters, self_loops):
    case = random_case(num_clusters=num_clusters)
    edges, numbers = with_gradients(by_kernel, *case, self_loops)
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
    S = Assignment(node, dense.size(0), cluster, dense.size(1), value)
    edges, found = by_kernel(example.edge_index, S, weight, self_loops)
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


def test_the_same_bits_each_time(monkeypatch):
    monkeypatch.setattr(cpu, "EDGES_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    case = random_case(dtype=torch.float32)
    first, *others = (with_gradients(by_kernel, *case, True) for _ in range(5))
    for edges, numbers in others:
        assert torch.equal(edges, first[0])
        assert all(torch.equal(a, b) for a, b in zip(numbers, first[1], strict=True))


@pytest.mark.parametrize("self_loops", [True, False])
def test_threads_change_the_order_of_sums_at_the_most(self_loops, monkeypatch):
    case = random_case()
    edges, alone = with_gradients(by_kernel, *case, self_loops)
    monkeypatch.setattr(cpu, "EDGES_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    again, shared = with_gradients(by_kernel, *case, self_loops)
    assert torch.equal(again, edges)
    assert torch.equal(shared[0], alone[0])  # A row has one thread.
    for a, b in zip(shared, alone, strict=True):
        torch.testing.assert_close(a, b)
