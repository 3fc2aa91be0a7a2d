"""What is reported about a dataset when it is loaded: once, and with the remedy."""

import subprocess
import sys
import warnings
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.transforms import ToUndirected

from lcpool.data import DataWarning, GraphSet, builtin, checks, load_dataset
from lcpool.data.checks import EdgeCounts, oddities

EDGES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6)


def graph(edges: list[tuple[int, int]], **more: object) -> Data:
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return Data(x=torch.ones(5, 1), edge_index=edge_index, y=0, **more)


def warned(source: object) -> list[warnings.WarningMessage]:
    """The warnings while a dataset is loaded, all of which point to this file."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        load_dataset(source)
    assert {warning.filename for warning in said} <= {__file__}
    return said


ONE_WAY = [(0, 1), (1, 2)]
BOTH_WAYS = [(0, 1), (1, 0)]


@given(st.lists(EDGES, min_size=1, max_size=6))
def test_edges_are_counted_by_their_kinds(graphs: list):
    pairs = one_way = one_way_graphs = repeated = loops = 0
    for edges in graphs:
        between = {(a, b) for a, b in edges if a != b}
        alone = sum((b, a) not in between for a, b in between)
        pairs += len({frozenset(edge) for edge in between})
        one_way += alone
        one_way_graphs += alone > 0
        loops += sum(a == b for a, b in edges)
        repeated += sum(a != b for a, b in edges) - len(between)
    found = EdgeCounts.of(GraphSet.from_graphs([graph(edges) for edges in graphs]))
    assert found == (pairs, one_way, one_way_graphs, repeated, loops)


def test_a_set_without_nodes_has_nothing_to_count():
    nothing = Data(x=torch.ones(0, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
    assert EdgeCounts.of(GraphSet.from_graphs([nothing])) == (0, 0, 0, 0, 0)


def test_edges_in_one_direction_are_counted_with_the_remedy():
    # The first graph has one edge both ways as well.
    graphs = [graph([*ONE_WAY, (1, 0), (2, 4)]), graph(BOTH_WAYS), graph([(3, 1)])]
    with pytest.warns(DataWarning, match=r"graphs.*\b3\b.*\b2\b.*\b3\b.*ToUndirected") as said:
        load_dataset(graphs)
    assert len(said) == 1
    assert "lcpool.data.DataWarning" in str(said[0].message)
    checks.warn_once.cache_clear()
    load_dataset([ToUndirected()(one) for one in graphs])  # A warning would be an error.


def test_edges_of_a_file_in_one_direction(write_tu: Callable):
    with pytest.warns(DataWarning, match=r"TOY.*\b1\b.*\b1\b.*\b2\b.*ToUndirected"):
        load_dataset(write_tu(A="1, 2\n2, 1\n4, 5\n"))


def test_weights_of_edges_are_not_read():
    given = [graph(BOTH_WAYS, edge_weight=torch.tensor([0.5, 2.0])) for _ in range(2)]
    with pytest.warns(DataWarning, match=r"graphs: .*edge_weight"):
        load_dataset(given)
    checks.warn_once.cache_clear()
    for one in given:
        one.edge_weight = None
    load_dataset(given)
    load_dataset([graph(BOTH_WAYS, edge_weight=torch.empty(0))])  # nothing that could be read


def test_whether_attributes_of_edges_are_read_is_not_known_when_data_are_loaded(write_tu: Callable):
    load_dataset([graph(BOTH_WAYS, edge_attr=torch.ones(2, 3))])  # A warning would be an error.
    assert warned(write_tu(edge_labels="1\n2\n" * 7)) == []


def test_every_warning_is_given_once(write_tu: Callable):
    folder = write_tu(A="1, 2\n", edge_labels="3\n")
    assert len(warned(folder)) == 1
    assert len(warned(folder)) == 0
    graphs = [graph(ONE_WAY)]
    assert len(warned(graphs)) == 1
    assert len(warned(graphs)) == 0
    assert len(warned([*graphs, graph(BOTH_WAYS)])) == 1  # other graphs of the same name


def test_a_warning_names_the_dataset():
    graphs = [graph(ONE_WAY)]
    for name in ("ONE", "OTHER"):
        with pytest.warns(DataWarning, match=rf"^{name}\b.*\b1\b.*\b1\b"):
            load_dataset(graphs, name=name)


def test_graphs_in_columns_are_checked_once_too():
    graphs = GraphSet.from_graphs([graph(ONE_WAY, edge_attr=torch.ones(2, 1))], "columns")
    with pytest.warns(DataWarning) as said:
        assert load_dataset(graphs) is graphs
    assert len(said) == 1
    load_dataset(graphs)  # A warning would be an error.


def test_the_built_in_set_is_in_order():
    load_dataset("builtin")
    assert list(oddities(builtin(num_graphs=20))) == []


def test_what_is_odd_is_counted():
    empty = Data(x=torch.ones(0, 1), edge_index=torch.empty(2, 0, dtype=torch.long), y=1)
    edges = [(0, 1), (0, 1), (1, 0), (2, 2), (2, 2), (2, 2)]
    found = list(oddities(GraphSet.from_graphs([graph(edges), empty, empty])))
    assert [sentence.split()[0] for sentence in found] == ["2", "2", "1", "3"]
    assert "graphs" in found[0]
    assert "nodes" in found[1]


@pytest.mark.parametrize("labels", [{}, {"y": 3}])
def test_labels_that_tell_nothing_are_odd(labels: dict):
    one = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), **labels)
    (sentence,) = oddities(GraphSet.from_graphs([one, one]))
    assert "label" in sentence


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_a_warning_is_silenced_by_its_class():
    load_dataset([graph(ONE_WAY, edge_weight=torch.ones(2))])
    assert issubclass(DataWarning, UserWarning)


@pytest.mark.parametrize("name", ["PROTEINS", "ENZYMES", "Mutagenicity", "DD", "NCI1", "COX2"])
def test_the_papers_sets_load_without_a_warning(real: Callable, name: str):
    assert warned(real(name)) == []


@pytest.mark.slow
def test_a_command_warns_in_one_line(write_tu: Callable):
    """Two graphs are too few to train on, which is reported last."""
    folder = write_tu(edge_labels="1\n2\n" * 7)
    command = [sys.executable, "-m", "lcpool", "train", str(folder), "--epochs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    warning, _, refusal = done.stderr.splitlines()
    assert ("TOY" in warning, "edge" in warning, "edge" in refusal) == (True, True, False)
    assert done.returncode == 2
