"""OGB's raw layout, tidy and not: what cannot be read is an error that names the file."""

import gzip
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from damage import CHANGES, damaged, quick
from hypothesis import given
from hypothesis import strategies as st

from lcpool.data import DatasetError, DataWarning, load_dataset
from lcpool.data.checks import check_columns
from lcpool.data.load import local_datasets
from lcpool.data.ogb import ATOMS, BONDS, read_ogb

NAN = float("nan")


def test_bonds_go_both_ways_and_integers_are_categories(write_ogb: Callable):
    graphs = read_ogb(write_ogb())
    assert graphs.name == "ogbg_toy"
    assert graphs.node_counts.tolist() == [3, 1, 2, 1]
    assert graphs.edge_index.tolist() == [[0, 1, 1, 2, 4, 5], [1, 0, 2, 1, 5, 4]]
    assert graphs.y.tolist() == [1, 0, 1, 0]
    assert graphs.classes == (0, 1)
    assert graphs.categories == (8, 2)
    codes = [block.argmax(1).tolist() for block in graphs.x.split(graphs.categories, dim=1)]
    assert codes == [[5, 6, 5, 7, 5, 5, 5], [0, 1, 0, 0, 0, 1, 1]]
    assert graphs.x.sum(1).tolist() == [2] * 7
    # First the bond's kind (2), then whether it is in a ring (2), the same in both directions.
    assert graphs.edge_attr.tolist()[:2] == [[1, 0, 0, 1]] * 2
    assert graphs.edge_attr.tolist()[2:4] == [[0, 1, 1, 0]] * 2
    assert graphs.edge_categories == (2, 2)
    (split,) = graphs.splits
    assert [part.tolist() for part in split] == [[2, 3], [1], [0]]
    check_columns(graphs)


@pytest.mark.parametrize(
    ("labels", "task", "y"),
    [
        ("-1.0\n3\n3\n3", "classes", [-1, 3, 3, 3]),
        ("0.5\n1\n2\n2", "values", [[0.5], [1], [2], [2]]),
        ("0.5,1\n,2\n1,1\n1,0", "values", [[0.5, 1], [NAN, 2], [1, 1], [1, 0]]),
        ("0,1\n1,\n,nan\n1,1", "labels", [[0, 1], [1, NAN], [NAN, NAN], [1, 1]]),
        ("0\n1\nnan\n1", "labels", [[0], [1], [NAN], [1]]),
    ],
)
def test_the_task_follows_from_the_labels(write_ogb: Callable, labels: str, task: str, y: list):
    graphs = read_ogb(write_ogb(**{"raw/graph-label": labels}))
    assert graphs.task == task
    torch.testing.assert_close(graphs.y, torch.tensor(y, dtype=graphs.y.dtype), equal_nan=True)


def test_whole_numbers_to_predict_are_values_if_it_is_said(write_ogb: Callable):
    folder = write_ogb(**{"raw/graph-label": "7\n-3\n12\n12"})
    assert load_dataset(folder).task == "classes"
    graphs = load_dataset(folder, task="values")
    assert (graphs.task, graphs.classes) == ("values", ())
    assert graphs.y.tolist() == [[7], [-3], [12], [12]]
    with pytest.raises(DatasetError, match="'values'"):
        load_dataset(folder, task="labels")
    labels = load_dataset(write_ogb(**{"raw/graph-label": "1\n0\n1\n1"}), task="labels")
    assert labels.y.tolist() == [[1], [0], [1], [1]]


def test_classes_that_look_like_numbers_are_said(write_ogb: Callable):
    many = {
        "raw/graph-label": "\n".join(map(str, range(12))),
        "raw/num-node-list": "1\n" * 12, "raw/num-edge-list": "0\n" * 12, "raw/edge": "",
        "raw/node-feat": "1\n" * 12, "raw/edge-feat": "", "split/scaffold/train": "2\n3",
    }  # fmt: skip
    folder = write_ogb(**many)
    with pytest.warns(DataWarning, match=r"12 classes.*values"):
        load_dataset(folder)
    load_dataset(folder, task="values")  # A warning would be an error.


def test_features_that_are_no_integers_are_numbers(write_ogb: Callable):
    text = "".join(f"{n},{n / 2}\n" for n in range(7))
    graphs = read_ogb(write_ogb(**{"raw/node-feat": text, "raw/edge-feat": None}))
    assert graphs.categories == ()
    assert graphs.x[:, 1].tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3]
    assert graphs.edge_attr is None


def test_graphs_without_features_get_degrees(write_ogb: Callable):
    graphs = read_ogb(write_ogb(**{"raw/node-feat": None}))
    assert graphs.x.argmax(1).tolist() == [1, 2, 1, 0, 1, 1, 0]


def test_graphs_may_be_empty_and_files_may_be_plain(write_ogb: Callable):
    path = write_ogb(**{"raw/num-node-list": "3\n0\n4\n0\n"})
    for file in [*path.rglob("*.gz")]:
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    assert read_ogb(path).node_counts.tolist() == [3, 0, 4, 0]


def test_edges_that_are_stored_in_both_directions_stay_as_they_are(write_ogb: Callable):
    graphs = read_ogb(write_ogb(**{"raw/edge": "0,1\n1,0\n1,1\n", "raw/edge-feat": "0\n1\n2\n"}))
    assert graphs.edge_index.tolist() == [[0, 1], [1, 0]]
    assert graphs.edge_attr.tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_a_dataset_is_found_by_name(write_ogb: Callable, tmp_path: Path):
    path = write_ogb()
    assert ("ogbg_toy", path) in local_datasets(tmp_path)
    for name in ("ogbg_toy", "ogbg-toy", "OGBG-TOY", path):
        first, again = (load_dataset(name, root=tmp_path) for _ in range(2))  # again: cached
        assert first.name == again.name == "ogbg_toy"
        assert first.categories == again.categories == (8, 2)
        assert first.splits[0].train.tolist() == again.splits[0].train.tolist() == [2, 3]


def test_a_missing_dataset_of_ogb_says_what_to_do(tmp_path: Path):
    with pytest.raises(DatasetError, match=r"ogbg_molhiv.*PygGraphPropPredDataset"):
        load_dataset("ogbg-molhiv", root=tmp_path)


RAW = ["edge", "num-node-list", "num-edge-list", "graph-label"]
NASTY = {
    **{f"no {kind}": ({f"raw/{kind}": None}, f"raw/{kind}.csv.gz") for kind in RAW},
    **{f"empty {kind}": ({f"raw/{kind}": ""}, f"raw/{kind}.csv.gz") for kind in RAW},
    **{
        f"no {part}": ({f"split/scaffold/{part}": None}, f"scaffold/{part}.csv.gz")
        for part in ("train", "valid", "test")
    },
    "fewer graphs": ({"raw/num-node-list": "3\n1\n2\n"}, r"num-node-list\.csv\.gz, line 3"),
    "fewer nodes": ({"raw/num-node-list": "2\n1\n2\n2\n"}, r"edge\.csv\.gz, line 2: edge 1, 2"),
    "more nodes": ({"raw/num-node-list": "4\n1\n2\n1\n"}, r"node-feat\.csv\.gz, line 7"),
    "fewer edges": ({"raw/num-edge-list": "1\n0\n1\n0\n"}, r"edge\.csv\.gz, line 3"),
    "negative count": ({"raw/num-node-list": "3\n-1\n4\n1\n"}, r"num-node-list\.csv\.gz, line 2"),
    "huge count": ({"raw/num-node-list": f"3\n{10**18}\n2\n1\n"}, r"num-node-list.*LCPOOL_MAX_GB"),
    "huge sum": (
        {"raw/num-edge-list": f"{10**9}\n" * 4},
        r"num-edge-list.*LCPOOL_MAX_GB",
    ),
    "beyond 64 bits": ({"raw/num-node-list": f"3\n{10**30}\n2\n1\n"}, r"num-node-list.*line 2"),
    "half a count": ({"raw/num-node-list": "3\n1.5\n2\n1\n"}, r"num-node-list.*line 2: '1.5'"),
    "negative index": ({"raw/edge": "0,1\n1,-2\n0,1\n"}, r"edge\.csv\.gz, line 2"),
    "index of another graph": ({"raw/edge": "0,1\n1,3\n0,1\n"}, r"edge\.csv\.gz, line 2"),
    "three ends": ({"raw/edge": "0,1,2\n1,2,0\n0,1,0\n"}, r"edge\.csv\.gz, line 1"),
    "ragged edges": ({"raw/edge": "0,1\n1\n0,1\n"}, r"edge\.csv\.gz, line 2"),
    "words for edges": ({"raw/edge": "a,b\n1,2\n0,1\n"}, r"edge\.csv\.gz, line 1: 'a'"),
    "a header": ({"raw/node-feat": "x,y\n" + "1,2\n" * 6}, r"node-feat\.csv\.gz, line 1: 'x'"),
    "ragged features": ({"raw/node-feat": "1,2\n" * 6 + "1\n"}, r"node-feat\.csv\.gz, line 7"),
    "NaN in features": ({"raw/node-feat": "1\n" * 6 + "nan\n"}, r"node-feat\.csv\.gz, line 7"),
    "missing feature": ({"raw/node-feat": "1,2\n" * 6 + "1,\n"}, r"node-feat\.csv\.gz, line 7"),
    "infinite feature": ({"raw/edge-feat": "1\ninf\n2\n"}, r"edge-feat\.csv\.gz, line 2"),
    "huge feature": ({"raw/node-feat": "1e39\n" * 7}, r"node-feat\.csv\.gz, line 1"),
    "infinite label": ({"raw/graph-label": "1\n-inf\n2\n"}, r"graph-label\.csv\.gz, line 2"),
    "huge label": ({"raw/graph-label": "1\n1e300\n2\n"}, r"graph-label\.csv\.gz, line 2"),
    "word as label": ({"raw/graph-label": "1\nyes\n2\n"}, r"graph-label\.csv\.gz, line 2: 'yes'"),
    "ragged labels": ({"raw/graph-label": "1,2\n1\n2,1\n"}, r"graph-label\.csv\.gz, line 2"),
    "split out of range": ({"split/scaffold/test": "4\n"}, r"test\.csv\.gz, line 1: 4"),
    "negative split": ({"split/scaffold/test": "-1\n"}, r"test\.csv\.gz, line 1: -1"),
    "in two parts": ({"split/scaffold/test": "0\n2\n"}, r"test\.csv\.gz, line 2: graph 2"),
    "twice in a part": ({"split/scaffold/test": "0\n0\n"}, r"test\.csv\.gz, line 2: graph 0"),
    "empty part": ({"split/scaffold/test": ""}, r"test\.csv\.gz, line 1"),
    "two splits": ({"split/random/test": "1\n"}, r"split: several splits \(random, scaffold\)"),
    "no gz": ({"raw/edge": b"0,1\n1,2\n0,1\n"}, r"edge\.csv\.gz: cannot be read"),
    "nothing in gz": ({"raw/edge": b""}, r"edge\.csv\.gz, line 0: .* 3 edges"),
    "cut gz": ({"raw/edge": gzip.compress(b"0,1\n1,2\n0,1\n")[:-9]}, r"edge\.csv\.gz: cannot"),
    "wrong checksum": ({"raw/edge": gzip.compress(b"0,1\n")[:-8] + b"\0" * 8}, r"edge\.csv\.gz"),
    "binary": ({"raw/edge": gzip.compress(bytes(range(256)))}, r"edge\.csv\.gz, line 1"),
}


@pytest.mark.parametrize("case", NASTY)
def test_untidy_files_are_named(write_ogb: Callable, case: str):
    files, message = NASTY[case]
    with pytest.raises(DatasetError, match=message) as caught:
        load_dataset(write_ogb(**files))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("kind", ["edge", "node-feat", "graph-label"])
def test_a_small_file_that_unpacks_to_much_is_refused(
    write_ogb: Callable, kind: str, monkeypatch: pytest.MonkeyPatch
):
    path = write_ogb(**{f"raw/{kind}": "0\n" * 10**6})
    assert sum(file.stat().st_size for file in path.rglob("*.gz")) < 10_000
    monkeypatch.setenv("LCPOOL_MAX_GB", "1e-4")
    with pytest.raises(DatasetError, match=rf"{kind}\.csv\.gz.*LCPOOL_MAX_GB"):
        read_ogb(path)


def test_too_many_categories_are_refused(write_ogb: Callable, monkeypatch: pytest.MonkeyPatch):
    path = write_ogb(**{"raw/node-feat": "4000\n" * 7})
    monkeypatch.setenv("LCPOOL_MAX_GB", "2e-5")
    with pytest.raises(DatasetError, match=r"node-feat.*7 rows of 4001 .*LCPOOL_MAX_GB"):
        read_ogb(path)


def test_pipes_folders_and_dead_links_are_not_opened(write_ogb: Callable, pipe: Callable):
    file = write_ogb() / "raw" / "edge.csv.gz"
    pipe(file)
    with pytest.raises(DatasetError, match=r"edge\.csv\.gz"):
        read_ogb(file.parents[1])
    file.unlink()
    file.mkdir()
    with pytest.raises(DatasetError, match=r"edge\.csv\.gz"):
        read_ogb(file.parents[1])
    file.rmdir()
    os.symlink("nowhere", file)
    with pytest.raises(DatasetError, match=r"edge\.csv\.gz"):
        read_ogb(file.parents[1])


FILES = ["edge", "num-node-list", "num-edge-list", "graph-label", "node-feat", "edge-feat"]


@quick
@given(
    kinds=st.sets(st.sampled_from(FILES), min_size=1, max_size=2),
    changes=CHANGES,
    packed=st.booleans(),
)
def test_damaged_files(write_ogb: Callable, kinds: set[str], changes: list, packed: bool):
    """An error of ours, or graphs that fit together: never another exception."""
    whole = write_ogb()
    for kind in kinds:
        file = whole / "raw" / f"{kind}.csv.gz"
        content = file.read_bytes() if packed else gzip.decompress(file.read_bytes())
        content = damaged(content, changes)
        file.write_bytes(content if packed else gzip.compress(content))
    with suppress(DatasetError):
        graphs = read_ogb(whole)
        check_columns(graphs)
        assert graphs.x.isfinite().all()


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "bonds", "task", "parts"),
    [
        ("molbace", 1513, 51577, 55768, "classes", [1210, 151, 152]),
        ("molbbbp", 2039, 49068, 52921, "classes", [1631, 204, 204]),
        ("molesol", 1128, 14991, 15428, "values", [902, 113, 113]),
        ("molfreesolv", 642, 5600, 5385, "values", [513, 64, 65]),
    ],
)
def test_ogbs_molecules(real_file: Callable, name, graphs, nodes, bonds, task, parts):
    path = real_file(f"ogb/ogbg_{name}")
    found = read_ogb(path)
    assert (len(found), found.x.size(0), found.edge_index.size(1)) == (graphs, nodes, 2 * bonds)
    assert found.task == task
    assert found.categories == ATOMS
    assert [len(part) for part in found.splits[0]] == parts
    assert found.undirected
    check_columns(found)
    # The numbers of the files, by numpy.
    raw = {
        kind: np.genfromtxt(path / "raw" / f"{kind}.csv.gz", delimiter=",")
        for kind in ("node-feat", "edge", "edge-feat", "graph-label", "num-edge-list")
    }
    codes = torch.stack([block.argmax(1) for block in found.x.split(ATOMS, dim=1)], dim=1)
    np.testing.assert_array_equal(codes.numpy(), raw["node-feat"])
    np.testing.assert_allclose(found.y.view(-1).double(), raw["graph-label"])
    first = found.node_ptr[:-1].repeat_interleave(torch.tensor(raw["num-edge-list"]).long())
    stored, ends = {}, raw["edge"].astype(int) + first.numpy()[:, None]
    for pair, bond in zip(ends, raw["edge-feat"], strict=True):
        stored[tuple(pair)] = stored[tuple(pair[::-1])] = tuple(bond.astype(int))
    kinds = torch.stack([block.argmax(1) for block in found.edge_attr.split(BONDS, dim=1)], dim=1)
    ends = map(tuple, found.edge_index.t().tolist())
    assert dict(zip(ends, map(tuple, kinds.tolist()), strict=True)) == stored
