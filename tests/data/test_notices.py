"""What is said of a dataset when it is loaded: once, and with the remedy."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.transforms import ToUndirected

from lcpool.data import DataWarning, GraphSet, builtin, load_dataset, notices
from lcpool.data.notices import count_one_way

EDGES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6)


def graph(edges: list[tuple[int, int]], **more: object) -> Data:
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return Data(x=torch.ones(5, 1), edge_index=edge_index, y=0, **more)


def warned(source: object) -> list[warnings.WarningMessage]:
    """What is said while a dataset is loaded, here in this file."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        load_dataset(source)
    assert {warning.filename for warning in said} <= {__file__}
    return said


ONE_WAY = [(0, 1), (1, 2)]
BOTH_WAYS = [(0, 1), (1, 0)]


@given(st.lists(EDGES, min_size=1, max_size=6))
def test_graphs_are_counted_whose_edges_all_lack_their_reverse(graphs: list):
    found = 0
    for edges in graphs:
        between = {(a, b) for a, b in edges if a != b}
        found += bool(between) and not any((b, a) in between for a, b in between)
    assert count_one_way(GraphSet.from_graphs([graph(edges) for edges in graphs])) == found


@pytest.mark.parametrize(
    ("edges", "count"),
    [
        (ONE_WAY, 1),
        (BOTH_WAYS, 0),
        ([(0, 1), (1, 0), (1, 2)], 0),  # in part
        ([(0, 1), (0, 1)], 1),  # twice is not both ways
        ([(1, 0)], 1),
        ([(2, 2)], 0),
        ([(2, 2), (0, 1)], 1),
        ([], 0),
    ],
)
def test_which_graphs_count(edges: list, count: int):
    assert count_one_way(GraphSet.from_graphs([graph(edges)])) == count
    beside = [graph(BOTH_WAYS), graph(edges), graph([])]
    assert count_one_way(GraphSet.from_graphs(beside)) == count


def test_a_set_without_nodes_has_nothing_to_count():
    nothing = Data(x=torch.ones(0, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
    assert count_one_way(GraphSet.from_graphs([nothing])) == 0


def test_edges_in_one_direction_are_said_with_the_remedy():
    graphs = [graph(ONE_WAY), graph(BOTH_WAYS), graph([(3, 1)])]
    with pytest.warns(DataWarning, match=r"graphs: .* 2 of 3 graphs .*ToUndirected") as said:
        load_dataset(graphs)
    assert len(said) == 1
    assert "lcpool.data.DataWarning" in str(said[0].message)
    notices.say_once.cache_clear()
    load_dataset([ToUndirected()(one) for one in graphs])  # A warning would be an error.


def test_edges_of_a_file_in_one_direction(write_tu: Callable):
    with pytest.warns(DataWarning, match=r"TOY: .* 1 of 2 graphs .*ToUndirected"):
        load_dataset(write_tu(A="1, 2\n2, 1\n4, 5\n"))


@pytest.mark.parametrize("key", ["edge_attr", "edge_weight"])
def test_attributes_of_edges_are_said_to_be_unread(key: str):
    given = [graph(BOTH_WAYS, **{key: torch.tensor([0.5, 2.0])}) for _ in range(2)]
    with pytest.warns(DataWarning, match=rf" {key} .* {key}=None"):
        load_dataset(given)
    notices.say_once.cache_clear()
    for one in given:
        one[key] = None
    load_dataset(given)
    load_dataset([graph(BOTH_WAYS, **{key: torch.empty(2, 0)})])  # nothing that could be read


def test_both_kinds_of_attributes_are_said_in_one_line():
    weights = {"edge_attr": torch.ones(2, 3), "edge_weight": torch.ones(2)}
    with pytest.warns(DataWarning, match="edge_attr and edge_weight") as said:
        load_dataset([graph(BOTH_WAYS, **weights)])
    assert len(said) == 1


@pytest.mark.parametrize("kind", ["edge_labels", "edge_attributes"])
def test_edge_labels_of_a_file_are_said_to_be_unread(write_tu: Callable, kind: str):
    folder = write_tu(**{kind: "1\n2\n" * 7})
    for _ in range(2):  # from the text, and from the cache
        assert [str(warning.message).split(":")[0] for warning in warned(folder)] == ["TOY"]
        notices.say_once.cache_clear()


def test_everything_is_said_once(write_tu: Callable):
    folder = write_tu(A="1, 2\n", edge_labels="3\n")
    assert len(warned(folder)) == 2
    assert len(warned(folder)) == 0
    graphs = [graph(ONE_WAY)]
    assert len(warned(graphs)) == 1
    assert len(warned(graphs)) == 0
    assert len(warned([*graphs, graph(BOTH_WAYS)])) == 1  # other graphs of the same name


def test_what_is_said_names_the_dataset():
    graphs = [graph(ONE_WAY)]
    for name in ("ONE", "OTHER"):
        with pytest.warns(DataWarning, match=rf"^{name}: .* 1 of 1 graphs"):
            load_dataset(graphs, name=name)


def test_graphs_in_columns_are_spoken_of_once_too():
    graphs = GraphSet.from_graphs([graph(ONE_WAY, edge_attr=torch.ones(2, 1))], "columns")
    with pytest.warns(DataWarning) as said:
        assert load_dataset(graphs) is graphs
    assert len(said) == 2
    load_dataset(graphs)  # A warning would be an error.


def test_there_is_nothing_to_say_of_the_built_in_set():
    load_dataset("builtin")
    assert count_one_way(builtin(num_graphs=20)) == 0


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_a_warning_is_silenced_by_its_class():
    load_dataset([graph(ONE_WAY, edge_weight=torch.ones(2))])
    assert issubclass(DataWarning, UserWarning)


@pytest.mark.parametrize("name", ["PROTEINS", "ENZYMES", "Mutagenicity", "DD", "NCI1", "COX2"])
def test_of_the_papers_sets_edge_labels_alone_are_spoken_of(real: Callable, name: str):
    assert [w.category for w in warned(real(name))] == [DataWarning] * (name == "Mutagenicity")


@pytest.mark.slow
def test_a_command_says_it_in_one_line(write_tu: Callable, tmp_path: Path):
    """Two graphs are too few to train on, which is said after it."""
    folder = write_tu(edge_labels="1\n2\n" * 7)
    command = [sys.executable, "-m", "lcpool", "train", str(folder), "--epochs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert sum(line.startswith("lcpool: TOY: edge") for line in done.stderr.splitlines()) == 1
