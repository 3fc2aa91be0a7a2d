"""Splits that a user passes, in Python and in files."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from lcpool.data import DatasetError, DataWarning, Split, builtin, load, load_dataset
from lcpool.data.predefined import as_splits, read_splits

PARTS = ([0, 3, 4], [1], [2, 5])
NAMED = dict(zip(("train", "val", "test"), PARTS, strict=True))
OTHER = {"train": [5, 4], "val": [3], "test": [0, 1, 2]}


def plain(splits):
    return [[part.tolist() for part in split] for split in splits]


@pytest.mark.parametrize(
    "given",
    [
        NAMED,
        {"train": PARTS[0], "valid": torch.tensor(PARTS[1]), "test": np.array(PARTS[2])},
        {"training": np.array(PARTS[0], np.uint8), "validation": PARTS[1], "test": PARTS[2]},
        PARTS,
        list(PARTS),
        Split(*map(torch.tensor, PARTS)),
        tuple(np.array(part, np.int32) for part in PARTS),
        [NAMED],
        (NAMED,),
        [PARTS],
        [list(map(np.int64, part)) for part in PARTS],
        {"test": PARTS[2], "model_selection": [{"train": PARTS[0], "validation": PARTS[1]}]},
    ],
)
def test_one_split_in_every_form(given):
    (found,) = as_splits(given, 6, "six")
    assert isinstance(found, Split)
    assert plain([found]) == [list(PARTS)]
    assert {part.dtype for part in found} == {torch.int64}


@pytest.mark.parametrize(
    "given",
    [[NAMED, OTHER], [PARTS, tuple(OTHER.values())], [Split(*map(torch.tensor, PARTS)), OTHER]],
)
def test_several_splits(given):
    assert plain(as_splits(given, 6, "six")) == [list(PARTS), list(OTHER.values())]


def test_three_splits_are_not_taken_for_three_parts():
    given = [PARTS, PARTS, tuple(OTHER.values())]
    assert plain(as_splits(given, 6, "six")) == [list(PARTS), list(PARTS), list(OTHER.values())]
    assert len(as_splits([NAMED, OTHER, NAMED], 6, "six")) == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "a split or a list of splits"),
        (7, "a split or a list of splits"),
        ({}, "no part 'train'"),
        ({"train": [0, 1], "test": [2]}, "no part 'val'"),
        ({**NAMED, "extra": [1]}, "unknown part 'extra'"),
        ({**NAMED, "valid": [1]}, "unknown part 'valid'"),
        ([NAMED, 3], "split 1 must have the parts"),
        ([PARTS, PARTS[:2]], "split 1 must have the parts"),
        ({**NAMED, "val": [1.5]}, "'val' must be a list of numbers of graphs"),
        ({**NAMED, "val": [True] * 6}, "'val' must be a list of numbers of graphs"),
        ({**NAMED, "val": [[1]]}, "'val' must be a list of numbers of graphs"),
        ({**NAMED, "val": [[1], [2, 3]]}, "'val' must be a list of numbers of graphs"),
        ({**NAMED, "val": ["1"]}, "'val' must be a list of numbers of graphs"),
        ({**NAMED, "val": 1}, "'val' must be a list of numbers of graphs"),
        ({**NAMED, "val": [2**64]}, "'val' must be a list of numbers of graphs"),
        ({**NAMED, "val": np.array([2**63], np.uint64)}, "is too large"),
        ({**NAMED, "val": []}, "'val' is empty"),
        ({**NAMED, "val": [0]}, "graph 0 is in 'train' and again in 'val'"),
        ({**NAMED, "val": [1, 1]}, r"graph 1 is in 'val' and again in 'val' \(1 "),
        ({**NAMED, "val": [6]}, "'val' has numbers from 6 to 6"),
        ([NAMED, {**NAMED, "val": [-1]}], "split 1: 'val' has numbers from -1"),
        ({"test": [0], "model_selection": [{}, {}]}, "must hold one split"),
        ({"test": [0], "model_selection": 3}, "must hold one split"),
    ],
)
def test_what_cannot_be_a_split_is_refused(given, words):
    with pytest.raises(DatasetError, match=words):
        as_splits(given, 6, "six")


# --- files


def test_json(tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps([NAMED, OTHER]))
    assert plain(as_splits(path, 6, "six")) == [list(PARTS), list(OTHER.values())]
    path.write_text(json.dumps(NAMED), encoding="utf-8-sig")  # as an editor of Windows does
    assert plain(as_splits(str(path), 6, "six")) == [list(PARTS)]


def test_npz(tmp_path):
    path = tmp_path / "splits.npz"
    np.savez(path, **NAMED)
    assert plain(as_splits(path, 6, "six")) == [list(PARTS)]
    arrays = {
        f"{name}_{n}": part for n, of in enumerate((NAMED, OTHER)) for name, part in of.items()
    }
    np.savez(path, **arrays)
    assert plain(as_splits(path, 6, "six")) == [list(PARTS), list(OTHER.values())]


def test_csv(tmp_path):
    path = tmp_path / "splits.csv"
    rows = [(0, graph, part) for part, graphs in NAMED.items() for graph in graphs]
    path.write_text("graph,part\n" + "".join(f"{g},{p}\n" for _, g, p in rows))
    assert plain(as_splits(path, 6, "six")) == [list(PARTS)]
    rows += [(1, graph, part.upper()) for part, graphs in OTHER.items() for graph in graphs]
    path.write_text("\ufeffsplit,graph,part\r\n" + "".join(f"{s}, {g},{p}\r\n" for s, g, p in rows))
    assert plain(as_splits(path, 6, "six")) == [list(PARTS), list(OTHER.values())]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("s.txt", b"0", "from a file .json, .npz or .csv"),
        ("s.json", b"", "is no json file of splits"),
        ("s.json", b"\xff\xfe", "is no json file of splits"),
        ("s.json", b"[" * 100_000, "is no json file of splits"),
        ("s.json", b"[]", "a split or a list of splits"),
        ("s.json", b'{"train": [0, 1], "val": [2], "test": [NaN]}', "list of numbers"),
        ("s.json", b'"text"', "a split or a list of splits"),
        ("s.npz", b"", "is no npz file of splits"),
        ("s.npz", b"PK\x03\x04", "is no npz file of splits"),
        ("s.npz", b"text", "is no npz file of splits"),
        ("s.csv", b"", r"s\.csv, line 1"),
        ("s.csv", b"graph;part\n0;train\n", r"s\.csv, line 1: .*';'"),
        ("s.csv", b"0,train\n1,val\n", r"s\.csv, line 1: .*graph; .*'0', 'train'"),
        ("s.csv", b"graph,set\n0,train\n", r"s\.csv: no column 'part'; .*'set'"),
        ("s.csv", b"graph,part\n0,train,val\n", r"s\.csv, line 2: 3 cell"),
        ("s.csv", b'graph,part\n0,"train\n', r"s\.csv, line 2"),
        ("s.csv", b"graph,part\nx,train\n", "line 2: graphs and splits are numbered from 0"),
        ("s.csv", b"graph,part\n-1,train\n", "line 2: graphs and splits are numbered from 0"),
        ("s.csv", b"graph,part\n1\n", r"s\.csv, line 2: 1 cell"),
        ("s.csv", b"graph,part\n1,\n", r"s\.csv, line 2: a part is .*None"),
        ("s.csv", b"graph,part\n1,0\n", r"s\.csv, line 2: a part is .*0"),
        ("s.csv", b"graph,part\n1,dev\n", "line 2: a part is train, val or test, not 'dev'"),
        ("s.csv", b"graph,part,split\n1,test,2\n", "numbered 0, 1, …, but there are 2"),
        ("s.csv", b"graph,part\n", "a split or a list of splits"),
        ("s.csv", b"graph,part\n\x00,\xff\n", r"s\.csv: .*UTF-8"),
    ],
)
def test_untidy_files_are_refused(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=words):
        as_splits(path, 6, "six")


def test_untidy_arrays_are_refused(tmp_path):
    path = tmp_path / "s.npz"
    np.savez(path, train=np.array([None, 1], dtype=object), val=[1], test=[2])
    with pytest.raises(DatasetError, match="no npz file"):
        read_splits(path)
    np.savez(path, **NAMED, weights=[1])
    with pytest.raises(DatasetError, match="unknown part 'weights'"):
        as_splits(path, 6, "six")
    np.savez(path, train_x=[1])
    with pytest.raises(DatasetError, match="'train_x'"):
        read_splits(path)
    np.savez(path, **NAMED, train_0=[0, 1])
    with pytest.raises(DatasetError, match="'train_0'"):
        read_splits(path)
    # More numbers than there is memory, and half a header.
    for head in (
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (999999999999999,), }",
        b"{(1",
    ):
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("train.npy", b"\x93NUMPY\x01\x00" + bytes([len(head), 0]) + head)
        with pytest.raises(DatasetError, match="no npz file"):
            read_splits(path)
    np.save(tmp_path / "a.npy", [1])
    (tmp_path / "a.npy").rename(path)
    with pytest.raises(DatasetError, match="no npz file"):
        read_splits(path)


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "folder.json").mkdir()
    for name in ("missing.json", "folder.json"):
        with pytest.raises(DatasetError, match=name):
            as_splits(tmp_path / name, 6, "six")


# --- with the data


def test_a_dataset_is_loaded_with_splits(tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps(NAMED))
    with pytest.warns(DataWarning, match="leave out 594 of 600 graphs"):
        graphs = load_dataset("builtin", splits=path)
    assert plain(graphs.splits) == [list(PARTS)]
    with pytest.raises(DatasetError, match="'test' has numbers"):
        load_dataset(builtin(num_graphs=5), splits=NAMED)


def test_splits_are_cached_with_the_columns(tmp_path):
    graphs = replace(builtin(num_graphs=6), splits=as_splits([NAMED, OTHER], 6, "six"))
    load._save(tmp_path / "six.pt", ["key"], graphs)
    again = load._load(tmp_path / "six.pt", ["key"])
    assert plain(again.splits) == plain(graphs.splits)
    assert all(isinstance(split, Split) for split in again.splits)
