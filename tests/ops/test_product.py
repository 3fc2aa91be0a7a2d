"""S'ᵀAS' with weights and gradients, by every kernel there is."""

import importlib.util

import pytest
import torch
from assignments import Case
from torch.library import opcheck

from lcpool import ASAPooling, Assignment, assignment_connect
from lcpool.graph.checks import Checks
from lcpool.ops import kernels
from lcpool.ops.connect.plain import connect_assignment_backward, connect_by_joins
from lcpool.ops.connect.product import product


def gpu_fits(*sizes):
    from lcpool.ops.connect.gpu import fits

    return fits(*sizes)


@pytest.fixture(autouse=True)
def _narrow(monkeypatch):
    """Blocks of columns that small graphs do not fit into: Triton's interpreter is slow."""
    if importlib.util.find_spec("triton") is not None:
        monkeypatch.setattr("lcpool.ops.connect.gpu.TILE_COLUMNS", 16)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("with_graphs", [True, False])
def test_equals_the_dense_product(with_graphs, self_loops):
    case = Case()
    edges, weight = case.connect(self_loops, with_graphs=with_graphs)
    expected_edges, expected = case.product(self_loops)
    assert torch.equal(edges, expected_edges)
    torch.testing.assert_close(weight, expected)
    for ours, theirs in zip(case.gradients(weight), case.gradients(expected), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["triton"], indirect=True)
@pytest.mark.parametrize("with_graphs", [True, False])
def test_a_gpu_needs_no_joins(backend, with_graphs, monkeypatch):
    def never(*_):
        raise AssertionError("joins")

    monkeypatch.setattr("lcpool.ops.connect.plain.connect_by_joins", never)
    monkeypatch.setattr("lcpool.ops.connect.plain.connect_assignment_backward", never)
    case = Case()
    case.gradients(case.connect(with_graphs=with_graphs)[1])


@pytest.mark.usefixtures("backend")
def test_nodes_need_not_stand_by_graph():
    case = Case()
    expected_edges, expected = case.connect()
    grads = case.gradients(expected)
    order = torch.randperm(case.num_nodes, generator=case.generator)
    there = torch.empty_like(order).index_copy(0, order, torch.arange(case.num_nodes))
    case.edge_index, case.batch = there[case.edge_index], case.batch[order]
    case.S = Assignment(
        there[case.S.node_index],
        case.num_nodes,
        case.S.cluster_index,
        case.num_clusters,
        case.S.weight,
    )
    edges, weight = case.connect()
    assert torch.equal(edges, expected_edges)
    torch.testing.assert_close(weight, expected)
    for ours, theirs in zip(case.gradients(weight), grads, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("what", ["edge", "entry"])
@pytest.mark.parametrize("graph", [0, 2])
def test_what_leads_out_of_its_graph_counts_too(what, graph):
    """Also out of the one that keeps nothing."""
    case = Case()
    stray = torch.tensor([[(case.batch == graph).nonzero()[0]], [20]])
    if what == "edge":
        case.edge_index = torch.cat([case.edge_index, stray], dim=1)
        case.weight = torch.cat([case.weight.detach(), torch.ones(1).double()]).requires_grad_()
    else:
        S = case.S
        node, cluster = torch.cat([torch.stack([S.node_index, S.cluster_index]), stray], dim=1)
        value = torch.cat([S.weight.detach(), torch.ones(1).double()]).requires_grad_()
        case.S = Assignment(node, S.num_nodes, cluster, S.num_clusters, value)
    edges, weight = case.connect()
    expected_edges, expected = case.product()
    assert torch.equal(edges, expected_edges)
    torch.testing.assert_close(weight, expected)
    for ours, theirs in zip(case.gradients(weight), case.gradients(expected), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backend", ["triton"], indirect=True)
@pytest.mark.parametrize("limit", ["MAX_NUMBERS", "MAX_WORDS"])
def test_what_takes_too_much_memory_is_left_to_joins(backend, limit, monkeypatch):
    case = Case()
    expected = case.connect()
    monkeypatch.setattr(f"lcpool.ops.connect.gpu.{limit}", 100)
    found = case.connect()
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1])
    case.gradients(found[1])
    kept = product(*case.operands(), True, 10**9)[2:]
    assert not any(rows.numel() for rows in kept)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("with_graphs", [True, False])
def test_gradients_and_theirs(with_graphs):
    case = Case((4, 0, 3), (2, 0, 1))

    def weights(weight, value):
        case.weight, case.S = weight, case.S.with_weight(value)
        return case.connect(self_loops=False, with_graphs=with_graphs)[1]

    inputs = (case.weight, case.S.weight)
    assert torch.autograd.gradcheck(weights, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(weights, inputs, fast_mode=True)


@pytest.mark.usefixtures("backend")
def test_the_operators_keep_their_promises():
    """With what a kernel keeps, and without."""
    case = Case((4, 0, 3), (2, 0, 1))
    given = case.operands()
    opcheck(torch.ops.lcpool.connect_assignment.default, (*given, False, 100))
    weight, edges, *kept = (x.detach() for x in product(*given, False, 100))
    entries = (x.detach() for x in given[:5])
    backward = torch.ops.lcpool.connect_assignment_backward.default
    opcheck(backward, (weight, edges, *kept, *entries, *given[5:]))


@pytest.mark.usefixtures("backend")
def test_gradients_of_one_input_alone():
    case = Case((9, 4), (4, 2))
    for wanted, other in ((case.weight, case.S.weight), (case.S.weight, case.weight)):
        other.requires_grad_(False)
        case.connect()[1].sum().backward()
        assert wanted.grad is not None
        assert other.grad is None
        other.requires_grad_()
        wanted.grad = None


@pytest.mark.usefixtures("backend")
def test_the_same_bits_each_time():
    case, results = Case((9, 0, 6), (5, 0, 4), dtype=torch.float32), []
    for _ in range(3):
        edges, weight = case.connect()
        results.append([edges, weight, *case.gradients(weight)])
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0], strict=True))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_types(dtype):
    """Sums of 16-bit numbers are made in 32 bits; the result has the wider type of both."""
    case, exact = Case((30, 20), (8, 6), dtype=dtype), Case((30, 20), (8, 6), dtype=dtype)
    exact.S = exact.S.with_weight(exact.S.weight.detach().double())
    (_, values), (_, wide) = case.connect(), exact.connect()
    assert (values.dtype, wide.dtype) == (dtype, torch.float64)
    torch.testing.assert_close(values, wide.to(dtype), atol=0.05, rtol=0.02)
    assert [grad.dtype for grad in case.gradients(values)] == [dtype, dtype]


@pytest.mark.usefixtures("backend")
def test_ones_need_not_be_said():
    case = Case((9, 4), (4, 2))
    S, weight = case.S, case.weight
    ones, none = S.with_weight(torch.ones_like(S.weight)), S.with_weight(None)
    given = (case.edge_index, none, weight), (case.edge_index, ones, weight)
    found, expected = (assignment_connect(*arguments) for arguments in given)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert assignment_connect(case.edge_index, none)[1].dtype == torch.float32


@pytest.mark.usefixtures("backend")
def test_a_graph_with_too_many_edges_is_refused_with_the_count():
    case = Case()
    count = case.product()[0].size(1)
    with pytest.raises(ValueError, match=f"{count:,}"):
        case.connect(max_edges=9)
    assert case.connect(max_edges=count)[0].size(1) == count


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(("sizes", "kept"), [((0,), (0,)), ((3, 2), (0, 0)), ((3, 1), (2, 1))])
def test_nothing_to_connect(sizes, kept):
    """No nodes, no clusters, no edges; and no entries."""
    case = Case(sizes, kept)
    case.edge_index, case.weight = case.edge_index[:, :0], case.weight.detach()[:0].requires_grad_()
    none = torch.empty(0, dtype=torch.long)
    for S in (case.S, Assignment(none, case.num_nodes, none, case.num_clusters)):
        case.S = S.with_weight(torch.zeros(S.node_index.numel()).double().requires_grad_())
        edges, weight = case.connect()
        assert edges.shape == (2, 0)
        assert weight.shape == (0,)
        assert not any(grad.any() for grad in case.gradients(weight))


def test_clusters_without_nodes(backend):
    """Without a node, no program of a GPU would clear the first count."""
    if backend == "triton":
        assert not gpu_fits(0, 3, 3)
    none = torch.empty(0, dtype=torch.long)
    S = Assignment(none, 0, none, 3, torch.empty(0))
    edges, weight = assignment_connect(none.view(2, 0), S)
    assert edges.shape == (2, 0)
    assert weight.shape == (0,)


def test_joins_in_blocks(monkeypatch):
    case = Case()
    edges, weight = connect_by_joins(case.edge_index, case.weight, case.S, False, 10**9, Checks())
    grad = torch.arange(weight.numel(), dtype=weight.dtype).cos()
    expected = case.gradients(weight)
    for most in (3, 10**9):
        monkeypatch.setattr("lcpool.ops.connect.plain.MAX_MEETINGS", most)
        grads = connect_assignment_backward(grad, edges, case.edge_index, case.weight, case.S)
        for ours, theirs in zip(grads, expected, strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backend", ["numba", "triton"], indirect=True)
def test_a_layer_gives_the_same_by_all_kernels(backend, monkeypatch):
    torch.manual_seed(0)
    pool, x = ASAPooling(8).double(), torch.randn(30, 8, dtype=torch.float64, requires_grad=True)
    batch = torch.arange(30) // 10
    edges = torch.randint(0, 30, (2, 200))
    edges = edges[:, batch[edges[0]] == batch[edges[1]]]
    results = []
    for _ in range(2):
        out = pool(x, edges, batch=batch)
        loss = out.x.square().sum() + out.edge_attr.square().sum()
        grads = torch.autograd.grad(loss, [x, *pool.parameters()])
        results.append([*(item for item in out if item is not None), *grads])
        monkeypatch.setattr(kernels, "cpu_kernels", lambda: None)
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
