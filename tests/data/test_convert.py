"""Graphs of networkx, PyG, OGB's package and SMILES through one function."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import coo_matrix
from torch_geometric.data import Data, HeteroData, InMemoryDataset

from lcpool.data import DatasetError, DataWarning, load, load_dataset
from lcpool.data.checks import check_columns
from lcpool.data.smiles import ATOMS, BONDS

QUIET = pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")


def molecule(**targets: object) -> nx.Graph:
    graph = nx.Graph(**targets)
    graph.add_node("a", element="C", charge=1, place=[0.5, 1.5])
    graph.add_node("b", element="O", charge=-1, place=np.array([2, 3]))
    graph.add_node("c", element="C", charge=True, place=torch.tensor([4.0, 5.0]))
    graph.add_edge("a", "b", kind="double")
    graph.add_edge("c", "b", kind="single")
    return graph


@QUIET
def test_attributes_of_networkx_graphs_are_features():
    graphs = load_dataset([molecule(y=1), molecule(y=0)])
    check_columns(graphs)
    assert graphs.edge_index.tolist()[0][:4] == [0, 1, 1, 2]
    assert graphs.edge_index.tolist()[1][:4] == [1, 0, 2, 1]
    assert graphs.categories == (2,)
    expected = [[1, 0, 1, 0.5, 1.5], [0, 1, -1, 2, 3], [1, 0, 1, 4, 5]]
    assert graphs.x.tolist() == expected * 2
    assert graphs.edge_attr.tolist()[:4] == [[1, 0], [1, 0], [0, 1], [0, 1]]
    assert graphs.y.tolist() == [1, 0]


def test_directed_multigraphs_loops_and_empty_graphs_of_networkx():
    with pytest.warns(DataWarning, match="2 edges, in 1 of 3"):
        graphs = load_dataset([
            nx.MultiDiGraph([(0, 1), (0, 1), (1, 2), (2, 2)]), nx.empty_graph(2), nx.Graph(),
        ])  # fmt: skip
    assert graphs.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graphs.node_counts.tolist() == [3, 2, 0]
    assert graphs.x.size(1) == 2  # degrees
    assert graphs.classes == ()
    assert len(load_dataset(nx.cycle_graph(3))) == 1


@pytest.mark.parametrize(
    ("y", "task", "expected"),
    [
        ([1, 0], None, "classes"),
        (["b", "a"], None, "classes"),
        (np.array([1, 0]), None, "classes"),
        (torch.tensor([0.5, 1.0]), None, "values"),
        (pd.Series([1, 0], index=[7, 8]), "values", "values"),
        (pd.DataFrame({"p": [1, 0], "q": [np.nan, 1]}), None, "labels"),
        ([[1, 2], [None, 0.5]], None, "values"),
    ],
)
def test_targets_are_passed_beside_the_graphs(y: object, task: str | None, expected: str):
    edge = torch.tensor([[0, 1], [1, 0]])
    pyg = [Data(x=torch.ones(2, 1), edge_index=edge, y=9) for _ in range(2)]
    for source in ([nx.path_graph(2), nx.path_graph(2)], pyg):
        graphs = load_dataset(source, y=y, task=task)
        assert graphs.task == expected
        assert len(graphs) == 2
        assert graphs.num_outputs == (1 if np.ndim(y) == 1 and expected != "classes" else 2)
        assert graphs.target_names == (("p", "q") if isinstance(y, pd.DataFrame) else ())
    assert pyg[0].y == 9  # The user's graphs stay as they are.


@pytest.mark.parametrize("y", [[1], [1, 2, 3], 5, "ab", [1, "a"], [None, 1], [[1], [1, 2]]])
def test_targets_that_do_not_fit(y: object):
    with pytest.raises(DatasetError, match="graphs: "):
        load_dataset([nx.path_graph(2), nx.path_graph(2)], y=y)


def changed(change: Callable[[nx.Graph], object]) -> nx.Graph:
    graph = molecule()
    change(graph)
    return graph


NASTY = {
    "missing attribute": (lambda g: g.add_node("d", element="C"), "graph 1, node d .*'charge'"),
    "missing edge attribute": (lambda g: g.add_edge("a", "c"), "graph 1, edge .*'kind'"),
    "word among numbers": (lambda g: g.nodes["b"].update(charge="-"), "node a: 'charge' is 1,"),
    "number among words": (lambda g: g.nodes["b"].update(element=6), "node b: 'element' is 6,"),
    "None": (lambda g: g.nodes["b"].update(charge=None), "node b: 'charge'"),
    "None among words": (lambda g: g.nodes["b"].update(element=None), "'element' is missing"),
    "NaN": (lambda g: g.nodes["b"].update(charge=float("nan")), "node b: 'charge'"),
    "infinite": (lambda g: g.nodes["b"].update(charge=float("inf")), "node b: 'charge'"),
    "huge": (lambda g: g.nodes["b"].update(charge=10**400), "node b: 'charge'"),
    "complex": (lambda g: g.nodes["b"].update(charge=1j), "node b: 'charge'"),
    "object": (lambda g: g.nodes["b"].update(charge=object()), "node b: 'charge'"),
    "dictionary": (lambda g: g.nodes["b"].update(charge={}), "node b: 'charge'"),
    "bytes": (lambda g: g.nodes["b"].update(charge=b"1"), "node b: 'charge'"),
    "shorter": (lambda g: g.nodes["b"].update(place=[1]), "node b: 'place'"),
    "matrix": (lambda g: g.nodes["b"].update(place=[[1, 2]]), "node b: 'place'"),
    "words in a list": (lambda g: g.nodes["b"].update(place=["1", "2"]), "node b: 'place'"),
    "ragged": (lambda g: g.nodes["b"].update(place=[1, [2]]), "node b: 'place'"),
}


@pytest.mark.parametrize("case", NASTY)
def test_untidy_graphs_of_networkx_are_named(case: str):
    change, message = NASTY[case]
    with pytest.raises(DatasetError, match=message):
        load_dataset([molecule(), changed(change)])


def test_two_kinds_of_targets_in_networkx():
    with pytest.raises(DatasetError, match="both 'y' and 'label'"):
        load_dataset([nx.Graph(y=1), nx.Graph(label=1)])


def ring(x: torch.Tensor, **others: object) -> Data:
    edges = torch.tensor([[0, 1], [1, 0]])
    return Data(x=x, edge_index=edges, y=torch.tensor([[0.5]]), **others)


def test_integers_of_pyg_graphs_are_categories():
    bonds = torch.tensor([[3], [3]])
    rows = [ring(torch.tensor([[6, 0], [8, 1]]), edge_attr=bonds) for _ in range(2)]
    with pytest.warns(DataWarning, match=r"categories.*11 one-hot|edge_attr"):
        graphs = load_dataset(rows)
    assert graphs.categories == (9, 2)
    assert graphs.x.view(-1, 11)[:, :9].argmax(1).tolist() == [6, 8] * 2
    assert graphs.edge_attr.tolist() == [[0, 0, 0, 1]] * 4


@pytest.mark.parametrize(
    "x", [[[1, 0], [0, 1]], [[-1, 5], [2, 3]], [[10_000, 5], [2, 3]], [[0.0, 5], [2, 3]]]
)
def test_what_is_one_hot_or_no_category_stays_as_it_is(x: list):
    graphs = load_dataset([ring(torch.tensor(x))])
    assert graphs.categories == ()
    assert graphs.x.tolist() == x


class OgbDataset(InMemoryDataset):
    """What lcpool reads of ogb.graphproppred.PygGraphPropPredDataset."""

    name, task_type = "ogbg-moltoy", "regression"
    parts: object = {"train": torch.tensor([2, 0]), "valid": [1], "test": np.array([3])}

    def __init__(self, graphs: list[Data]) -> None:
        super().__init__()
        self.data, self.slices = self.collate(graphs)

    def get_idx_split(self) -> object:
        return self.parts


@pytest.fixture
def ogb_dataset() -> OgbDataset:
    atoms = torch.tensor([[5, 0, 1, 5, 1, 0, 2, 0, 0]] * 2)
    rows = [ring(atoms, edge_attr=torch.tensor([[0, 0, 1]] * 2)) for _ in range(4)]
    for row in rows:
        row.y = torch.tensor([[1.0]])  # whole, but a number to predict
    return OgbDataset(rows)


@QUIET
def test_a_dataset_of_ogb_brings_its_split_and_its_task(ogb_dataset: OgbDataset):
    graphs = load_dataset(ogb_dataset)
    assert (graphs.name, graphs.task) == ("ogbg-moltoy", "values")
    assert sum(graphs.categories) == graphs.num_features == 174
    assert graphs.edge_attr.size(1) == 13
    assert [part.tolist() for part in graphs.splits[0]] == [[2, 0], [1], [3]]


@QUIET
@pytest.mark.parametrize("picked", [[0, 1, 2], [3, 2, 1, 0]])
def test_the_split_of_ogb_is_not_that_of_picked_graphs(ogb_dataset: OgbDataset, picked: list):
    assert load_dataset(ogb_dataset[picked]).splits == ()


@QUIET
@pytest.mark.parametrize(
    ("parts", "named"),
    [
        (None, "a split"),
        ({"train": [0, 1]}, "'val'"),
        ({"train": [0, 1], "valid": [2], "test": [4]}, "'test'"),
        ({"train": [0, 1], "valid": [1], "test": [3]}, "graph 1"),
        ({"train": [0.5, 1], "valid": [2], "test": [3]}, "'train'"),
    ],
)
def test_an_odd_split_of_ogb_is_refused(ogb_dataset: OgbDataset, parts: object, named: str):
    ogb_dataset.parts = parts
    with pytest.raises(DatasetError, match=f"ogbg-moltoy.*{named}"):
        load_dataset(ogb_dataset)


@QUIET
def test_rows_of_numpy_as_targets():
    graphs = [ring(torch.ones(2, 1)) for _ in range(2)]
    for graph, row in zip(graphs, [[0.5, 1], [2, np.nan]], strict=True):
        graph.y = np.array(row)
    assert load_dataset(graphs).y[0].tolist() == [0.5, 1]


def test_a_set_of_graphs_is_refused():
    with pytest.raises(DatasetError, match="list"):
        load_dataset({"CC", "CO"}, y=[0, 1])


@pytest.mark.parametrize(
    ("item", "converter"),
    [
        (coo_matrix(np.eye(2)), "from_scipy_sparse_matrix"),
        (np.eye(2), "from_numpy_array"),
        (torch.eye(2), "dense_to_sparse"),
        (HeteroData(), "to_homogeneous"),
        ({"edge_index": np.eye(2), "num_nodes": 2}, "from_dict"),
        (({"edge_index": np.eye(2)}, 1), "PygGraphPropPredDataset"),
        (type("DGLGraph", (), {"__module__": "dgl.heterograph"})(), "from_dgl"),
        (type("Mol", (), {"__module__": "rdkit.Chem.rdchem"})(), "from_rdmol"),
        (type("Graph", (), {"__module__": "igraph"})(), "to_networkx"),
        (nx.path_graph(2), "all of one kind"),
        (5, "int"),
        (None, "NoneType"),
    ],
)
def test_errors_name_the_converter(item: object, converter: str):
    with pytest.raises(DatasetError, match=converter):
        load_dataset([ring(torch.ones(2, 1)), item])
    if not isinstance(item, nx.Graph):
        with pytest.raises(DatasetError, match=converter):
            load_dataset([item])


@pytest.mark.parametrize("source", [5, None, 1.5, [], (), object(), np.eye(2), pd.DataFrame()])
def test_what_is_no_dataset(source: object):
    with pytest.raises(DatasetError):
        load_dataset(source)


@pytest.mark.parametrize("suffix", sorted(load.READ_BY))
def test_files_of_other_formats_name_their_reader(tmp_path: Path, suffix: str):
    path = tmp_path / f"graphs{suffix}"
    path.write_text("")
    with pytest.raises(
        DatasetError, match=r"read it by (networkx|pandas|torch|rdkit|numpy|pickle)"
    ):
        load_dataset(path)
    with pytest.raises(DatasetError, match="no path that exists"):
        load_dataset(f"gone{suffix}")


rdkit = pytest.mark.skipif(
    importlib.util.find_spec("rdkit") is None, reason="RDKit is not installed"
)


@rdkit
@QUIET
def test_molecules_in_smiles():
    graphs = load_dataset(["CCO", "c1ccccc1", "[Na+].[Cl-]"], y=["a", "b", "a"], name="mols")
    check_columns(graphs)
    assert graphs.name == "mols"
    assert graphs.node_counts.tolist() == [3, 6, 2]
    assert graphs.edge_counts.tolist() == [4, 12, 0]
    assert graphs.categories == ATOMS
    elements = graphs.x[:, : ATOMS[0]].argmax(1).tolist()
    assert elements == [6, 6, 8, 6, 6, 6, 6, 6, 6, 11, 17]
    assert graphs.edge_attr.size(1) == sum(BONDS)
    assert graphs.classes == ("a", "b")


@rdkit
@QUIET
def test_tables_of_molecules(tmp_path: Path):
    frame = pd.DataFrame(
        {"smiles": ["CCO", "C", "CC"], "value": [0.5, 1, None], "graph": [3, 4, 5]}
    )
    frame.to_csv(tmp_path / "graphs.csv", index=False)
    for source in (frame, {"graphs": frame}, {"graphs": tmp_path / "graphs.csv"}, tmp_path):
        graphs = load_dataset(source)
        assert graphs.task == "values"
        assert graphs.node_counts.tolist() == [3, 1, 2]


@rdkit
@pytest.mark.parametrize("text", ["PROTEINS", "C1CC", "", " ", "C(C", "\0", "C–C", "x" * 10_000])
def test_what_is_no_molecule(text: str):
    with pytest.raises(DatasetError, match=r"graphs: molecule 1: ") as caught:
        load_dataset(["CC", text])
    assert len(str(caught.value)) < 300


def test_molecules_without_rdkit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(DatasetError, match="pip install rdkit"):
        load_dataset(["CCO"])


@QUIET
@pytest.mark.parametrize(
    "others",
    [
        {"edge_attr": torch.tensor(3)},
        {"edge_attr": torch.tensor([1, 2, 3])},
        {"edge_attr": torch.ones(2, 1, 2)},
        {"edge_attr": torch.ones(2, 1).to_sparse()},
        {"edge_attr": torch.tensor([[1, 2], [3, 4]]).t()},
        {"edge_attr": "words"},
        {"edge_weight": torch.tensor(1)},
    ],
)
def test_odd_attributes_beside_categories(others: dict):
    x = torch.tensor([[5, 6], [7, 8]]).t()  # not contiguous
    graphs = load_dataset([ring(x, **others), ring(x, **others)])
    assert graphs.categories == (7, 9)


def test_a_folder_of_no_layout_names_all_of_them(tmp_path: Path):
    (tmp_path / "raw").mkdir()
    with pytest.raises(DatasetError, match=r"NAME_A.*edge\.csv\.gz.*edges\.csv"):
        load_dataset(tmp_path / "raw")


@pytest.mark.parametrize("y", [{0: 1, 1: 0}, {0, 1}, np.zeros((2, 2, 2))], ids=type)
def test_targets_of_which_the_graphs_are_not_clear_are_refused(y: object):
    with pytest.raises(DatasetError, match="'y'"):
        load_dataset([nx.path_graph(2), nx.path_graph(3)], y=y)


@pytest.mark.parametrize(
    ("given", "number"),
    [(["C", None], 1), ([nx.path_graph(2), "C"], 1), ([None, "C"], 0), (["C", "O", 3.0], 2)],
)
def test_the_item_of_another_kind_is_named(given: list, number: int):
    with pytest.raises(DatasetError, match=f"number {number} is"):
        load_dataset(given)


def test_no_graphs_are_refused():
    with pytest.raises(DatasetError, match="no graphs"):
        load_dataset([])


def test_a_table_alone_is_refused_with_what_to_pass(tmp_path: Path):
    (tmp_path / "edges.csv").write_text("graph,u,v\n")
    with pytest.raises(DatasetError, match="pass its folder"):
        load_dataset(tmp_path / "edges.csv")
