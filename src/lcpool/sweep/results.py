"""What a sweep gives: a table with a row for each run, and the runs' learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

COLUMNS = (
    "dataset", "backbone", "conv", "pool", "run", "test_accuracy", "test_accuracy_by_loss",
    "val_accuracy", "val_loss", "epoch", "epoch_by_loss", "epochs", "diverged", "seconds",
    "peak_memory", "stack", "num_train", "num_val", "num_test", "split", "seed", "config",
    "device", "lcpool", "torch", "pyg", "python", "commit",
)  # fmt: skip

# Read as they were written: a version 2.10 is no number, nor is a commit of digits.
TEXT = dict.fromkeys(
    ("dataset", "backbone", "conv", "pool", "split", "config", "device", "lcpool", "torch", "pyg",
     "python", "commit"),
    str,
)  # fmt: skip

# What tells a run from every other.
KEY = ("dataset", "backbone", "conv", "pool", "split", "seed", "config", "run")

Key = tuple[Any, ...]


def key(row: Mapping[str, Any]) -> Key:
    """What names the run of a row, and its curves."""
    return tuple(row[name] for name in KEY)


@dataclass(frozen=True)
class Results:
    """Runs and their curves.

    Attributes:
        runs: a row a run, with the columns of ``COLUMNS``; accuracies in percent.
        curves: by the key of a run, a row an epoch: training loss, validation loss, validation
            accuracy (a fraction). Runs without curves are left out.
    """

    runs: pd.DataFrame
    curves: dict[Key, NDArray[np.float32]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """Read a CSV file, with the curves that lie beside it."""
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"{path} is no file of results: name a CSV that a sweep exported.")
        try:
            runs = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=TEXT)
        except (ValueError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is no table of runs: {error}") from error
        missing = [name for name in COLUMNS if name not in runs.columns]
        if missing:
            raise ValueError(f"{path} is no table of runs: it lacks {', '.join(missing)}.")
        curves_path = path.with_suffix(".npz")
        curves = _read_curves(curves_path, runs) if curves_path.is_file() else {}
        return cls(runs[list(COLUMNS)], curves)

    def write(self, path: str | Path) -> Path:
        """Write a CSV file and, beside it, the curves; a folder gets ``runs.csv``."""
        path = Path(path)
        if path.suffix != ".csv":
            path = path / "runs.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.runs[list(COLUMNS)].to_csv(path, index=False)
        if self.curves:
            none = np.zeros((0, 3), np.float32)
            found = [self.curves.get(key(row), none) for row in self.runs.to_dict("records")]
            lengths = np.array([len(curve) for curve in found])
            np.savez_compressed(path.with_suffix(".npz"), lengths=lengths, values=np.vstack(found))
        return path


def _read_curves(path: Path, runs: pd.DataFrame) -> dict[Key, NDArray[np.float32]]:
    with np.load(path, allow_pickle=False) as stored:
        lengths, values = stored["lengths"], stored["values"]
    if len(lengths) != len(runs):
        raise ValueError(f"{path} has curves of {len(lengths)} runs, the table {len(runs)}.")
    parts = np.split(values, np.cumsum(lengths)[:-1])
    rows = runs.to_dict("records")
    return {key(row): part for row, part in zip(rows, parts, strict=True) if len(part)}
