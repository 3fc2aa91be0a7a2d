"""Tables of edges, nodes and graphs, tidy and not: errors name the file and the line."""

import gzip
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
import torch
from damage import CHANGES, damaged, quick
from hypothesis import given
from hypothesis import strategies as st

from lcpool.data import DatasetError, DataWarning, checks, load_dataset
from lcpool.data.checks import check_columns
from lcpool.data.load import local_datasets
from lcpool.data.tables import read_folder

# A path of three nodes, one node alone, and a pair.
TABLES = {
    "edges": "graph,u,v,kind\na,1,2,single\na,2,3,double\nc,x,y,single\n",
    "nodes": "graph,node,element,charge\na,1,C,0.5\na,2,N,0\na,3,C,1\nb,1,O,2\nc,x,C,0\nc,y,C,-1\n",
    "graphs": "graph,label,split\na,yes,train\nb,no,train\nc,yes,val\nd,no,test\n",
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes tables into a folder; None leaves one out, bytes are written as they are."""

    def put(**tables: str | bytes | None) -> Path:
        folder = tmp_path / "mine"
        folder.mkdir(exist_ok=True)
        for kind, content in {**TABLES, **tables}.items():
            if content is not None:
                text = content.encode() if isinstance(content, str) else content
                (folder / f"{kind}.csv").write_bytes(text)
        return folder

    return put


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_a_folder_of_tables_is_a_dataset(write: Callable, tmp_path: Path):
    folder = write()
    assert ("mine", folder) in local_datasets(tmp_path)
    frames = {kind: pd.read_csv(folder / f"{kind}.csv") for kind in TABLES}
    paths = {kind: folder / f"{kind}.csv" for kind in TABLES}
    sources = [folder, "mine", "mine", frames, paths, {k: str(v) for k, v in paths.items()}]
    for graphs in [load_dataset(source, root=tmp_path, name="mine") for source in sources]:
        assert graphs.name == "mine"
        assert graphs.node_counts.tolist() == [3, 1, 2, 0]
        assert graphs.edge_index.tolist() == [[0, 1, 1, 2, 4, 5], [1, 0, 2, 1, 5, 4]]
        assert graphs.classes == ("no", "yes")
        assert graphs.y.tolist() == [1, 0, 1, 0]
        assert graphs.categories == (3,)
        assert graphs.x[:, :3].argmax(1).tolist() == [0, 1, 0, 2, 0, 0]
        assert graphs.x[:, 3].tolist() == [0.5, 0, 1, 2, 0, -1]
        assert graphs.edge_attr.argmax(1).tolist() == [1, 1, 0, 0, 1, 1]
        assert [part.tolist() for part in graphs.splits[0]] == [[0, 1], [2], [3]]
        check_columns(graphs)


def test_edges_from_source_to_target_go_one_way(write: Callable):
    folder = write(edges="graph,source,target\na,1,2\na,1,2\na,2,2\n", nodes=None, graphs=None)
    with pytest.warns(DataWarning, match="no reverse edge"):
        graphs = load_dataset(folder)
    assert graphs.edge_index.tolist() == [[0], [1]]  # repeated edges count once
    assert graphs.classes == ()
    assert graphs.x.argmax(1).tolist() == [1, 0]  # degrees


def test_names_that_are_unique_need_no_graph_in_the_edges(write: Callable):
    nodes = "graph,node\n1,a\n2,b\n1,c\n2,d\n"
    folder = write(edges="u,v\na,c\nd,b\n", nodes=nodes, graphs="graph,label\n2,0\n1,1\n")
    graphs = load_dataset(folder)
    assert graphs.y.tolist() == [0, 1]  # in the order of the table
    assert graphs.edge_index.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]
    same = write(edges="u,v\na,c\n", nodes="graph,node\n1,a\n2,a\n1,c\n", graphs="graph\n1\n2\n")
    with pytest.raises(DatasetError, match=r"nodes\.csv, line 3: node a .*'graph'"):
        read_folder(same)


@pytest.mark.parametrize(
    ("graphs", "task", "y", "names"),
    [
        ("graph,label\na,3\nb,-1\nc,3\n", "classes", [3, -1, 3], ()),
        ("graph,value\na,3\nb,\nc,1.5\n", "values", [[3], [None], [1.5]], ("value",)),
        ("graph,value_p,value_q\na,3,1\nb,,2\nc,1,2\n", "values", [[3, 1], [None, 2], [1, 2]],
         ("p", "q")),
        ("graph,label_p,label_q\na,0,1\nb,,1\nc,1,nan\n", "labels", [[0, 1], [None, 1], [1, None]],
         ("p", "q")),
        ("graph,label_p\na,0\nb,1\nc,1\n", "labels", [[0], [1], [1]], ("p",)),
        ("graph\na\nb\nc\n", "classes", [-1, -1, -1], ()),
        ("graph,value\na,\nb,\nc,\n", "values", [[None], [None], [None]], ("value",)),
        # Neighbours that float64 does not tell apart.
        (f"graph,label\na,{2**60}\nb,{2**60 + 1}\nc,1\n", "classes", [2**60, 2**60 + 1, 1], ()),
    ],
)  # fmt: skip
def test_targets(write: Callable, graphs: str, task: str, y: list, names: tuple):
    found = read_folder(write(graphs=graphs))
    assert (found.task, found.target_names) == (task, names)
    nan = [[float("nan") if v is None else v for v in row] if isinstance(row, list) else row
           for row in y]  # fmt: skip
    torch.testing.assert_close(found.y, torch.tensor(nan, dtype=found.y.dtype), equal_nan=True)


def test_columns_that_mean_nothing_are_named(write: Callable):
    with pytest.warns(DataWarning, match=r"graphs\.csv: .*not used: 'weight', 'name'\."):
        read_folder(write(graphs="graph,label,weight,name\na,1,2,x\nb,1,3,y\nc,2,4,z\n"))


def test_pandas_categories_are_those_it_knows():
    nodes = pd.DataFrame({"graph": [1, 1], "node": [0, 1]})
    nodes["element"] = pd.Categorical(["N", "C"], categories=["S", "C", "N", "O"])
    edges = pd.DataFrame({"graph": [1], "u": [0], "v": [1]})
    graphs = load_dataset({"edges": edges, "nodes": nodes}, y=[5])
    assert graphs.categories == (4,)
    assert graphs.x.argmax(1).tolist() == [2, 1]
    assert graphs.classes == (5,)


def test_names_are_the_same_as_numbers_and_as_words():
    edges = pd.DataFrame({"graph": ["1", "1"], "u": [0.0, 1.0], "v": [1, 2]})
    nodes = pd.DataFrame({"graph": [1, 1, 1], "node": ["0", " 1", 2]})
    assert load_dataset({"edges": edges, "nodes": nodes}).edge_index.size(1) == 4


def test_names_in_files_are_the_same_as_whole_numbers_and_as_floats(write: Callable):
    """As pandas writes a column of floats: node 2 is not another one than node 2.0."""
    folder = write(edges="graph,u,v\n1.0,1.0,2\n1,2.0,3\n", nodes=None, graphs="graph\n1\n")
    assert load_dataset(folder).node_counts.tolist() == [3]


def test_a_frame_is_called_by_its_rows():
    edges = pd.DataFrame({"graph": ["a", "b"], "u": [1, 1], "v": [2, 2]})
    for column, cells in {"label": ["x", None], "value": [1.0, float("inf")]}.items():
        graphs = pd.DataFrame({"graph": ["a", "b"], column: cells})
        with pytest.raises(DatasetError, match=f"graphs, row 1: '{column}'"):
            load_dataset({"edges": edges, "graphs": graphs})


BOM = "\N{BYTE ORDER MARK}"
TIDY = {
    "a mark of Windows": {"graphs": BOM + TABLES["graphs"].replace("\n", "\r\n")},
    "blank lines": {"edges": TABLES["edges"].replace("\n", "\n\n")},
    "quotes": {"graphs": TABLES["graphs"].replace("yes", '"yes, sir"')},
    "spaces": {"edges": TABLES["edges"].replace(",", " , ")},
}


@pytest.mark.parametrize("case", TIDY)
def test_ways_of_writing_that_are_read(write: Callable, case: str):
    graphs = read_folder(write(**TIDY[case]))
    assert graphs.edge_index.size(1) == 6


def test_tables_may_be_compressed(write: Callable):
    folder = write()
    for file in [*folder.iterdir()]:
        (folder / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert len(read_folder(folder)) == 4
    (folder / "edges.csv.gz").write_bytes(gzip.compress(b"graph,u,v\n" * 100)[:-9])
    with pytest.raises(DatasetError, match=r"edges\.csv\.gz: cannot be read"):
        read_folder(folder)


E, N, G = "edges", "nodes", "graphs"
NASTY = {
    "no edges": ({E: None}, "no table 'edges'"),
    "empty file": ({E: ""}, r"edges\.csv, line 1: the file is empty"),
    "only a header": ({G: "graph,label\n"}, r"graphs\.csv: there are no graphs"),
    "no header": ({E: "a,1,2\na,2,3\n"}, r"edges\.csv, line 1: .*'a', '1', '2'"),
    "no header of nodes": ({N: "a,1,C\na,x,C\n"}, r"nodes\.csv, line 1: .*'a', '1', 'C'"),
    "no ends": ({E: "graph,kind\na,1\n"}, r"edges\.csv: no ends of edges"),
    "a capital": ({E: TABLES[E].replace("graph", "Graph")}, r"edges\.csv: .*'Graph'.*'graph'"),
    "semicolons": ({E: "graph;u;v\na;1;2\n"}, r"edges\.csv, line 1: .*';'"),
    "tabs": ({E: "graph\tu\tv\na\t1\t2\n"}, r"edges\.csv, line 1: .*'\\t'"),
    "an index": ({E: ",graph,u,v\n0,a,1,2\n"}, r"edges\.csv, line 1: column 1 .*index=False"),
    "two of a name": ({E: "graph,u,u\na,1,2\n"}, r"edges\.csv, line 1: two columns .*'u'"),
    "no target": ({E: "graph,source\na,1\n"}, r"edges\.csv: no column 'target'"),
    "two kinds of ends": ({E: "graph,source,target,u\na,1,2,1\n"}, r"edges\.csv: both"),
    "no graph": ({E: "u,v\n1,2\n", N: None}, r"edges\.csv: .*'graph'"),
    "no node": ({N: "graph,name\na,1\n"}, r"nodes\.csv: no column 'node'; .*'name'"),
    "ragged": ({E: "graph,u,v\na,1\n"}, r"edges\.csv, line 2: 2 cell"),
    "too many cells": ({N: "graph,node\na,1,C\n"}, r"nodes\.csv, line 2: 3 cell"),
    "unknown graph in edges": ({E: "graph,u,v\nz,1,2\n"}, r"edges\.csv, line 2"),
    "unknown graph in nodes": ({N: "graph,node\nz,1\n"}, r"nodes\.csv, line 2: graph z .*graphs"),
    "unknown node": ({E: "graph,u,v\na,1,2\na,3,4\n"}, r"edges\.csv, line 3: node 4"),
    "negative node": ({E: "graph,u,v\na,1,-1\n"}, r"edges\.csv, line 2: node -1"),
    "node of another graph": ({E: "graph,u,v\na,1,x\n"}, r"edges\.csv, line 2: node x"),
    "two graphs": ({E: "u,v\n1,4\n", N: "graph,node\na,1\nb,4\n", G: None}, r"edges\.csv, line 2"),
    "graph twice": ({G: "graph,label\na,1\nb,1\na,2\n"}, r"graphs\.csv, line 4: graph a"),
    "node twice": ({N: TABLES[N] + "a,1,C,0\n"}, r"nodes\.csv, line 8: node 1"),
    "no name": ({E: "graph,u,v\na,1,\n"}, r"edges\.csv, line 2: 'v'"),
    "missing number": ({N: TABLES[N].replace(",0.5", ",")}, r"nodes\.csv, line 2: 'charge'"),
    "missing word": ({N: TABLES[N].replace(",C,0.5", ",,0.5")}, r"nodes\.csv, line 2: 'element'"),
    "NaN": ({N: TABLES[N].replace("0.5", "nan")}, r"nodes\.csv, line 2: 'charge'"),
    "infinite": ({N: TABLES[N].replace("0.5", "-inf")}, r"nodes\.csv, line 2: 'charge'"),
    "huge": ({N: TABLES[N].replace("0.5", "1e39")}, r"nodes\.csv, line 2: 'charge'"),
    "a slip": ({N: TABLES[N].replace("0.5", "0.5.1")}, r"nodes\.csv, line 2: '0.5.1' .*charge"),
    "no number of Python's": ({N: TABLES[N].replace("0.5", "1_0")}, r"nodes\.csv, line 2: '1_0'"),
    "missing edge feature": ({E: TABLES[E].replace("double", "")}, r"edges\.csv, line 3: 'kind'"),
    "half a class": ({G: "graph,label\na,1\nb,0.5\nc,2\n"},
                     r"graphs\.csv, line 3: 'label' .*0\.5.*column 'value'"),
    "missing class": ({G: "graph,label\na,1\nb,\nc,2\n"}, r"graphs\.csv, line 3: 'label'"),
    "NaN as class": ({G: "graph,label\na,1\nb,nan\nc,2\n"}, r"graphs\.csv, line 3: 'label'"),
    "missing word of a class": ({G: "graph,label\na,x\nb,\nc,y\n"}, r"graphs\.csv, line 3: "),
    "label 2": ({G: "graph,label_a\na,1\nb,2\nc,0\n"}, r"graphs\.csv, line 3: 'label_a' .*2"),
    "words as labels": ({G: "graph,label_a,label_b\na,1,x\nb,1,y\nc,0,x\n"},
                        r"graphs\.csv, line 2: 'label_a', 'label_b' .*x"),
    "words as values": ({G: "graph,value\na,low\nb,high\nc,low\n"}, r"line 2: 'value' .*low"),
    "word as value": ({G: "graph,value\na,1\nb,high\nc,0\n"}, r"graphs\.csv, line 3: 'high'"),
    "infinite value": ({G: "graph,value\na,1\nb,inf\nc,0\n"}, r"graphs\.csv, line 3: 'value'"),
    "two kinds of targets": ({G: "graph,label,value\na,1,2\nb,1,2\nc,1,2\n"}, "has 'label'"),
    "unknown part": ({G: TABLES[G].replace("val", "dev")}, r"graphs\.csv, line 4: .*'dev'"),
    "no test part": ({G: TABLES[G].replace("test", "")}, r"graphs\.csv: no graph has 'test'"),
    "SMILES and edges": ({G: "graph,smiles\na,CC\n"}, r"graphs\.csv: has 'smiles'"),
    "an open quote": ({G: 'graph,label\na,"1\nb,2\n'}, r"graphs\.csv, line \d: "),
    "binary": ({E: bytes(range(256))}, r"edges\.csv: .*UTF-8"),
    "a huge cell": ({E: "graph,u,v\na,1," + "9" * 200_000 + "\n"}, r"edges\.csv, line 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", NASTY)
def test_untidy_tables_are_named(write: Callable, case: str):
    tables, message = NASTY[case]
    with pytest.raises(DatasetError, match=message) as caught:
        load_dataset(write(**tables))
    assert len(str(caught.value)) < 500


def test_much_text_is_refused(write: Callable, monkeypatch: pytest.MonkeyPatch):
    folder = write(edges="graph,u,v\n" + "a,1,2\n" * 10_000)
    monkeypatch.setenv("LCPOOL_MAX_GB", "1e-3")
    with pytest.raises(DatasetError, match=r"edges\.csv.*LCPOOL_MAX_GB"):
        read_folder(folder)
    monkeypatch.setenv("LCPOOL_MAX_GB", "1e-5")
    with pytest.raises(DatasetError, match=r"mine: .*LCPOOL_MAX_GB"):
        read_folder(folder)
    with pytest.raises(DatasetError, match=r"LCPOOL_MAX_GB"):
        load_dataset({"edges": folder / "edges.csv"})


def test_a_bomb_is_refused(write: Callable, monkeypatch: pytest.MonkeyPatch):
    folder = write(edges=None)
    (folder / "edges.csv.gz").write_bytes(gzip.compress(b"graph,u,v\n" + b"\n" * 10**7))
    monkeypatch.setenv("LCPOOL_MAX_GB", "1e-2")
    with pytest.raises(DatasetError, match=r"edges\.csv\.gz.*LCPOOL_MAX_GB"):
        read_folder(folder)


def test_too_many_words_are_no_categories(write: Callable):
    rows = "".join(f"a,{n},w{n}x\n" for n in range(5000))
    with pytest.raises(DatasetError, match=r"nodes\.csv: 'id' has 5000 different words"):
        read_folder(write(nodes=f"graph,node,id\n{rows}", edges="graph,u,v\na,1,2\n", graphs=None))


def test_pipes_and_folders_are_not_opened(write: Callable, pipe: Callable):
    folder = write()
    pipe(folder / "edges.csv")
    for source in (folder, {"edges": folder / "edges.csv"}):
        with pytest.raises(DatasetError, match=r"edges\.csv"):
            load_dataset(source)
    (folder / "edges.csv").unlink()
    (folder / "edges.csv").mkdir()
    for source in (folder, {"edges": folder / "edges.csv"}, {"edges": folder / "gone.csv"}):
        with pytest.raises(DatasetError, match=r"(edges|gone)\.csv"):
            load_dataset(source)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"links": None}, "'links'"),
        ({"edges": [1, 2]}, "'edges' must be a pandas DataFrame"),
        ({"edges": pd.DataFrame()}, "edges: no ends"),
        ({"edges": pd.DataFrame([[1, 1, 2]])}, "edges: no ends"),
        ({"edges": pd.DataFrame([[1, 1]], columns=["u", "u"])}, "two columns"),
        ({"edges": pd.DataFrame({"graph": [1], "u": [None], "v": [1]})}, "edges, row 0: 'u'"),
        ({"edges": pd.DataFrame({"graph": [1], "u": [0.5], "v": [1]})}, "edges, row 0: 'u'"),
        ({"edges": pd.DataFrame({"graph": [1], "u": [0], "v": [1], "w": [[[1]]]})}, "row 0: 'w'"),
        ({"edges": pd.DataFrame({"graph": [1], "u": [0], "v": [1], "w": [1j]})}, "row 0: 'w'"),
    ],
)
def test_frames_that_do_not_fit(tables: dict, message: str):
    with pytest.raises(DatasetError, match=message):
        load_dataset(tables)


@quick
@given(kinds=st.sets(st.sampled_from(sorted(TABLES)), min_size=1, max_size=2), changes=CHANGES)
@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_damaged_tables(write: Callable, kinds: set[str], changes: list):
    """An error of ours, or graphs that fit together: never another exception."""
    checks.warn_once.cache_clear()
    folder = write(**{kind: damaged(TABLES[kind].encode(), changes) for kind in kinds})
    with suppress(DatasetError):
        graphs = read_folder(folder)
        check_columns(graphs)
        assert graphs.x.isfinite().all()


@pytest.mark.parametrize("encoding", ["latin1", "utf-16"])
def test_words_in_another_encoding_are_refused(write: Callable, encoding: str):
    """As UTF-8, é and è would become one and the same sign."""
    nodes = TABLES["nodes"].replace("C", "é").replace("N", "è")
    with pytest.raises(DatasetError, match=r"nodes\.csv: .*UTF-8"):
        load_dataset(write(nodes=nodes.encode(encoding)))


@pytest.mark.parametrize(
    ("kind", "old", "new", "where"),
    [
        ("edges", "c,x,y", "z,x,y", r"edges\.csv, line 4: graph z .*graphs\.csv"),
        ("edges", "c,x,y", "c,,y", r"edges\.csv, line 4: 'u' is missing"),
        ("nodes", "a,2,N,0", "a,2,N,", r"nodes\.csv, line 3: 'charge' is missing"),
        ("graphs", "b,no", "b,", r"graphs\.csv, line 3: 'label' is missing"),
    ],
)
def test_what_is_missing_or_unknown_is_named(
    write: Callable, kind: str, old: str, new: str, where: str
):
    with pytest.raises(DatasetError, match=where):
        load_dataset(write(**{kind: TABLES[kind].replace(old, new)}))


def test_graphs_without_edges_and_without_a_table_of_nodes_are_named(write: Callable):
    folder = write(nodes=None)
    with pytest.warns(DataWarning, match=r"edges\.csv: .*2 of 4 graphs: 'b', 'd'"):
        graphs = load_dataset(folder)
    assert graphs.node_counts.tolist() == [3, 0, 2, 0]


def test_a_number_among_words_names_both_rows():
    nodes = {"graph": [0] * 3, "node": [0, 1, 2], "charge": [1.0, 2.0, "three"]}
    tables = {"edges": {"graph": [0], "u": [0], "v": [1]}, "nodes": nodes}
    with pytest.raises(DatasetError, match=r"row 0: 'charge' is 1\.0.*row 2: 'three'"):
        load_dataset({kind: pd.DataFrame(table) for kind, table in tables.items()})
