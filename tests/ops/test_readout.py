import pytest
import torch
from graphs import Example, graphs
from hypothesis import HealthCheck, given, settings

from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph
from lcpool.graph.sizes import Sizes
from lcpool.ops.readout import graph_softmax, readout

each = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
pytestmark = pytest.mark.usefixtures("backend")


def graph_of(x, counts):
    sizes = Sizes(torch.tensor(counts), x.device)
    edges = Edges(torch.empty(2, 0, dtype=torch.long), len(x))
    return Graph(x, edges, None, sizes.batch, len(counts), sizes)


@each
@given(graphs())
def test_softmax_is_that_of_each_graph(example: Example):
    torch.manual_seed(example.seed)
    values = torch.randn(example.num_nodes, dtype=torch.float64, requires_grad=True)
    h = graph_softmax(values, graph_of(values, example.sizes))
    expected = torch.cat([part.softmax(0) for part in values.split(list(example.sizes))])
    torch.testing.assert_close(h, expected)
    grad = torch.randn_like(h)
    ours, theirs = (torch.autograd.grad(o, values, grad) for o in (h, expected))
    torch.testing.assert_close(ours, theirs)


@each
@given(graphs())
def test_readout_is_mean_and_max_of_each_graph(example: Example):
    torch.manual_seed(example.seed)
    # Few values, so that nodes share a maximum: they share its gradient, as in torch's amax.
    x = torch.randint(-1, 2, (example.num_nodes, 5)).double().requires_grad_()
    out = readout(x, graph_of(x, example.sizes))
    none = torch.zeros(5, dtype=torch.float64)
    parts = x.split(list(example.sizes))
    expected = torch.stack(
        [torch.cat([p.mean(0), p.amax(0)]) if len(p) else torch.cat([none, none]) for p in parts]
    )
    expected = expected + 0 * x.sum()  # x takes part also where all graphs are empty
    torch.testing.assert_close(out, expected)
    grad = torch.randn_like(out)
    ours, theirs = (torch.autograd.grad(o, x, grad) for o in (out, expected))
    torch.testing.assert_close(ours, theirs)


def test_readout_of_empty_graphs_is_zero():
    x = torch.tensor([[-1.0], [-3.0], [5.0]])
    out = readout(x, graph_of(x, [2, 0, 1, 0]))
    assert out.tolist() == [[-2.0, -1.0], [0.0, 0.0], [5.0, 5.0], [0.0, 0.0]]


def test_a_gradient_of_the_softmax_gradient():
    values = torch.randn(5, dtype=torch.float64, requires_grad=True)
    graph = graph_of(values, [3, 2])
    assert torch.autograd.gradgradcheck(lambda v: graph_softmax(v, graph), (values,))


def test_nan_stays_in_its_graph_and_shows():
    x = torch.tensor([[1.0], [torch.nan], [2.0], [3.0]])
    graph = graph_of(x, [2, 2])
    out = readout(x, graph)
    assert out.isnan().tolist() == [[True, True], [False, False]]
    assert graph_softmax(x.view(-1), graph).isnan().tolist() == [True, True, False, False]


def test_a_gradient_of_the_readout_gradient():
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    graph = graph_of(x, [3, 0, 2])
    assert torch.autograd.gradgradcheck(lambda v: readout(v.tanh(), graph), (x,))
