from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader

from lcpool.data import DatasetError, GraphSet, load, load_dataset
from lcpool.data.load import find_dataset


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, folder: Path) -> Path:
        raise AssertionError(f"download of {name}")

    monkeypatch.setattr(load, "download", refuse)


def test_root_comes_before_the_environment_and_that_before_the_cache(
    zip_tu: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    places = [tmp_path / "root", tmp_path / "env", tmp_path / "cache" / "tu"]
    for place in places:
        zip_tu(folder=place)
    monkeypatch.setenv("LCPOOL_DATA", str(places[1]))
    for place in places:
        assert find_dataset("TOY", places[0]) == place / "TOY.zip"
        (place / "TOY.zip").unlink()
    assert find_dataset("TOY", places[0]) is None


def test_a_name_may_stand_for_a_folder(write_tu: Callable, tmp_path: Path):
    write_tu(folder=tmp_path / "root" / "TOY")
    assert len(load_dataset("TOY", root=tmp_path / "root")) == 2


def test_the_case_of_a_name_does_not_matter(
    zip_tu: Callable, write_tu: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root = tmp_path / "root"
    zip_tu("PROTEINS", folder=root)
    zip_tu("mine", folder=root)
    write_tu("Other_Set", folder=root / "Other_Set")
    assert load_dataset("proteins", root=root).name == "PROTEINS"
    assert load_dataset("MINE", root=root).name == "mine"
    assert load_dataset("other_set", root=root).name == "Other_Set"
    assert load_dataset("BuiltIn").name == "builtin"
    monkeypatch.setattr(load, "download", lambda name, _: zip_tu(name))
    assert load_dataset("mutagenicity").name == "Mutagenicity"
    assert load_dataset("other").name == "other"


def test_a_known_name_is_suggested_for_one_that_is_not(monkeypatch: pytest.MonkeyPatch):
    def fail(name: str, _: object) -> None:
        raise DatasetError(f"{name} 404")

    monkeypatch.setattr(load, "download", fail)
    for name, message in (
        ("protiens", "protiens 404.*PROTEINS"),
        ("PROTEINS", "PROTEINS 404$"),
        ("enzymes", "ENZYMES 404$"),
        ("SOMETHING", "SOMETHING 404$"),
    ):
        with pytest.raises(DatasetError, match=message):
            load_dataset(name)


def test_what_is_called_exactly_so_comes_first(
    write_tu: Callable, zip_tu: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    zip_tu("PROTEINS", folder=tmp_path / "root")
    write_tu("proteins")
    monkeypatch.chdir(tmp_path)
    assert load_dataset("proteins", root=tmp_path / "root").name == "proteins"


def test_a_path_object_is_no_name(
    write_tu: Callable, zip_tu: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    zip_tu(folder=tmp_path / "root")
    write_tu(graph_labels="1\n0\n")
    monkeypatch.chdir(tmp_path)
    assert load_dataset("TOY", root="root").y.tolist() == [0, 1]
    assert load_dataset(Path("TOY"), root="root").y.tolist() == [1, 0]


def test_paths_as_strings_and_as_paths(
    zip_tu: Callable, write_tu: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    for path in (zip_tu(), write_tu()):
        assert len(load_dataset(path)) == len(load_dataset(str(path))) == 2
    monkeypatch.chdir(tmp_path)
    for path in ("TOY.zip", "./TOY", "TOY"):
        assert len(load_dataset(path)) == 2


@pytest.mark.parametrize("name", ["no/such/folder", "gone.zip", "..", "a name?", ""])
def test_what_is_neither_a_name_nor_a_path(name: str):
    with pytest.raises(DatasetError):
        load_dataset(name)


def test_graphs_of_ones_own():
    graph = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), y=1)
    graphs = load_dataset([graph, graph])
    assert len(graphs) == 2
    assert load_dataset(graphs) is graphs
    assert len(load_dataset(FakeDataset(num_graphs=3))) == 3


def test_a_dataset_may_be_called_something_else(write_tu: Callable):
    graph = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]), y=1)
    for source in (write_tu(), "builtin", [graph], GraphSet.from_graphs([graph], "one")):
        assert load_dataset(source, name="MINE").name == "MINE"


def test_a_batch_is_taken_apart():
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [
        Data(x=torch.ones(n, 1), edge_index=edges, y=n % 2, name=f"graph {n}") for n in (2, 3, 4)
    ]
    for batched in (Batch.from_data_list(graphs), DataLoader(graphs, batch_size=2)):
        found = load_dataset(batched)
        assert found.name == "graphs"
        assert found.node_counts.tolist() == [2, 3, 4]
        assert found.edge_index.tolist() == [[0, 1, 2, 3, 5, 6], [1, 0, 3, 2, 6, 5]]
        assert found.y.tolist() == [0, 1, 0]


def test_the_built_in_set_needs_no_file():
    assert len(load_dataset("builtin")) > 100


def test_no_name_is_no_dataset(write_tu: Callable, tmp_path: Path):
    """And not the folder of all datasets."""
    write_tu()
    assert find_dataset("", tmp_path) is None


def test_labels_of_a_tu_dataset_are_not_taken_for_numbers(write_tu: Callable):
    """Its reader numbers them from 0, whatever they are in the file."""
    with pytest.raises(DatasetError, match="graph_attributes"):
        load_dataset(write_tu(graph_labels="10\n20\n"), task="values")


def test_words_and_missing_targets_are_no_numbers():
    words = GraphSet.from_graphs([Data(edge_index=torch.empty(2, 0), num_nodes=1, y="a")] * 2)
    with pytest.raises(DatasetError, match="words"):
        load_dataset(words, task="values")
    assert load_dataset(words, task="classes") is words
    none = GraphSet.from_graphs([Data(edge_index=torch.empty(2, 0), num_nodes=1)] * 2)
    assert load_dataset(none, task="values").num_outputs == 0
