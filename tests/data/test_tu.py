import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.io import read_tu_data

from lcpool.data import DatasetError, DataWarning, checks, load_dataset
from lcpool.data.tu import read_tu

WriteTu = Callable[..., Path]


def edges_of(graphs, g: int) -> list[list[int]]:
    return graphs.to_graphs()[g].edge_index.T.tolist()


def test_a_tidy_set(write_tu: WriteTu):
    graphs = read_tu(write_tu())
    assert graphs.name == "TOY"
    assert graphs.node_counts.tolist() == [3, 4]
    assert graphs.edge_counts.tolist() == [6, 8]
    assert graphs.classes == (0, 1)
    assert graphs.y.tolist() == [0, 1]
    assert graphs.edge_attr is None
    assert edges_of(graphs, 0) == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]


def test_labels_are_one_hot_over_their_range_behind_the_attributes(write_tu: WriteTu):
    attributes = "".join(f"{i}.5, -{i}\n" for i in range(7))
    graphs = read_tu(write_tu(node_attributes=attributes))
    assert graphs.num_features == 2 + 4
    assert graphs.x.dtype == torch.float32
    assert graphs.x[5].tolist() == [5.5, -5, 0, 0, 0, 1]


def test_several_columns_of_labels(write_tu: WriteTu):
    graphs = read_tu(write_tu(node_labels="-1, 5\n0, 5\n1, 7\n" + "0, 6\n" * 4))
    assert graphs.num_features == 6
    assert graphs.x[2].tolist() == [0, 0, 1, 0, 0, 1]


def test_integers_may_be_written_with_a_point(write_tu: WriteTu):
    graphs = read_tu(write_tu(graph_labels="2.0\n1.0000e+00\n"))
    assert graphs.y.tolist() == [1, 0]


def test_neither_labels_nor_attributes_means_degrees(write_tu: WriteTu):
    graphs = read_tu(write_tu(node_labels=None))
    assert graphs.x.argmax(1).tolist() == [2, 2, 2, 2, 2, 3, 1]


def test_an_edge_on_several_lines_counts_once_and_as_first_seen(write_tu: WriteTu):
    folder = write_tu(A="1, 2\n2, 1\n1, 2\n1, 2\n", edge_labels="3\n4\n5\n3\n")
    graphs = read_tu(folder)
    assert edges_of(graphs, 0) == [[0, 1], [1, 0]]
    assert graphs.edge_attr.tolist() == [[1, 0, 0], [0, 1, 0]]


def test_self_loops_are_dropped(write_tu: WriteTu):
    graphs = read_tu(write_tu(A="1, 1\n1, 2\n7, 7\n", edge_attributes="1\n2\n3\n"))
    assert edges_of(graphs, 0) == [[0, 1]]
    assert edges_of(graphs, 1) == []
    assert graphs.edge_attr.tolist() == [[2]]


def test_graphs_without_nodes_and_without_edges(write_tu: WriteTu):
    graphs = read_tu(
        write_tu(graph_indicator="2\n2\n2\n4\n4\n4\n4\n", graph_labels="0\n1\n0\n1\n0\n", A="1,2\n")
    )
    assert graphs.node_counts.tolist() == [0, 3, 0, 4, 0]
    assert graphs.edge_counts.tolist() == [0, 1, 0, 0, 0]
    assert graphs.batch(torch.tensor([4, 1, 0])).batch.tolist() == [1, 1, 1]


def test_no_edges_at_all(write_tu: WriteTu):
    graphs = read_tu(write_tu(A="", node_labels=None))
    assert graphs.edge_index.shape == (2, 0)
    assert graphs.x.tolist() == [[1]] * 7


def test_no_nodes_at_all(write_tu: WriteTu):
    graphs = read_tu(write_tu(A="", node_labels="", graph_indicator=""))
    assert len(graphs) == 2
    assert graphs.x.size(0) == 0


def test_nodes_need_not_be_in_order_of_their_graph(write_tu: WriteTu):
    graphs = read_tu(
        write_tu(
            graph_indicator="2\n1\n2\n1\n2\n2\n2\n",
            A="1, 3\n2, 4\n7, 6\n",
            node_labels="0\n1\n2\n3\n4\n5\n6\n",
        )
    )
    assert graphs.x.argmax(1).tolist() == [1, 3, 0, 2, 4, 5, 6]
    assert edges_of(graphs, 0) == [[0, 1]]
    assert edges_of(graphs, 1) == [[0, 1], [4, 3]]


def test_blank_lines_carriage_returns_and_a_byte_order_mark(write_tu: WriteTu):
    graphs = read_tu(write_tu(graph_labels="\ufeff5\r\n\r\n3\r\n\n", A="1 ,2\r\n\r\n 2,1 \r\n"))
    assert graphs.y.tolist() == [1, 0]
    assert edges_of(graphs, 0) == [[0, 1], [1, 0]]
    graphs = read_tu(write_tu(graph_labels=" \n5\n \t\n3\n ", A="1 ,2\n  \r\n 2,1 \n "))
    assert graphs.y.tolist() == [1, 0]
    assert edges_of(graphs, 0) == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("kind", "text", "line", "problem"),
    [
        ("A", "1, 2\n2, 1\n3, ", 3, "''"),
        ("A", "1, 2\n2, 1\n3", 3, "1 .* 2"),
        ("A", "1, 2\n\n2, x\n", 3, "'x'"),
        ("A", "1, 2\n2, 1.5\n", 2, "'1.5'"),
        ("A", "1, 2\n2, 99999999999999999999\n", 2, "'9+'"),
        ("A", "1, 2\n\n2, 8\n", 3, "2, 8 .* 7 nodes"),
        ("A", "1, 2\n0, 1\n", 2, "0, 1"),
        ("A", "1, 2\n3, 4\n", 2, "3, 4"),
        ("A", "1, 2, 3\n", 1, "2 .* 3"),
        ("graph_indicator", "1\n1\n1\n2\n2\n2\n3\n", 7, "3 .* 2"),
        ("graph_indicator", "1\n1\n1\n2\n2\n2\n0\n", 7, "0"),
        ("graph_labels", "1\nactive\n", 2, "'active'"),
        ("graph_labels", "\n", 1, "empty"),
        ("graph_labels", "1\nnan\n", 2, "'nan'"),
        ("node_labels", "1\n2\n", 2, "2 .* 7 nodes"),
        ("node_labels", "1\n" * 8, 8, "8 .* 7 nodes"),
        ("node_attributes", "1,2\n" * 4 + "1,?\n", 5, r"'\?'"),
        ("node_attributes", "1\n" * 6 + "nan\n", 7, "finite"),
        ("node_attributes", "1\n" * 6 + "1e99\n", 7, "finite"),
    ],
)
def test_errors_have_file_and_line(
    write_tu: WriteTu, kind: str, text: str, line: int, problem: str
):
    with pytest.raises(DatasetError, match=rf"TOY_{kind}\.txt, line {line}: .*{problem}"):
        read_tu(write_tu(**{kind: text}))


@pytest.mark.parametrize("kind", ["edge_labels", "edge_attributes"])
@pytest.mark.parametrize("text", ["1\n" * 13, "x\n" * 14, "1e999\n" * 14], ids=ascii)
def test_unreadable_edge_labels_are_left_out_with_a_warning(
    write_tu: WriteTu, kind: str, text: str
):
    folder = write_tu(**{kind: text})
    for _ in range(2):
        checks.warn_once.cache_clear()
        with pytest.warns(DataWarning, match=rf"TOY_{kind}\.txt, line"):
            graphs = load_dataset(folder)
        assert graphs.edge_attr is None
        assert graphs.edge_index.size(1) == 14


@pytest.mark.parametrize("kind", ["A", "graph_indicator", "graph_labels"])
def test_a_missing_file_is_named(write_tu: WriteTu, kind: str):
    with pytest.raises(DatasetError, match=rf"TOY_{kind}\.txt"):
        read_tu(write_tu(**{kind: None}))


def test_attributes_of_graphs_are_values(write_tu: WriteTu):
    graphs = read_tu(write_tu(graph_labels=None, graph_attributes="0.5, 1\n0.7, nan\n"))
    assert (graphs.task, graphs.classes) == ("values", ())
    expected = torch.tensor([[0.5, 1], [0.7, float("nan")]], dtype=torch.float64)
    torch.testing.assert_close(graphs.y, expected, equal_nan=True)
    for text, line in (("1\ninf\n", 2), ("1\n1e39\n", 2), ("1\nx\n", 2), ("", 1), ("1,2\n1\n", 2)):
        with pytest.raises(DatasetError, match=rf"TOY_graph_attributes\.txt, line {line}"):
            read_tu(write_tu(graph_labels=None, graph_attributes=text))


def test_labels_that_lie_far_apart_are_numbered_by_their_values(write_tu: WriteTu):
    graphs = read_tu(write_tu(node_labels="0\n100000000\n5\n0\n0\n5\n0\n"))
    assert graphs.num_features == 3
    assert graphs.x.argmax(1).tolist() == [0, 2, 1, 0, 0, 1, 0]


@pytest.mark.parametrize(("largest", "width"), [(4095, 4096), (4096, 2)])
def test_how_far_labels_may_lie_apart(write_tu: WriteTu, largest: int, width: int):
    graphs = read_tu(write_tu(node_labels="0\n" * 6 + f"{largest}\n"))
    assert graphs.num_features == width


@pytest.mark.parametrize(
    ("labels", "limit", "problem"),
    [
        # Each of three columns would do.
        ("0,0,0\n" * 6 + "4000,4000,4000\n", 50_000, "node_labels.* 7 .* 12003 "),
        (None, 600, "graph_indicator.* 7 .* 128 "),
    ],
)
def test_features_that_would_take_too_much_memory_are_refused(
    write_tu: WriteTu, monkeypatch: pytest.MonkeyPatch, labels: str, limit: int, problem: str
):
    monkeypatch.setenv("LCPOOL_MAX_GB", str(limit / 1e9))
    with pytest.raises(DatasetError, match=rf"{problem}.*LCPOOL_MAX_GB"):
        read_tu(write_tu(node_labels=labels))


@pytest.mark.parametrize("labels", [(1, 2), (2, 1), (-1, 1), (7, 3)])
def test_classes_are_numbered_as_pyg_numbers_them(write_tu: WriteTu, labels: tuple[int, int]):
    folder = write_tu(graph_labels="".join(f"{label}\n" for label in labels))
    data, _, _ = read_tu_data(str(folder), "TOY")
    graphs = read_tu(folder)
    assert graphs.y.tolist() == graphs.targets.tolist() == data.y.tolist()
    assert graphs.classes == (0, 1)


@pytest.mark.parametrize("name", ["MUTAG", "ENZYMES", "COX2"])
def test_real_sets_are_read_as_pyg_reads_them(
    real: Callable, real_graphs: Callable, tmp_path: Path, name: str
):
    with zipfile.ZipFile(real(name)) as archive:
        archive.extractall(tmp_path)
    data, slices, _ = read_tu_data(str(tmp_path / name), name)
    graphs = real_graphs(name)
    assert torch.equal(graphs.x, data.x)
    assert torch.equal(graphs.y, data.y)
    assert torch.equal(graphs.node_ptr, slices["x"])
    assert torch.equal(graphs.edge_ptr, slices["edge_index"])
    offset = graphs.node_ptr[:-1].repeat_interleave(graphs.edge_counts)
    assert torch.equal(graphs.edge_index - offset, data.edge_index)
    if name == "MUTAG":
        assert torch.equal(graphs.edge_attr, data.edge_attr)
        assert graphs.edge_attr.shape[1] == 4


WIDTHS = {"PROTEINS": 4, "ENZYMES": 21, "Mutagenicity": 14, "DD": 89, "NCI1": 37, "COX2": 38}
CLASS_SIZES = {
    "PROTEINS": [663, 450],
    "ENZYMES": [100] * 6,
    "Mutagenicity": [2401, 1936],
    "DD": [691, 487],
    "NCI1": [2053, 2057],
    "COX2": [365, 102],
}


@pytest.mark.parametrize("name", WIDTHS)
def test_the_papers_sets_have_their_widths_and_classes(real_graphs: Callable, name: str):
    graphs = real_graphs(name)
    assert graphs.num_features == WIDTHS[name]
    assert np.bincount(graphs.y).tolist() == CLASS_SIZES[name]
