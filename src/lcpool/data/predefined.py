"""Splits that a user passes: in Python, or in a file of JSON, NPZ or CSV.

Graphs are numbered from 0, in the order of the dataset. Every form has one split or several:

- JSON: ``{"train": [0, 3, …], "val": […], "test": […]}``, or a list of such objects. The files of
  Errica et al. (2020), with ``"model_selection"`` beside ``"test"``, are read as they are.
- NPZ: arrays ``train``, ``val`` and ``test``; of several splits ``train_0``, ``val_0``, ``test_0``,
  ``train_1``, …
- CSV: the columns ``graph`` and ``part`` with a row per graph, and ``split`` if there are several,
  numbered from 0. A graph that has no row is in no part.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lcpool.data.checks import DatasetError, check_split
from lcpool.data.splits import NAMES, Split
from lcpool.data.tables import TableFiles, read_csv

EXAMPLE = '{"train": [0, 3], "val": [1], "test": [2]}'
LARGEST_FILE = 1 << 30  # bytes


def as_splits(given: Any, num_graphs: int, name: str) -> tuple[Split, ...]:
    """One split or several, as a user passes them, checked for so many graphs.

    Args:
        given: the path of a file; a dictionary of the parts (as OGB's ``get_idx_split()`` gives
            it); a :class:`Split` or another triple of training, validation and test graphs; or a
            list of these.
        num_graphs: the number of graphs.
        name: the dataset's name, for messages.

    Example:
        >>> as_splits({"train": [0, 3], "valid": [1], "test": [2]}, 4, "mine")[0].sizes
        (2, 1, 1)
    """
    where = f"{name}: splits"
    if isinstance(given, str | os.PathLike):
        where, given = f"{given}", read_splits(Path(given))
    rows = [given] if _is_one(given) else given
    if not isinstance(rows, Sequence) or isinstance(rows, str) or len(rows) == 0:
        raise DatasetError(f"{where}: expected a split or a list of splits, such as {EXAMPLE}.")
    found = []
    for number, row in enumerate(rows):
        at = f"{where}: split {number}" if len(rows) > 1 else where
        found.append(_one(row, at))
        check_split(found[-1], num_graphs, at)
    return tuple(found)


def read_splits(path: Path) -> Any:
    """What is in a file, as :func:`as_splits` takes it."""
    path = path.expanduser()
    readers = {".json": _read_json, ".npz": _read_npz, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise DatasetError(f"{path}: splits are read from a file .json, .npz or .csv.")
    try:
        if path.exists() and not path.is_file():  # A pipe would wait for ever.
            raise DatasetError(f"{path} is not a file.")
        if path.stat().st_size > LARGEST_FILE:
            raise DatasetError(f"{path} is larger than 1 GB, too large for splits.")
        return readers[path.suffix.lower()](path)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror or error}.") from error
    except DatasetError:
        raise
    except Exception as error:  # json, zipfile, zlib and numpy each have several of their own
        raise DatasetError(f"{path} is no {path.suffix[1:]} file of splits: {error}") from error


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8-sig"))


def _read_npz(path: Path) -> Any:
    """The arrays by split; an array of objects would need pickle, and is refused."""
    rows: dict[int, dict[str, Any]] = {}
    # Opened here: numpy leaves a damaged file open.
    with path.open("rb") as file, zipfile.ZipFile(file):
        file.seek(0)
        stored = np.load(file, allow_pickle=False)
        for key in stored.files:
            name, _, number = key.partition("_")
            if not re.fullmatch(r"\d{0,6}", number):
                raise DatasetError(f"{path} has an array '{key}': write train, val and test, or "
                                   f"train_0, val_0, test_0, train_1, …")  # fmt: skip
            parts = rows.setdefault(int(number or 0), {})
            if name in parts:
                raise DatasetError(f"{path} has '{name}' of one split twice: '{key}' is the other.")
            parts[name] = stored[key]
    return _in_order(rows, path)


def _read_csv(path: Path) -> Any:
    table, rows = read_csv(TableFiles.of(path), "table", ("graph",)), dict[int, dict[str, Any]]()
    graphs, parts = table.column("graph"), table.column("part")
    splits = table.columns.get("split", ["0"] * len(table))
    for row, (split, graph, part) in enumerate(zip(splits, graphs, parts, strict=True)):
        if not all(re.fullmatch(r"\d{1,15}", str(number)) for number in (split, graph)):
            problem = f"graphs and splits are numbered from 0, not {graph!r} and {split!r}"
            raise DatasetError(f"{table.place(row)}: {problem}.")
        if (name := NAMES.get(str(part).lower())) is None:
            raise DatasetError(f"{table.place(row)}: a part is train, val or test, not {part!r}.")
        rows.setdefault(int(split), {}).setdefault(name, []).append(int(graph))
    return _in_order(rows, path)


def _in_order(rows: Mapping[int, dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    if sorted(rows) != list(range(len(rows))):
        found = ", ".join(map(str, sorted(rows)[:10]))
        raise DatasetError(f"{path}: splits are numbered 0, 1, …, but there are {found}.")
    return [rows[number] for number in range(len(rows))]


def _is_one(given: Any) -> bool:
    """Whether this is one split, and not a list of them: a dictionary, or three lists of graphs."""
    if isinstance(given, Mapping | Split):
        return True
    triple = isinstance(given, tuple | list) and len(given) == 3
    return triple and not any(isinstance(p, Mapping | Split) or _nested(p) for p in given)


def _nested(part: Any) -> bool:
    """Whether an entry of a list is a triple of lists, not a list of numbers."""
    return isinstance(part, tuple | list) and any(not isinstance(one, Integral) for one in part)


def _one(row: Any, where: str) -> Split:
    if isinstance(row, Mapping):
        parts = _named(row, where)
    elif isinstance(row, tuple | list) and len(row) == 3:
        parts = dict(zip(Split._fields, row, strict=True))
    else:
        raise DatasetError(f"{where} must have the parts train, val and test, as {EXAMPLE}.")
    return Split(*(_numbers(parts[name], f"{where}: '{name}'") for name in Split._fields))


def _named(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The parts by our names."""
    inner = row.get("model_selection")
    if isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], Mapping):
        row = {"test": row.get("test"), **inner[0]}
    elif inner is not None:
        raise DatasetError(f"{where}: 'model_selection' must hold one split, an inner holdout.")
    parts: dict[str, Any] = {}
    for name, part in row.items():
        if NAMES.get(name, name) in parts or name not in NAMES:
            raise DatasetError(f"{where}: unknown part '{name}'; a split is as {EXAMPLE}.")
        parts[NAMES[name]] = part
    if lacking := [name for name in Split._fields if parts.get(name) is None]:
        raise DatasetError(f"{where} has no part '{lacking[0]}'; a split is as {EXAMPLE}.")
    return parts


def _numbers(part: Any, where: str) -> torch.Tensor:
    """Numbers of graphs as int64 on the host; a mask or fractions are refused."""
    problem = f"{where} must be a list of numbers of graphs, counted from 0"
    try:
        found = part.detach().cpu().numpy() if isinstance(part, torch.Tensor) else np.asarray(part)
    except ValueError as error:  # lists of different lengths
        raise DatasetError(f"{problem}.") from error
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise DatasetError(f"{problem}, not {found.dtype} of shape {list(found.shape)}.")
    if found.size and int(found.max()) >= 2**63:
        raise DatasetError(f"{problem}; {int(found.max())} is too large.")
    return torch.from_numpy(found.astype(np.int64))
