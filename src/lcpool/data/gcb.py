"""Reads the graph classification benchmark of F. M. Bianchi, ``hard_small.npz``.

300 graphs of three classes with a split of their own. The file holds Python objects, and reading
those can run any code that whoever wrote the file put into it. So only the very file that the
benchmark publishes is read, which its SHA-256 tells; any other ``.npz`` is refused.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lcpool.data.checks import DatasetError
from lcpool.data.columns import as_split, in_columns
from lcpool.data.files import UNREADABLE, TextFiles
from lcpool.data.graphset import GraphSet

# The files that are known to be harmless.
KNOWN = {
    "d9a91ce97c21f7a8c17ad3a5e470e9d16dc0f7f98c01787100b2f4ca23e54385": "hard_small",
}
_PARTS = ("tr", "val", "te")


@dataclass(frozen=True)
class GcbFile(TextFiles):
    """The one file of the benchmark."""

    @classmethod
    def at(cls, path: Path) -> GcbFile:
        """Refer to a file; whether it is the benchmark's is found when it is read."""
        if not path.is_file():
            raise DatasetError(f"{path}: not a regular file.")
        return cls(path, path.stem, {"npz": path.name}, path.stat().st_size)


def read_gcb(path: Path) -> GraphSet:
    """Read the benchmark's file; any other is refused unread."""
    GcbFile.at(path).check_size()
    try:
        content = path.read_bytes()  # Once: what was hashed is what is read.
    except UNREADABLE as error:
        raise DatasetError(f"{path}: cannot be read ({error}).") from error
    if (digest := hashlib.sha256(content).hexdigest()) not in KNOWN:
        raise DatasetError(
            f"{path}: refused. Reading Python objects in an .npz can run code, so only the graph "
            f"classification benchmark's {', '.join(KNOWN.values())}.npz is read, and this is "
            f"another file (SHA-256 {digest[:12]}…). Of arrays that you trust, make PyG graphs, "
            f"torch_geometric.data.Data(x=…, edge_index=…, y=…), and pass them as a list."
        )
    try:
        import scipy.sparse  # noqa: F401 - the objects in the file are its matrices
    except ModuleNotFoundError:
        raise DatasetError(f"{path}: needs scipy, pip install 'lcpool[lab]'.") from None
    # The objects name their classes by modules that scipy has renamed since.
    with (
        warnings.catch_warnings(action="ignore", category=DeprecationWarning),
        np.load(io.BytesIO(content), allow_pickle=True) as arrays,
    ):
        return _columns(KNOWN[digest], arrays)


def _columns(name: str, arrays: Any) -> GraphSet:
    """Adjacency matrices, features and one-hot classes of three parts as one set."""
    matrices = [matrix.tocoo() for part in _PARTS for matrix in arrays[f"{part}_adj"]]
    nodes = np.array([matrix.shape[0] for matrix in matrices])
    first = np.repeat(nodes.cumsum() - nodes, [matrix.nnz for matrix in matrices])
    edges = np.concatenate([np.stack([matrix.row, matrix.col]) for matrix in matrices], axis=1)
    y = np.concatenate([arrays[f"{part}_class"].argmax(axis=1) for part in _PARTS])
    ends = np.cumsum([len(arrays[f"{part}_class"]) for part in _PARTS])
    x = np.concatenate([rows for part in _PARTS for rows in arrays[f"{part}_feat"]])
    return in_columns(
        name,
        np.repeat(np.arange(len(y)), nodes),
        len(y),
        edges.astype(np.int64) + first,
        x.astype(np.float32),
        y=torch.from_numpy(y),
        classes=tuple(range(int(y.max()) + 1)),
        splits=(as_split(np.split(np.arange(len(y)), ends[:-1])),),
    )
