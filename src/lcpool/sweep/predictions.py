"""What the networks of a run say of its test graphs: in a store, and in an export."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lcpool.train import Run
from lcpool.train.tasks import LOSS


class KeptPredictions(NamedTuple):
    """The predictions of a run, from which any metric can be computed.

    For classes and labels the outputs are scores: their softmax, or sigmoid, are probabilities. For
    values they are the predicted values.
    """

    graphs: NDArray[np.uint32]  # the numbers of the test graphs in the dataset, [graphs]
    target: NDArray[
        np.float32
    ]  # the class, counted from 0; or labels, or values: [graphs, targets]
    outputs: NDArray[np.float32]  # at the epoch chosen by the metric, [graphs, columns]
    outputs_by_loss: NDArray[np.float32]  # at the epoch chosen by validation loss


def of_run(run: Run) -> KeptPredictions:
    """The predictions of a run that was tested."""
    chosen, by_loss = run.predictions[run.metric], run.predictions[LOSS]
    target = chosen.target.astype(np.float32).reshape(len(chosen.graphs), -1)
    return KeptPredictions(chosen.graphs, target, chosen.outputs, by_loss.outputs)


def pack(predictions: KeptPredictions) -> bytes:
    """Predictions as bytes that keep every bit."""
    content = io.BytesIO()
    for array in predictions:
        np.save(content, array, allow_pickle=False)
    return zlib.compress(content.getvalue())


def unpack(content: bytes) -> KeptPredictions:
    """The inverse of :func:`pack`."""
    file = io.BytesIO(zlib.decompress(content))
    return KeptPredictions(*(np.load(file, allow_pickle=False) for _ in KeptPredictions._fields))


def to_arrays(several: Sequence[KeptPredictions | None]) -> dict[str, NDArray[Any]]:
    """Predictions of several runs as arrays for one file: those of each run one after the other.

    ``test_shapes`` has, for each run, the number of graphs, of targets and of outputs per graph.
    """
    shapes = [(0, 0, 0) if p is None else (len(p.graphs), p.target.shape[1], p.outputs.shape[1])
              for p in several]  # fmt: skip
    there = [p for p in several if p is not None]
    flat = {
        name: np.concatenate([getattr(p, name).ravel() for p in there])
        for name in KeptPredictions._fields
    }
    return {"test_shapes": np.array(shapes), **{f"test_{name}": a for name, a in flat.items()}}


def counts(array: NDArray[Any]) -> NDArray[Any]:
    """An array of counts, one per run; a ValueError if it is none."""
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array) or array.min() < 0:
        raise ValueError(f"{array.dtype} of shape {list(array.shape)} where counts are expected")
    return array


def from_arrays(stored: Mapping[str, NDArray[Any]]) -> list[KeptPredictions | None]:
    """The inverse of :func:`to_arrays`; a ValueError if the arrays do not fit together."""
    graphs, targets, outputs = (counts(column) for column in stored["test_shapes"].T)
    columns = (np.ones_like(graphs), targets, outputs, outputs)
    parts = []
    for name, width in zip(KeptPredictions._fields, columns, strict=True):
        flat, ends = stored[f"test_{name}"], np.cumsum(graphs * width)
        kinds = "ui" if name == "graphs" else "uif"
        if flat.dtype.kind not in kinds or flat.shape != (ends[-1],):
            found = f"{flat.dtype} of shape {list(flat.shape)}"
            raise ValueError(f"'test_{name}' is {found}, not {ends[-1]} numbers")
        pieces = np.split(flat, ends[:-1])
        parts.append([
            piece if name == "graphs" else piece.reshape(n, w)
            for piece, n, w in zip(pieces, graphs, width, strict=True)
        ])  # fmt: skip
    rows = (KeptPredictions(*row) for row in zip(*parts, strict=True))
    return [row if n else None for row, n in zip(rows, graphs, strict=True)]
