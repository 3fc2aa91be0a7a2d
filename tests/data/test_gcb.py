"""The graph classification benchmark's file, and that no other pickle is opened."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lcpool.data import DatasetError, load_dataset
from lcpool.data.checks import check_columns
from lcpool.data.gcb import read_gcb


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # scipy has renamed modules since
def test_the_benchmark_is_read_with_its_split(real_file: Callable):
    path = real_file("gcb/hard_small.npz")
    graphs = read_gcb(path)
    check_columns(graphs)
    assert graphs.num_classes == 3
    assert [len(part) for part in graphs.splits[0]] == [245, 29, 26]
    assert graphs.undirected
    with np.load(path, allow_pickle=True) as arrays:
        g, matrix = 245 + 3, arrays["val_adj"][3]
        data = graphs.to_graphs()[g]
        dense = np.zeros(matrix.shape)
        dense[tuple(data.edge_index.numpy())] = 1
        np.testing.assert_array_equal(dense, matrix.toarray())
        np.testing.assert_array_equal(data.x.numpy(), arrays["val_feat"][3])
        assert int(data.y) == arrays["val_class"][3].argmax()
    for name in ("hard_small", "hard_small.npz"):
        source = path if name.endswith("npz") else name
        assert len(load_dataset(source, root=path.parent)) == 300


def test_another_file_of_objects_is_refused_unread(tmp_path: Path):
    bomb = np.empty(1, object)
    bomb[0] = Bomb()
    for name in ("hard_small", "mine"):
        path = tmp_path / f"{name}.npz"
        np.savez(path, tr_adj=bomb)
        with pytest.raises(DatasetError, match=rf"{name}\.npz: refused.*Data"):
            load_dataset(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DatasetError, match="refused"):
        load_dataset(path)


def test_what_is_no_regular_file_or_too_large(
    tmp_path: Path, pipe: Callable, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "hard_small.npz"
    pipe(path)
    with pytest.raises(DatasetError, match=r"hard_small\.npz: not a regular file"):
        load_dataset(path)
    with pytest.raises(DatasetError, match=r"gone\.npz"):
        load_dataset(tmp_path / "gone.npz")
    path.unlink()
    path.mkdir()
    with pytest.raises(DatasetError, match=r"hard_small\.npz"):
        load_dataset(path)
    path.rmdir()
    path.write_bytes(b"0" * 1000)
    monkeypatch.setenv("LCPOOL_MAX_GB", "1e-7")
    with pytest.raises(DatasetError, match=r"hard_small\.npz.*LCPOOL_MAX_GB"):
        load_dataset(path)
