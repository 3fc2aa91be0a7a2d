"""Public constructors refuse what kernels would read memory by."""

from dataclasses import replace

import pytest
import torch

from lcpool import ASAPooling, Assignment, LCPooling, TopKPooling, assignment_connect
from lcpool.graph.checks import MAX_EMPTY_GRAPHS, Trust
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph
from lcpool.graph.sizes import Sizes
from lcpool.ops.connect import connect_clusters
from lcpool.ops.message import difference_sum, gcn_sum, neighbour_sum
from lcpool.ops.readout import graph_softmax, readout
from lcpool.ops.topk import KeepPlan, Kept, topk

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
CPU = torch.device("cpu")


def graph(batch=None, batch_size=None):
    return Graph.of(torch.randn(3, 4), PATH, batch=batch, batch_size=batch_size)


@pytest.mark.parametrize("stray", [-1, 3, 2**40, -(2**40)])
def test_edges_out_of_range(stray):
    with pytest.raises(ValueError, match="edge_index"):
        Edges(torch.tensor([[0, 1], [1, stray]]), 3)
    with pytest.raises(ValueError, match="edge_index"):
        replace(graph(), edges=Edges(torch.tensor([[stray], [0]]), 3))


@pytest.mark.parametrize("stray", [-1, -3, 3, 2**40])
def test_assignments_out_of_range(stray):
    some, odd = torch.tensor([0, 1]), torch.tensor([0, stray])
    with pytest.raises(ValueError, match="node_index"):
        Assignment(odd, 3, some, 2)
    with pytest.raises(ValueError, match="cluster_index"):
        Assignment(some, 3, odd, 2)
    with pytest.raises(ValueError, match="node_index"):
        Assignment.of_nodes(odd, 3)
    with pytest.raises(ValueError, match="perm"):
        Assignment(some, 3, some, 2).columns(odd)


@pytest.mark.parametrize("labels", [[0, -2], [5, 0], [0.0, 1.0], [[0, 1]]])
def test_labels_that_are_no_clusters(labels):
    with pytest.raises((TypeError, ValueError)):
        Assignment.of_labels(torch.tensor(labels), num_clusters=2)


@pytest.mark.parametrize("counts", [[2, -1], [[3]], [1.0, 2.0]])
def test_sizes_that_are_no_counts(counts):
    with pytest.raises(ValueError, match="counts"):
        Sizes(torch.tensor(counts), CPU)


@pytest.mark.parametrize(
    "change",
    [
        {"x": torch.randn(2, 4)},
        {"edges": Edges(PATH, 4)},
        {"sizes": Sizes(torch.tensor([2, 2]), CPU)},
        {"sizes": Sizes(torch.tensor([1, 2]), CPU)},
        {"batch": torch.zeros(2, dtype=torch.long)},
        {"batch": torch.zeros(3)},
        {"edge_attr": torch.ones(3)},
        {"batch": torch.tensor([0, 0, 1]), "sizes": None},
        {"batch": torch.tensor([0, 0, -1]), "sizes": None},
        {"batch": torch.tensor([0, 0, 10**9])},
        {"batch_size": 2},
        {"batch_size": 1.5, "sizes": None, "batch": torch.zeros(3, dtype=torch.long)},
        {"batch_size": 10**9, "sizes": None, "batch": torch.zeros(3, dtype=torch.long)},
    ],
)
def test_a_graph_of_parts_that_do_not_fit(change):
    with pytest.raises((TypeError, ValueError)):
        replace(graph(), **change)


@pytest.mark.parametrize(
    "change",
    [
        {"S": Assignment.of_labels(torch.tensor([0, 1, 2]))},
        {"S": lambda: Assignment.of_labels(torch.tensor([0, 1]))},
        {"S": Assignment.of_labels(torch.arange(9) // 2)},
        {"batch": torch.tensor([0, 10**9]), "sizes": None},
        {"batch": torch.tensor([0, -1]), "sizes": None},
        {"batch": torch.tensor([0, 1])},
        {"batch": torch.tensor([0])},
        {"sizes": Sizes(torch.tensor([2000]), CPU)},
    ],
)
@pytest.mark.parametrize("given", [graph(), replace(graph(), checks=Trust())])
def test_a_selection_that_does_not_fit_its_graph(change, given):
    class Changed(ASAPooling):
        def select(self, *args):
            return replace(super().select(*args), **change)

    with pytest.raises(ValueError, match=r"batch|sizes|clusters"):
        Changed(4)(given)


def test_a_plan_that_keeps_more_than_there_are():
    plan = KeepPlan(Sizes(torch.tensor([3]), CPU), Sizes(torch.tensor([4]), CPU))
    with pytest.raises(ValueError, match="plan"):
        topk(torch.zeros(3), graph(), plan)
    with pytest.raises(ValueError, match="rank"):
        topk(torch.zeros(2), graph(), KeepPlan.of(0.5, graph()))


@pytest.mark.parametrize("stray", [-1, 3, 2**40])
def test_kept_nodes_out_of_range(stray):
    given = graph()
    with pytest.raises(ValueError, match="perm"):
        connect_clusters(
            given.edges, Kept(torch.tensor([0, stray])), None, None, True, 99, given.checks
        )


@pytest.mark.parametrize("rows", [0, 2, 4])
def test_features_of_another_number_of_nodes(rows):
    x, given = torch.randn(rows, 4), graph()
    for call in (
        lambda: neighbour_sum(x, given.edges),
        lambda: gcn_sum(x, given.edges),
        lambda: difference_sum(x, x, given.edges),
        lambda: readout(x, given),
        lambda: graph_softmax(x[:, 0], given),
    ):
        with pytest.raises(ValueError, match=str(given.num_nodes)):
            call()


HUGE = [2**40, 10**9, MAX_EMPTY_GRAPHS + 4]


@pytest.mark.parametrize("layer", [LCPooling(4), TopKPooling(4)])
@pytest.mark.parametrize("count", HUGE)
def test_absurd_numbers_of_graphs_take_no_memory(layer, count, monkeypatch):
    """They are refused before a table with a row per graph is made."""

    def never(*args, **kwargs):
        raise AssertionError("a table was made")

    monkeypatch.setattr("lcpool.graph.sizes.row_pointers", never)
    x, first = torch.randn(3, 4), torch.zeros(3, dtype=torch.long)
    for batch, batch_size in (
        (torch.tensor([0, 1, count - 1]), None),  # sorted
        (torch.tensor([count - 1, 1, 0]), None),
        (torch.tensor([0, 1, count - 1]), count),
        (first, count),
    ):
        with pytest.raises(ValueError, match="batch"):
            layer(x, PATH, batch=batch, batch_size=batch_size)
        with pytest.raises(ValueError, match="batch"):
            Graph.of(x, PATH, None, batch, batch_size, size_follows=False)


def test_gaps_and_empty_graphs_are_fine():
    x, batch = torch.randn(3, 4), torch.tensor([0, 1000, 5000])
    out = TopKPooling(4)(x, PATH[:, :0], batch=batch)
    assert out.batch.tolist() == [0, 1000, 5000]
    assert Graph.of(x, PATH, None, batch, 10**6).batch_size == 10**6
    assert Graph.of(x[:0], PATH[:, :0], None, batch[:0], 7).host_counts().tolist() == [0] * 7


@pytest.mark.parametrize("dtype", [torch.complex64, torch.bool])
def test_weights_that_are_no_real_numbers(dtype):
    some, odd = torch.tensor([0, 1]), torch.ones(2).to(dtype)
    with pytest.raises(TypeError, match="weight"):
        Assignment(some, 3, some, 2, odd)
    with pytest.raises(TypeError, match="edge_attr"):
        assignment_connect(PATH[:, :2], Assignment(some, 3, some, 2), odd)


def test_a_label_far_beyond_the_nodes_is_refused_before_memory_is_taken():
    with pytest.raises(ValueError, match="labels"):
        Assignment.of_labels(torch.tensor([0, 10**9]))
    assert Assignment.of_labels(torch.tensor([5, 0])).num_clusters == 6
