from dataclasses import replace

import numpy as np
import pytest
import torch
from graph_sets import graph_lists, random_graph
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data
from torch_geometric.datasets import FakeDataset

from lcpool.data import DatasetError, DataWarning, GraphSet, builtin, checks, load_dataset
from lcpool.data.graphset import MAX_DEGREE, degree_features
from lcpool.data.targets import targets


@given(graph_lists(), st.data())
def test_a_batch_is_what_pyg_makes_of_the_same_graphs(graphs: list[Data], data: st.DataObject):
    index = data.draw(st.lists(st.integers(0, len(graphs) - 1), min_size=1, max_size=8))
    graph_set = GraphSet.from_graphs(graphs)
    batch = graph_set.batch(torch.tensor(index))
    expected = Batch.from_data_list([graphs[g] for g in index])
    assert torch.equal(batch.x, expected.x)
    assert torch.equal(batch.edge_index, expected.edge_index)
    assert torch.equal(batch.edge_attr, expected.edge_attr)
    assert torch.equal(batch.batch, expected.batch)
    assert batch.batch_size == len(index)
    assert batch.node_counts.tolist() == [graphs[g].num_nodes for g in index]
    assert [graph_set.classes[number] for number in batch.target] == expected.y.tolist()


@given(graph_lists())
def test_graphs_go_in_and_come_out_the_same(graphs: list[Data]):
    for graph, again in zip(graphs, GraphSet.from_graphs(graphs).to_graphs(), strict=True):
        assert torch.equal(graph.x, again.x)
        assert torch.equal(graph.edge_index, again.edge_index)
        assert torch.equal(graph.edge_attr, again.edge_attr)
        assert torch.equal(graph.y, again.y)


def test_a_subset_is_a_set_with_the_same_classes():
    graphs = [random_graph(g, 3 + g, 5, label=10 * g) for g in range(4)]
    part = GraphSet.from_graphs(graphs).subset(torch.tensor([3, 1]))
    assert len(part) == 2
    assert part.y.tolist() == [30, 10]
    assert part.classes == (0, 10, 20, 30)
    assert part.targets.tolist() == [3, 1]
    assert [graph.y.tolist() for graph in part.to_graphs()] == [[30], [10]]
    assert part.node_counts.tolist() == [6, 4]
    assert torch.equal(part.to_graphs()[1].edge_index, graphs[1].edge_index)
    assert torch.equal(part.batch(torch.tensor([1])).x, graphs[1].x)


def test_an_empty_batch_has_no_rows():
    batch = GraphSet.from_graphs([random_graph(0, 3, 4)]).batch(torch.tensor([], dtype=torch.int64))
    assert batch.x.shape == (0, 3)
    assert batch.edge_index.shape == (2, 0)
    assert batch.batch_size == 0


@pytest.mark.parametrize("index", [[2], [-1], [0, 5]])
def test_a_graph_that_is_not_there(index: list[int]):
    graphs = GraphSet.from_graphs([random_graph(0, 3, 4)] * 2, name="two")
    with pytest.raises(IndexError, match=r"two\b.*\b2\b"):
        graphs.batch(torch.tensor(index))


@pytest.mark.parametrize("index", [torch.tensor([True, False]), torch.zeros(1, 1).long()])
def test_an_index_of_another_kind(index: torch.Tensor):
    with pytest.raises(TypeError, match="int64"):
        GraphSet.from_graphs([random_graph(0, 3, 4)] * 2).batch(index)


def test_a_pyg_dataset_becomes_a_set():
    dataset = FakeDataset(num_graphs=5, avg_num_nodes=8, num_channels=4, num_classes=3)
    graphs = GraphSet.from_graphs(dataset, name="fake")
    assert len(graphs) == 5
    assert graphs.num_features == dataset.num_features
    assert graphs.node_counts.tolist() == [graph.num_nodes for graph in dataset]


def test_graphs_without_features_get_their_degrees():
    star = Data(edge_index=torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]]), num_nodes=5)
    assert GraphSet.from_graphs([star]).x.argmax(1).tolist() == [3, 1, 1, 1, 0]


def test_large_degrees_share_the_last_column():
    edges = torch.stack([torch.zeros(300).long(), torch.arange(1, 301)])
    x = degree_features(edges, 301)
    assert x.shape == (301, MAX_DEGREE + 1)
    assert x[0].argmax() == MAX_DEGREE


def test_graphs_without_labels_have_no_classes():
    graph = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
    graphs = GraphSet.from_graphs([graph])
    assert graphs.num_classes == 0
    assert graphs.y.tolist() == graphs.targets.tolist() == [-1]
    assert graphs.batch(torch.tensor([0, 0])).target.tolist() == [-1, -1]
    assert graphs.to_graphs()[0].y is None


def test_labels_may_be_negative_and_gapped():
    graphs = GraphSet.from_graphs([random_graph(0, 2, 1, label) for label in (7, -3, 7, 0)])
    assert graphs.classes == (-3, 0, 7)
    assert graphs.y.tolist() == [7, -3, 7, 0]
    assert graphs.targets.tolist() == [2, 0, 2, 1]
    assert graphs.batch(torch.tensor([3, 0])).target.tolist() == [1, 2]


def test_labels_may_be_words():
    rows = [Data(x=torch.ones(2, 1), edge_index=EDGE, y=label) for label in ("b", "a", "b")]
    graphs = GraphSet.from_graphs(rows)
    assert graphs.classes == ("a", "b")
    assert graphs.y.tolist() == graphs.targets.tolist() == [1, 0, 1]
    assert [graph.y for graph in graphs.to_graphs()] == ["b", "a", "b"]
    assert graphs.subset(torch.tensor([2])).classes == ("a", "b")


NAN = float("nan")


@pytest.mark.parametrize(
    ("y", "given", "task"),
    [
        ([[0, 1, 0], [1, NAN, 1]], None, "labels"),
        ([[0.0], [1.0]], "labels", "labels"),
        ([0.5, 2.0], None, "values"),
        ([1.0, 2.0], "values", "values"),
        ([[0.5, 2.0], [NAN, 1.0]], None, "values"),
        ([3, 7], None, "classes"),
        ([3.0, 7.0], None, "classes"),
    ],
)
def test_the_task_follows_from_the_targets(y: list, given, task: str):
    rows = [Data(x=torch.ones(2, 1), edge_index=EDGE, y=torch.tensor([one])) for one in y]
    graphs = GraphSet.from_graphs(rows, task=given)
    assert graphs.task == task
    width = len(y[0]) if isinstance(y[0], list) else 1
    assert graphs.num_outputs == (2 if task == "classes" else width)
    if task != "classes":
        expected = torch.tensor(y).view(2, -1)
        batch = graphs.batch(torch.tensor([1, 0, 1]))
        torch.testing.assert_close(batch.target, expected[[1, 0, 1]], equal_nan=True)
        again = GraphSet.from_graphs(graphs.to_graphs(), task=task)
        torch.testing.assert_close(again.y, graphs.y, equal_nan=True)
        assert graphs.subset(torch.tensor([1])).y.shape == (1, width)


@pytest.mark.parametrize(
    ("y", "task"), [([0, 0.5], None), ([1.0, NAN], None), ([[0, 2]], "labels"), ([0.5], "classes")]
)
def test_targets_that_do_not_fit_are_refused(y: list, task):
    rows = [Data(x=torch.ones(2, 1), edge_index=EDGE, y=one) for one in y]
    with pytest.raises(DatasetError):
        GraphSet.from_graphs(rows, task=task)


@pytest.mark.parametrize(
    "columns",
    [
        {"classes": ("a", "b"), "y": torch.tensor([0, 2])},
        {"task": "labels", "classes": (), "y": torch.tensor([[0.0], [0.5]])},
        {"task": "values", "classes": (), "y": torch.tensor([[0.0], [float("inf")]])},
        {"task": "values", "classes": (), "y": torch.tensor([0.0, 1.0])},
        {"task": "numbers"},
        {"target_names": ("one",)},
    ],
)
def test_targets_that_are_no_such_targets_make_no_batch(columns: dict):
    rows = [Data(x=torch.ones(2, 1), edge_index=EDGE, y=label) for label in (0, 1)]
    with pytest.raises(DatasetError, match=r"'(y|task|target_names)'"):
        replace(GraphSet.from_graphs(rows), **columns).batch(torch.tensor([0, 1]))


@pytest.mark.parametrize("label", [-4, 3, 8])
def test_a_label_that_is_no_class_is_named(label: int):
    graphs = GraphSet.from_graphs([random_graph(0, 2, 1, label) for label in (7, -3)], name="mine")
    other = replace(graphs, y=torch.tensor([7, label]))
    with pytest.raises(DatasetError, match=rf"mine.*\b1\b.*{label}\b.*-3, 7"):
        other.targets  # noqa: B018 - found when it is asked for


BAD_COLUMNS = {
    "edge past the end": {"edge_index": torch.tensor([[0, 1, 9], [1, 0, 2]])},
    "negative": {"edge_index": torch.tensor([[0, 1, -1], [1, 0, 2]])},
    "another graph's node": {"edge_index": torch.tensor([[0, 1, 1], [1, 0, 2]])},
    "int32": {"edge_index": torch.tensor([[0, 1, 3], [1, 0, 2]], dtype=torch.int32)},
    "one row": {"edge_index": torch.tensor([[0, 1, 3]])},
    "ptr decreases": {"node_ptr": torch.tensor([0, 5, 4])},
    "ptr too far": {"node_ptr": torch.tensor([0, 2, 10**9])},
    "ptr begins later": {"edge_ptr": torch.tensor([1, 2, 3])},
    "ptr of other length": {"edge_ptr": torch.tensor([0, 3])},
    "float ptr": {"edge_ptr": torch.tensor([0.0, 2, 3])},
    "integer features": {"x": torch.ones(4, 1, dtype=torch.int64)},
    "fewer features": {"x": torch.ones(3, 1)},
    "fewer attributes": {"edge_attr": torch.ones(2, 1)},
    "float labels": {"y": torch.tensor([0.0, 1.0])},
}


@pytest.mark.parametrize("columns", BAD_COLUMNS.values(), ids=BAD_COLUMNS)
def test_columns_that_do_not_fit_make_no_batch(columns: dict):
    one, two = (Data(x=torch.ones(2, 1), edge_index=torch.tensor(e), y=y) for e, y in PAIRS)
    graphs = GraphSet.from_graphs([one, two], "mine")
    with pytest.raises(DatasetError, match=rf"mine: '({'|'.join(columns)}|\w+_ptr)'"):
        replace(graphs, **columns).batch(torch.tensor([0, 1]))


PAIRS = [([[0, 1], [1, 0]], 0), ([[1], [0]], 1)]
EDGE = torch.tensor([[0], [1]])


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Data(x=torch.ones(3, 2), edge_index=EDGE + 2, y=0), r"\b1\b.*\[2, 3\].*\b3\b"),
        (Data(x=torch.ones(3, 2), edge_index=EDGE - 1, y=0), r"\b1\b.*\[-1, 0\]"),
        (Data(x=torch.ones(3, 2), edge_index=EDGE * 1.7, y=0), r"'edge_index'.*\b1\b"),
        (Data(x=torch.ones(3, 2), edge_index=EDGE * 1j, y=0), r"'edge_index'.*\b1\b"),
        (Data(x=torch.ones(3, 2), edge_index=EDGE > 0, y=0), r"'edge_index'.*\b1\b"),
        (Data(x=torch.ones(3, 2) * 1j, edge_index=EDGE, y=0), r"'x'.*\b1\b"),
        (Data(x=torch.ones(3, 2).numpy(), edge_index=EDGE, num_nodes=3, y=0), r"'x'.*\b1\b"),
        (Data(x=torch.ones(3, 2) / 0, edge_index=EDGE, y=0), r"'x'.*\b1\b"),
        (Data(x=torch.ones(3, 2).to_sparse(), edge_index=EDGE, y=0), r"'x'.*\b1\b.*to_dense"),
        (Data(x=torch.ones(3, 2, 1), edge_index=EDGE, y=0), r"'x'.*\b1\b.*\[3, 2, 1\]"),
        (Data(x=torch.ones(3, 2), edge_index=EDGE, y=1j), r"'y'.*\b1\b"),
        (Data(x=torch.ones(3, 2), edge_index=EDGE, y=1e300), r"'y'.*\b1\b"),
        (Data(x=torch.ones(3, 2), edge_index=EDGE, y=10**30), r"'y'.*\b1\b"),
        (Data(x=torch.ones(3, 4), edge_index=EDGE, y=0), r"'x'.*\b1\b.*\[3, 2\]"),
        (Data(edge_index=EDGE, num_nodes=3, y=0), r"\b1\b.*'x'"),
        (Data(x=torch.ones(3, 2), y=0), r"\b1\b.*'edge_index'"),
        (Data(x=torch.ones(3, 2), edge_index=EDGE), r"'y'.*\b1\b"),
        (
            Data(x=torch.ones(3, 2), edge_index=EDGE, y="ring"),
            r"'y'.*\b1\b.*'ring'",
        ),
        (Data(x=torch.ones(3, 2), edge_index=EDGE, y=0.5), r"'y'.*\b1\b"),
        (Data(x=torch.ones(3, 2), edge_index=EDGE, y=float("nan")), r"'y'.*\b1\b"),
        (Data(x=torch.ones(3, 2), edge_index=EDGE, y=torch.ones(3)), r"'y'.*\b1\b"),
    ],
)
def test_graphs_that_do_not_fit_are_named(graph: Data, message: str):
    good = Data(x=torch.ones(3, 2), edge_index=EDGE, y=0)
    with pytest.raises(DatasetError, match=message):
        GraphSet.from_graphs([good, graph], name="mine")


def test_edge_attributes_that_do_not_fit_are_left_out_with_a_warning():
    good = Data(x=torch.ones(3, 2), edge_index=EDGE, edge_attr=torch.ones(1, 2), y=0)
    for attr in (None, torch.ones(2, 2), torch.ones(1, 2) * 1j, torch.ones(1, 2) / 0):
        bad = Data(x=torch.ones(3, 2), edge_index=EDGE, edge_attr=attr, y=0)
        checks.warn_once.cache_clear()
        with pytest.warns(DataWarning, match="edge_attr"):
            assert GraphSet.from_graphs([good, bad]).edge_attr is None


def test_no_edges_may_be_of_any_type():
    alone = Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0), y=0)
    assert GraphSet.from_graphs([alone]).edge_index.dtype == torch.int64


@pytest.mark.parametrize("graphs", [[], [torch.ones(3)], ["PROTEINS"]])
def test_what_is_no_graph_is_named(graphs: list):
    with pytest.raises(DatasetError, match="Data"):
        GraphSet.from_graphs(graphs)


def test_columns_move_together():
    graphs = GraphSet.from_graphs([random_graph(0, 3, 4)])
    moved = graphs.to("meta")
    assert (
        moved.x.device.type == moved.edge_ptr.device.type == moved.edge_attr.device.type == "meta"
    )
    assert graphs.x.device.type == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_batch_on_a_gpu_is_the_same_and_does_not_synchronise():
    graphs = GraphSet.from_graphs([random_graph(g, 3 + g, 5 * g, label=g % 2) for g in range(9)])
    parts = [torch.tensor([8, 0, 3, 3]), torch.tensor([1, 8])]
    moved = graphs.to("cuda")
    moved.batch(parts[0])  # Reads the counts, once.
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = list(moved.batches(parts))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for batch, expected in zip(found, graphs.batches(parts), strict=True):
        for name in ("x", "edge_index", "edge_attr", "batch", "target", "node_counts"):
            assert torch.equal(getattr(expected, name), getattr(batch, name).cpu())


def test_categories_are_blocks_of_columns():
    one = Data(x=torch.eye(5), edge_index=torch.empty(2, 0, dtype=torch.long), y=0)
    graphs = replace(GraphSet.from_graphs([one, one]), categories=(3, 2))
    part = graphs.subset(torch.tensor([1]))
    assert part.categories == (3, 2)
    assert part.batch(torch.tensor([0])).x.split((3, 2), dim=1)[1].tolist()[3:] == [[1, 0], [0, 1]]
    for wrong in ((3, 3), (0,), (-1, 2)):
        with pytest.raises(DatasetError, match="categories"):
            replace(graphs, categories=wrong).batch(torch.tensor([0]))


def test_targets_keep_every_digit():
    assert targets("", [0.1, 1090.123456789], 2, None)["y"].tolist() == [[0.1], [1090.123456789]]
    assert targets("", [16777217.0, 16777216.0], 2, None)["classes"] == (16777216, 16777217)


@pytest.mark.parametrize("value", [1e39, [0.5, float("inf")], 1j])
def test_targets_that_no_network_can_give_are_refused(value):
    with pytest.raises(DatasetError, match="graph 1 must be"):
        targets("", [[0.5, 0.5] if isinstance(value, list) else 0.5, value], 2, None)


def test_a_set_is_indexed_as_pygs_datasets_are():
    graphs = replace(builtin(num_graphs=10), name="ten")
    assert isinstance(graphs[3], Data)
    assert torch.equal(graphs[-7].x, graphs.to_graphs()[3].x)
    assert graphs[np.int64(3)].y.tolist() == graphs[3].y.tolist()
    mask = graphs.y > 0
    wanted = {
        "slice": (slice(2, 9, 3), [2, 5, 8]), "list": ([4, 4, 0], [4, 4, 0]), "none": ([], []),
        "array": (np.array([1, -1]), [1, 9]), "tensor": (torch.tensor([7]), [7]),
        "mask": (mask, mask.nonzero().view(-1).tolist()), "masks": (mask.tolist(), [1, 3, 5, 7, 9]),
        "scikit-learn": ((np.array([2, 0]), ...), [2, 0]),
    }  # fmt: skip
    for key, numbers in wanted.values():
        part = graphs[key]
        assert (part.name, part.classes) == ("ten", graphs.classes)
        same = graphs.subset(torch.tensor(numbers, dtype=torch.long))
        assert torch.equal(part.x, same.x)
        assert torch.equal(part.edge_index, same.edge_index)
        assert torch.equal(part.y, same.y)
    assert [graph.num_nodes for graph in graphs] == graphs.node_counts.tolist()
    assert graphs.shape == (10,)
    for key in (10, [3, 10], torch.ones(9, dtype=torch.bool)):
        with pytest.raises(IndexError):
            graphs[key]


def test_what_is_known_is_as_it_was_written():
    rings = builtin(num_graphs=3).to_graphs()
    for y in (["a", "c", "b"], [7, -3, 7], [[0.5, 1], [2, 3], [4, 5]], [[0, 1], [1, 1], [0, 0]]):
        assert load_dataset(rings, y=y).known() == y
    assert load_dataset(rings, y=[None] * 3).known() == [None] * 3
    # Neither missing labels nor words are numbers.
    unlabelled = load_dataset(load_dataset(rings, y=[None] * 3), task="values")
    assert (unlabelled.task, unlabelled.classes) == ("classes", ())
    with pytest.raises(DatasetError, match="words"):
        load_dataset(load_dataset(rings, y=["a", "c", "b"]), task="values")
    named = replace(load_dataset(rings, y=[0.5, 1.5, 2.5]), target_names=("size",))
    assert load_dataset(named, task="values").target_names == ("size",)
    with pytest.raises(DatasetError, match="graph 1"):
        load_dataset(rings, y=["a", None, "b"])
