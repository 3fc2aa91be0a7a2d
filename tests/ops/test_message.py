import gc
import weakref

import pytest
import torch
from graphs import Example, dense, graphs
from hypothesis import HealthCheck, given, settings

from lcpool.graph.edges import Edges
from lcpool.ops.message import difference_sum, gcn_sum, neighbour_max, neighbour_sum

# The fixture holds for all examples alike.
each = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
pytestmark = pytest.mark.usefixtures("backend")


def literal_gcn(x, A):
    """D^(-1/2) (A + I) D^(-1/2) X with D from the columns, the diagonal of A left out."""
    A = A - A.diag().diag() + torch.eye(len(A), dtype=A.dtype)
    root = A.sum(0).rsqrt()
    return (root.unsqueeze(1) * A * root).t() @ x


def literal_differences(z, y, A):
    """Σ_k A[k, i] relu(z_i − y_k)."""
    differences = (z.unsqueeze(0) - y.unsqueeze(1)).relu()
    return torch.einsum("ki,kic->ic", A, differences)


def literal_max(x, A):
    """max_k x_k over A[k, i] ≠ 0, zeros where there is none."""
    x = torch.cat([x, torch.zeros_like(x[:1])])
    neighbours = [column.nonzero().view(-1).tolist() or [-1] for column in A.t()]
    return torch.cat([x[:0], *(x[rows].amax(0, keepdim=True) for rows in neighbours)])


FORMULAS = {
    "neighbour_sum": (neighbour_sum, lambda x, A: A.t() @ x, 1),
    "gcn_sum": (gcn_sum, literal_gcn, 1),
    "difference_sum": (difference_sum, literal_differences, 2),
    "neighbour_max": (neighbour_max, literal_max, 1),
}


@each
@given(graphs())
@pytest.mark.parametrize("name", FORMULAS)
def test_equals_the_dense_formula_with_gradients(name, example: Example):
    function, formula, count = FORMULAS[name]
    torch.manual_seed(example.seed)
    shape = (example.num_nodes, 5)
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(count)]
    A = dense(example.edge_index, example.num_nodes)
    out, expected = function(*inputs, Edges(example.edge_index, len(A))), formula(*inputs, A)
    torch.testing.assert_close(out, expected)
    grad = torch.randn(shape, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad(o, inputs, grad) for o in (out, expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_gradient_of_the_gradient(name):
    function, _, count = FORMULAS[name]
    edges = Edges(torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 0]]), 3)
    inputs = [torch.randn(3, 2, dtype=torch.float64, requires_grad=True) for _ in range(count)]
    assert torch.autograd.gradgradcheck(lambda *x: function(*x, edges), inputs)


@pytest.mark.parametrize("name", FORMULAS)
def test_what_is_known_of_edges_changes_nothing(name):
    function, _, count = FORMULAS[name]
    index = torch.tensor([[0, 1, 1, 2, 2, 3, 3], [1, 0, 2, 1, 3, 2, 3]])
    inputs = [torch.randn(4, 3, dtype=torch.float64, requires_grad=True) for _ in range(count)]
    outs = []
    for edges in (Edges(index, 4), Edges(index, 4, symmetric=True, in_order=True)):
        out = function(*inputs, edges)
        outs.append((out, *torch.autograd.grad(out.square().sum(), inputs)))
    torch.testing.assert_close(*outs)


def skip_without_bfloat16(backend):
    """The interpreter of Triton 3.7, which torch 2.13 with CUDA brings, has none."""
    if backend == "triton":
        from triton.runtime.interpreter import InterpreterBuilder

        if not hasattr(InterpreterBuilder, "get_bf16"):
            pytest.skip("the interpreter of this Triton has no bfloat16")


@pytest.mark.parametrize("name", FORMULAS)
def test_sixteen_bits_are_added_in_thirty_two(name, backend):
    """A thousand ones: bfloat16 alone would stop adding at 256."""
    if name == "neighbour_max":
        skip_without_bfloat16(backend)
    function, _, count = FORMULAS[name]
    hub = torch.tensor([[1], [0]]).repeat(1, 1000)
    x = torch.ones(2, 1, dtype=torch.bfloat16)
    inputs = (x,) if count == 1 else (x, torch.zeros_like(x))
    out = function(*inputs, Edges(hub, 2))
    assert out.dtype == torch.bfloat16
    expected = {"gcn_sum": 1 / 1001 + 1000 / 1001**0.5, "neighbour_max": 1.0}.get(name, 1000.0)
    torch.testing.assert_close(out[0].double().item(), expected, rtol=0.01, atol=0)


def test_nan_is_not_lost():
    """relu(NaN) is NaN in torch; a diverged training must show."""
    z = torch.tensor([[0.0], [torch.nan]])
    edges = Edges(torch.tensor([[0, 1], [1, 0]]), 2)
    assert difference_sum(z, z, edges).isnan().all()


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_a_maximum_that_is_no_number_shows(order):
    x = torch.tensor([[1.0, -torch.inf], [torch.nan, -torch.inf], [torch.inf, -torch.inf]])
    edges = Edges(torch.tensor([order, [0, 0, 0]]), 3)
    out = neighbour_max(x, edges)
    assert out[0, 0].isnan()
    assert out[0, 1] == -torch.inf
    assert not out[1:].any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_who_shares_a_maximum_shares_its_gradient(dtype, backend):
    """Also a maximum of 0, which is what a node without neighbours has."""
    if dtype == torch.bfloat16:
        skip_without_bfloat16(backend)
    x = torch.tensor([[0.0, 2.0], [0.0, 1.0], [-1.0, 2.0]], dtype=dtype, requires_grad=True)
    edges = Edges(torch.tensor([[0, 1, 2, 0, 2], [0, 0, 0, 1, 1]]), 3)
    out = neighbour_max(x, edges)
    assert torch.equal(out, torch.tensor([[0.0, 2.0], [0.0, 2.0], [0.0, 0.0]], dtype=dtype))
    grad = torch.tensor([[2.0, 4.0], [1.0, 6.0], [9.0, 9.0]], dtype=dtype)
    (found,) = torch.autograd.grad(out, x, grad)
    assert torch.equal(found, torch.tensor([[2.0, 5.0], [1.0, 0.0], [0.0, 5.0]], dtype=dtype))


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize(("nodes", "width"), [(0, 3), (4, 0), (4, 200)])
def test_odd_shapes(name, nodes, width):
    function, _, count = FORMULAS[name]
    x = [torch.randn(nodes, width, requires_grad=True) for _ in range(count)]
    out = function(*x, Edges(torch.empty(2, 0, dtype=torch.long), nodes))
    out.sum().backward()
    assert out.shape == x[0].grad.shape == (nodes, width)
    if name != "gcn_sum":
        assert not out.any()


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("name", FORMULAS)
def test_edges_do_not_outlive_their_use(name, symmetric):
    """Not even until the garbage collector runs: a training step would hold several at a time."""
    function, _, count = FORMULAS[name]
    edges = Edges(torch.tensor([[0, 1], [1, 0]]), 2, symmetric)
    inputs = [torch.randn(2, 3, requires_grad=True) for _ in range(count)]
    gc.disable()
    try:
        function(*inputs, edges).sum().backward()
        alive = weakref.ref(edges)
        del edges
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("backend", ["numba"], indirect=True)
@pytest.mark.parametrize("name", FORMULAS)
def test_threads_do_not_change_a_bit(name, backend, monkeypatch):
    from lcpool.ops import threads

    function, _, count = FORMULAS[name]
    generator = torch.Generator().manual_seed(0)
    edges = Edges(torch.randint(0, 50, (2, 300), generator=generator), 50)
    inputs = [torch.randn(50, 7, generator=generator, requires_grad=True) for _ in range(count)]

    def results():
        out = function(*inputs, edges)
        return out, *torch.autograd.grad(out.square().sum(), inputs)

    alone = results()
    monkeypatch.setattr(threads, "SUMS_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert all(torch.equal(a, b) for a, b in zip(results(), alone, strict=True))
