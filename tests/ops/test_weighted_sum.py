import gc
import weakref

import pytest
import torch
from graphs import Example, dense, graphs
from hypothesis import HealthCheck, given, settings

from lcpool import Assignment
from lcpool.graph.edges import Edges, Entries
from lcpool.ops.message import entry_dot, weighted_sum

# The fixture holds for all examples alike.
each = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
pytestmark = pytest.mark.usefixtures("backend")
INDEX = torch.tensor([[0, 0, 1, 2, 2, 3], [1, 1, 0, 3, 2, 2]])


def draw(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()


def literal(x, weight, index):
    """MᵀX with M dense; entries that stand twice add up."""
    return dense(index, len(x), weight).t() @ x


@each
@given(graphs())
@pytest.mark.parametrize("way", ["forth", "back"])
def test_equals_the_dense_product_with_gradients(way, example: Example):
    x, weight = draw(example.num_nodes, 5, seed=example.seed), example.weights().requires_grad_()
    index, entries = example.edge_index, Edges(example.edge_index, example.num_nodes).entries
    if way == "back":
        index, entries = index.flip(0), entries.reversed
    out, expected = weighted_sum(x, weight, entries), literal(x, weight, index)
    torch.testing.assert_close(out, expected)
    grad = draw(*out.shape, seed=1)
    ours, theirs = (torch.autograd.grad(o, [x, weight], grad) for o in (out, expected))
    torch.testing.assert_close(ours, theirs)


@each
@given(graphs())
def test_dot_products_of_the_ends_of_entries(example: Example):
    y, x = (draw(example.num_nodes, 3, seed=example.seed + i) for i in range(2))
    source, target = example.edge_index
    out = entry_dot(y, x, Edges(example.edge_index, example.num_nodes).entries)
    expected = (y[target] * x[source]).sum(-1)
    torch.testing.assert_close(out, expected)
    grad = draw(*out.shape, seed=1)
    ours, theirs = (torch.autograd.grad(o, [y, x], grad) for o in (out, expected))
    torch.testing.assert_close(ours, theirs)


def test_gradients_of_gradients():
    entries = Edges(INDEX, 4).entries
    sums, dots = (draw(4, 2), draw(6)), (draw(4, 2), draw(4, 2, seed=1))
    for call, inputs in ((weighted_sum, sums), (entry_dot, dots)):
        assert torch.autograd.gradgradcheck(
            lambda *given, call=call: call(*given, entries), inputs, fast_mode=True
        )


def test_what_is_known_of_edges_changes_nothing():
    """Weights need not be symmetric where edges are."""
    index = torch.tensor([[0, 1, 1, 2, 2, 3, 3], [1, 0, 2, 1, 3, 2, 3]])
    x, weight, outs = draw(4, 3), draw(7), []
    for edges in (Edges(index, 4), Edges(index, 4, symmetric=True, in_order=True)):
        out = weighted_sum(x, weight, edges.entries)
        outs.append((out, *torch.autograd.grad(out.square().sum(), [x, weight])))
    torch.testing.assert_close(*outs)
    torch.testing.assert_close(outs[0][0], literal(x, weight, index))


def test_entries_by_target():
    """Of a matrix that is not square."""
    S = Assignment(torch.tensor([2, 0, 2, 1, 0]), 3, torch.tensor([1, 0, 1, 1, 1]), 4)
    entries = Entries.by_target(S.entries.into, 3)
    weight, x = draw(5), draw(3, 2)
    M = torch.zeros(3, 4, dtype=torch.float64)
    M = M.index_put((entries.source, entries.target), weight, accumulate=True)
    out = weighted_sum(x, weight, entries)
    torch.testing.assert_close(out, M.t() @ x)
    back = weighted_sum(out, weight, entries.reversed)
    torch.testing.assert_close(back, M @ M.t() @ x)
    ours, theirs = (
        torch.autograd.grad(o.square().sum(), [x, weight]) for o in (back, M @ M.t() @ x)
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("node", "cluster", "name"), [(3, 0, "node"), (0, -1, "cluster")])
def test_an_assignment_of_what_is_not_there_is_refused(node, cluster, name):
    with pytest.raises(ValueError, match=f"{name}_index"):
        Assignment(torch.tensor([0, node]), 3, torch.tensor([1, cluster]), 2)


@pytest.mark.parametrize("shape", [(), (2,), (0,), (2, 3)])
def test_features_of_any_number_of_dimensions(shape):
    S = Assignment(torch.tensor([2, 0, 1]), 3, torch.tensor([1, 0, 1]), 2)
    x = draw(3, *shape)
    torch.testing.assert_close(S.reduce(x), torch.stack([x[0], x[1] + x[2]]))
    torch.testing.assert_close(S.lift(x[:2]), torch.stack([x[0], x[1], x[1]]))


def test_sixteen_bits_are_added_in_thirty_two():
    """A thousand ones: bfloat16 alone would stop adding at 256."""
    hub = Edges(torch.tensor([[1], [0]]).repeat(1, 1000), 2).entries
    ones = torch.ones(2, 1000, dtype=torch.bfloat16)
    out = weighted_sum(ones[:, :1], ones[0], hub)
    assert out.dtype == torch.bfloat16
    assert out[0].item() == 1000.0
    dots = entry_dot(ones, ones, Edges(INDEX[:, :2], 2).entries)
    assert dots.dtype == torch.bfloat16
    assert (dots == 1000).all()


@pytest.mark.filterwarnings("ignore:invalid value")  # of numpy, in Triton's interpreter
def test_what_is_no_number_shows_as_in_the_formula():
    x = torch.tensor([[torch.inf], [torch.nan], [1.0]])
    weight = torch.tensor([0.0, 1.0, 2.0, torch.inf, 0.0])
    index = torch.tensor([[0, 0, 2, 2, 1], [0, 1, 1, 2, 2]])
    out = weighted_sum(x, weight, Edges(index, 3).entries)
    torch.testing.assert_close(
        out.view(-1), torch.tensor([torch.nan, torch.inf, torch.nan]), equal_nan=True
    )


@pytest.mark.parametrize(("nodes", "width"), [(0, 3), (4, 0), (4, 3), (4, 200)])
def test_odd_shapes(nodes, width):
    for index in (INDEX[:, :0], INDEX[:, : 6 * (nodes > 0)]):
        x, weight = draw(nodes, width), draw(index.size(1))
        entries = Edges(index, nodes).entries
        out = weighted_sum(x, weight, entries)
        torch.testing.assert_close(out, literal(x, weight, index))
        torch.testing.assert_close(entry_dot(x, x, entries), (x[index[0]] * x[index[1]]).sum(-1))
        out.sum().backward()
        assert x.grad.shape == (nodes, width)
        assert weight.grad.shape == (index.size(1),)


def test_numbers_that_do_not_lie_in_one_piece():
    x, weight, entries = draw(3, 4).t(), draw(6, 2)[:, 1], Edges(INDEX, 4).entries
    torch.testing.assert_close(weighted_sum(x, weight, entries), literal(x, weight, INDEX))


def test_entries_do_not_outlive_their_use():
    """Not even until the garbage collector runs."""
    edges = Edges(INDEX, 4)
    gc.disable()
    try:
        weighted_sum(draw(4, 3), draw(6), edges.entries.reversed).sum().backward()
        alive = weakref.ref(edges)
        del edges
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("backend", ["numba"], indirect=True)
def test_threads_do_not_change_a_bit(backend, monkeypatch):
    from lcpool.ops import threads

    generator = torch.Generator().manual_seed(0)
    entries = Edges(torch.randint(0, 50, (2, 300), generator=generator), 50).entries
    x, weight = draw(50, 7, dtype=torch.float32), draw(300, dtype=torch.float32)

    def results():
        out = weighted_sum(x, weight, entries)
        return out, *torch.autograd.grad(out.square().sum(), [x, weight])

    alone = results()
    monkeypatch.setattr(threads, "SUMS_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert all(torch.equal(a, b) for a, b in zip(results(), alone, strict=True))
