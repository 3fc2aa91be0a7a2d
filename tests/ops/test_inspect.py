import pytest
import torch
from graphs import Example, dense, graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcpool.graph.edges import Neighbours
from lcpool.graph.graph import Graph
from lcpool.ops.kernels import kernels

each = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
pytestmark = pytest.mark.usefixtures("backend")


def in_order(edge_index: torch.Tensor, num_nodes: int) -> torch.Tensor:
    """Sorted by source, then target, each edge once."""
    keys = torch.unique(edge_index[0] * num_nodes + edge_index[1])
    return torch.stack([keys // max(num_nodes, 1), keys % max(num_nodes, 1)])


@each
@given(example=graphs(), tidy=st.booleans(), both=st.booleans())
def test_says_only_what_is_true(example: Example, tidy, both, backend):
    edges, n = example.edge_index, example.num_nodes
    edges = torch.cat([edges, edges.flip(0)], dim=1) if both else edges
    edges = in_order(edges, n) if tidy else edges
    found = kernels(edges).inspect(edges, n, None)
    A = dense(edges, n)
    assert found.in_range
    assert found.by_graph
    keys = edges[0] * n + edges[1]
    assert not found.in_order or bool((keys.diff() >= 0).all())
    assert not found.symmetric or torch.equal(A, A.t())
    if tidy and backend != "torch":  # Then all of it is seen.
        assert found.in_order
        assert found.symmetric == torch.equal(A, A.t())
        torch.testing.assert_close(found.ptr, torch.searchsorted(edges[0], torch.arange(n + 1)))


@pytest.mark.parametrize("stray", [-1, 4])
@pytest.mark.parametrize("end", [0, 1])
def test_indices_out_of_range(stray, end):
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    edges[end, 2] = stray
    assert not kernels(edges).inspect(edges, 4, None).in_range


@pytest.mark.parametrize("batch", [[0, 0, 2, 2], [2, 0, 0, 2], [1, 1, 1, 1]])
def test_whether_nodes_stand_by_graph(batch):
    batch, edges = torch.tensor(batch), torch.tensor([[0, 1], [1, 0]])
    found = kernels(edges).inspect(edges, 4, batch)
    assert found.by_graph == bool((batch.diff() >= 0).all())
    assert (found.first, found.last) == (int(batch[0]), int(batch[-1]))


def test_views_are_read_as_they_are():
    """Every other edge of a wider tensor, and a batch with a stride."""
    edges = torch.tensor([[0, 9, 1, 9, 1, 9, 2], [1, 9, 0, 9, 2, 9, 1]])[:, ::2]
    batch = torch.tensor([0, 9, 0, -9, 1])[::2]
    found = kernels(edges).inspect(edges, 3, batch)
    assert (found.in_range, found.by_graph, found.first, found.last) == (True, True, 0, 1)


@each
@given(graphs())
def test_rows_keep_their_order(example: Example):
    source, target = example.edge_index
    rows = Neighbours.of(target, source, example.num_nodes)
    for i in range(example.num_nodes):
        row = rows.node[rows.ptr[i] : rows.ptr[i + 1]]
        assert torch.equal(row, source[target == i])


def test_edges_that_stand_in_pairs():
    """A transposed list of pairs is not contiguous."""
    pairs = torch.tensor([[0, 1], [1, 0], [1, 2], [2, 1]])
    for index in (pairs.t(), pairs.t().contiguous()):
        edges = Graph.of(torch.randn(3, 2), index).edges
        assert edges.out.node.is_contiguous()
        assert edges.into.node.is_contiguous()
        assert edges.out.node.tolist() == [1, 0, 2, 1]


def test_what_is_known_of_a_tidy_graph():
    path = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    graph = Graph.of(torch.randn(5, 2), path, batch=torch.tensor([0, 0, 0, 2, 2]))
    assert graph.batch_size == 3
    assert graph.sizes is not None
    assert graph.sizes.counts.tolist() == [3, 0, 2]
    assert graph.edges.out.node.tolist() == path[1].tolist()
    assert Graph.of(torch.randn(2, 2), path[:, :2], batch=torch.tensor([1, 0])).sizes is None
