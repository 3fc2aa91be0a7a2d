"""The results of a sweep: a table with a row per run, learning curves, predictions, failures."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lcpool.atomic import write_together
from lcpool.settings import read_config_text
from lcpool.spreadsheet import protected, unprotected
from lcpool.sweep import predictions as packed
from lcpool.sweep.columns import EXPORTED, KEY, NAMES
from lcpool.sweep.predictions import KeptPredictions
from lcpool.sweep.store import Store, unpack_curves

Key = tuple[Any, ...]

_SQLITE = b"SQLite format 3\0"
_DTYPES = {column.name: column.dtype for column in EXPORTED}
_OF_NAMES = ("dataset", "backbone", "conv", "pool")


def key(row: Mapping[str, Any]) -> Key:
    """What identifies the run of a row."""
    return tuple(row[name] for name in KEY)


@dataclass(frozen=True)
class Failure:
    """A cell that failed and has no run."""

    names: tuple[str, ...]  # dataset, backbone, convolution, pooling
    split: str
    reason: str  # the traceback of its last failure, or how its process ended
    config: str

    @property
    def row(self) -> dict[str, str]:
        """By column, as the runs that it lacks would have them; and the reason."""
        named = dict(zip(_OF_NAMES, self.names, strict=True))
        return {**named, "split": self.split, "config": self.config, "reason": self.reason}

    @classmethod
    def of(cls, row: Mapping[str, str]) -> Failure:
        """From :attr:`row`."""
        return cls(tuple(row[n] for n in _OF_NAMES), row["split"], row["reason"], row["config"])


@dataclass(frozen=True)
class Results:
    """Runs, their curves, and what they predicted.

    Attributes:
        runs: a row per run, with the columns of ``lcpool.sweep.columns``; accuracies in percent.
        curves: by the key of a run, a row per epoch: training loss, validation loss, validation
            accuracy (a fraction) or another metric. Runs without curves are left out.
        failures: the cells that failed and have no run.
        predictions: by the key of a run, what its networks say of its test graphs. Runs of before
            predictions were kept are left out.
    """

    runs: pd.DataFrame
    curves: dict[Key, NDArray[np.float32]] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    predictions: dict[Key, KeptPredictions] = field(default_factory=dict)

    def __repr__(self) -> str:
        pools, datasets = (self.runs[name].nunique() for name in ("pool", "dataset"))
        return f"Results(runs={len(self.runs)}, poolings={pools}, datasets={datasets})"

    @classmethod
    def read(cls, *paths: str | Path) -> Results:
        """Read one or more stores, or CSV files with the curves beside them."""
        parts = [_read(Path(path)) for path in paths]
        runs = pd.concat([part.runs for part in parts], ignore_index=True)
        curves = {name: curve for part in parts for name, curve in part.curves.items()}
        # What failed in one file may have runs in another. The settings have all names but one.
        trained = set(runs[["dataset", "config"]].itertuples(index=False, name=None))
        failures = [failure for part in parts for failure in part.failures]
        kept = tuple(f for f in failures if (f.names[0], f.config) not in trained)
        predictions = {name: one for part in parts for name, one in part.predictions.items()}
        return cls(runs, curves, kept, predictions)

    @classmethod
    def of(cls, store: Store) -> Results:
        """All runs of a store."""
        found = store.runs()
        curves = {key(row): unpack_curves(row["curves"]).astype(np.float32) for row in found}
        predictions = {key(row): packed.unpack(row["predictions"]) for row in found}
        # With max(), SQLite takes the other columns from the row that has it.
        failed = store.rows(
            "SELECT dataset, backbone, conv, pool, split, reason, config, max(time) FROM failures "
            "JOIN cells ON cell = cells.id WHERE current AND cell NOT IN (SELECT cell FROM runs) "
            "GROUP BY cell ORDER BY dataset, backbone, conv, pool, split"
        )
        failures = tuple(Failure(tuple(row)[:4], *tuple(row)[4:7]) for row in failed)
        runs = pd.DataFrame(found, columns=NAMES).astype(_DTYPES)
        return cls(runs, curves, failures, predictions)

    def write(self, path: str | Path) -> Path:
        """Write a CSV file and what belongs to it; in a folder, ``runs.csv``.

        Beside ``runs.csv`` stand ``runs.npz``, with curves and predictions, and
        ``runs.failures.json``, with the cells that failed; each only if there are any.
        """
        path = Path(path)
        if path.suffix != ".csv":
            path = path / "runs.csv"
        curves, failures = path.with_suffix(".npz"), _failures_of(path)
        whole = {c.name: "Int64" for c in EXPORTED if c.sql == "INTEGER"}  # no decimal point
        table = self.runs[list(NAMES)].astype({**_DTYPES, **whole})
        contents = {path: protected(table).to_csv(index=False, lineterminator="\n").encode()}
        if self.failures:
            rows = [failure.row for failure in self.failures]
            contents[failures] = (json.dumps(rows, indent=1) + "\n").encode()
        if self.curves:
            contents[curves] = self._arrays()
        write_together(contents)
        for older in {curves, failures} - contents.keys():
            older.unlink(missing_ok=True)  # of an older table
        return path

    def _arrays(self) -> bytes:
        """An NPZ file with all curves one after the other, losses in half precision (three digits).

        More digits are noise that does not compress. Accuracies keep every bit: they have few
        values. So do predictions: an equal score would be another accuracy.
        """
        keys, none = (
            [key(row) for row in self.runs.to_dict("records")],
            np.zeros((0, 3), np.float32),
        )
        curves = [self.curves.get(name, none) for name in keys]
        predictions = [self.predictions.get(name) for name in keys]
        values = np.vstack(curves)
        with np.errstate(over="ignore"):  # A loss above 65504 becomes infinite.
            losses = values[:, :2].astype(np.float16)
        lengths = np.array([len(curve) for curve in curves])
        arrays: dict[str, Any] = {"lengths": lengths, "losses": losses, "accuracies": values[:, 2]}
        if any(one is not None for one in predictions):
            arrays |= packed.to_arrays(predictions)
        file = io.BytesIO()
        np.savez_compressed(file, **arrays)
        return file.getvalue()

    def where(self, **values: Any) -> Results:
        """The runs whose columns have these values; a list means any of its values.

        So, too, the cells that failed, by the columns that tell cells apart; by any other column,
        none of them.
        """
        wanted = {n: value if isinstance(value, list) else [value] for n, value in values.items()}
        runs = self.runs
        for name, value in wanted.items():
            runs = runs[runs[name].isin(value)]
        runs = runs.reset_index(drop=True)
        kept = {key(row) for row in runs.to_dict("records")}
        return Results(
            runs,
            {name: curve for name, curve in self.curves.items() if name in kept},
            tuple(failure for failure in self.failures if _matches(failure, wanted)),
            {name: one for name, one in self.predictions.items() if name in kept},
        )


def _matches(failure: Failure, wanted: Mapping[str, list[Any]]) -> bool:
    """Whether the columns of a cell that failed have some of these values."""
    row = {**read_config_text(failure.config), **failure.row}  # the settings have the seed
    return all(name in row and row[name] in values for name, values in wanted.items())


def _failures_of(table: Path) -> Path:
    """Where the failures of a table of runs are; no pattern for tables, ``*.csv``, finds it."""
    return table.with_suffix(".failures.json")


def _read(path: Path) -> Results:
    if not path.is_file():
        raise ValueError(f"{path} is no file: name a store of 'lcpool bench', or an exported CSV.")
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) != _SQLITE:
            return _read_csv(path)
    with Store(path, readonly=True) as store:
        return Results.of(store)


def _read_csv(path: Path) -> Results:
    what = f"{path} is not a table of runs"
    instead = "Pass a store of 'lcpool bench', or a CSV file of 'lcpool bench export'."
    try:
        # As text first: a dataset may be called NA, and Python reads numbers to the last bit.
        runs = pd.read_csv(path, dtype="str", keep_default_na=False)
    except ValueError as error:  # pandas' words do not help: they are about its parser.
        raise ValueError(f"{what}: it cannot be read as CSV. {instead}") from error
    lacking = [column for column in EXPORTED if column.name not in runs.columns]
    if missing := [column.name for column in lacking if not column.absent]:
        raise ValueError(f"{what}: it lacks {', '.join(missing)}. {instead}")
    runs = unprotected(runs.assign(**{column.name: "" for column in lacking})[list(NAMES)])
    for name, dtype in _DTYPES.items():
        try:
            runs[name] = runs[name].replace("", "nan" if dtype == "float64" else "").astype(dtype)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{what}: not all of its '{name}' are numbers. {instead}") from error
    curves, failures = path.with_suffix(".npz"), _read_failures(_failures_of(path))
    if not curves.is_file():
        return Results(runs, failures=failures)
    found, predictions = _read_arrays(curves, runs)
    return Results(runs, found, failures, predictions)


def _read_failures(path: Path) -> tuple[Failure, ...]:
    """The cells that failed; none if there is no such file."""
    if not path.is_file():
        return ()
    try:
        found = tuple(Failure.of(row) for row in json.loads(path.read_text("utf-8")))
        for failure in found:
            read_config_text(failure.config)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is damaged: export the runs again.") from error
    return found


def _read_arrays(
    path: Path, runs: pd.DataFrame
) -> tuple[dict[Key, NDArray[np.float32]], dict[Key, KeptPredictions]]:
    """Curves and predictions of a table of runs, by the keys of the runs."""
    predictions: list[KeptPredictions | None] = []
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            lengths = packed.counts(stored["lengths"])
            columns = [stored["losses"], stored["accuracies"]]
            values = np.column_stack([column.astype(np.float32) for column in columns])
            if values.shape != (lengths.sum(), 3):
                raise ValueError(f"its curves have {len(values)} epochs, not {lengths.sum()}")
            if "test_shapes" in stored:
                predictions = packed.from_arrays(stored)
    except Exception as error:  # numpy, zipfile and zlib each have several of their own
        raise ValueError(f"{path} is damaged ({error}): export the runs again.") from error
    if len(lengths) != len(runs):
        raise ValueError(f"{path} has curves of {len(lengths)} runs, the table {len(runs)}.")
    if len(predictions) not in (0, len(runs)):
        raise ValueError(f"{path} has predictions of {len(predictions)} runs, not {len(runs)}.")
    parts = np.split(values, np.cumsum(lengths)[:-1])
    keys = [key(row) for row in runs.to_dict("records")]
    found = {name: part for name, part in zip(keys, parts, strict=True) if len(part)}
    return found, {
        name: one for name, one in zip(keys, predictions, strict=False) if one is not None
    }
