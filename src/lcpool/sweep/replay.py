"""A row of a store, trained again from what the store says of it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from lcpool.settings import labels, read_config_text, unnamed
from lcpool.sweep.columns import FIGURES
from lcpool.sweep.events import Finished, Task
from lcpool.sweep.grid import Cell, Dataset, read_config
from lcpool.sweep.store import Row, Store, StoreError
from lcpool.sweep.work import work

NAMES = ("dataset", "backbone", "conv", "pool", "split", "seed")


@dataclass(frozen=True)
class Replayed:
    """A run as it is stored, and as it came out again.

    Attributes:
        stored: the row in the store.
        again: the row now.
        differ: the figures that are not the same.
    """

    stored: sqlite3.Row
    again: Row
    differ: list[str]


def replay(store: Store, name: str, device: torch.device) -> Replayed:
    """Train a run again, with the runs and the number of threads it was trained with.

    Args:
        store: where it is.
        name: as :func:`find` takes it.
        device: what to train on.
    """
    stored = find(store, name)
    mates = tuple((_cell(store, cell), number) for cell, number in json.loads(stored["mates"]))
    task = Task(mates, stack=len(mates))
    rows: list[Row] = []
    with computing_with(stored["threads"]):
        for event in work(task, device, lambda: False):
            rows.extend(event.rows if isinstance(event, Finished) else [])
    (again,) = (row for row in rows if (row["cell"], row["run"]) == (stored["cell"], stored["run"]))
    return Replayed(stored, again, [name for name in FIGURES if again[name] != stored[name]])


@contextlib.contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """So many threads while inside: the last bits of a sum depend on how it is shared out."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def find(store: Store, name: str) -> sqlite3.Row:
    """The row that a user means: each word before the number names the cell, or a setting of it."""
    *words, number = name.split("/")
    query = "SELECT * FROM runs JOIN cells ON cell = cells.id WHERE CAST(run AS TEXT) = ?"
    fitting = [row for row in store.rows(query, number) if _names(row).issuperset(words)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise StoreError(
            f"no run '{name}' in {store.path}: write DATASET/BACKBONE/CONV/POOL/RUN, as many of "
            "the names as it takes, settings as ratio=0.25."
        )
    words = labels([_settings(row) for row in fitting])
    found = "; ".join(map(_in_words, fitting[:4], words))
    more = f"; and {len(fitting) - 4} more" if len(fitting) > 4 else ""
    raise StoreError(f"'{name}' could be {found}{more}: add names, a setting, or the cell's id.")


def _names(row: sqlite3.Row) -> set[str]:
    """All that a cell can be named by."""
    settings = {f"{name}={value}" for name, value in _settings(row).items()}
    return {row["id"], *(str(row[column]) for column in NAMES), *settings}


def _settings(row: sqlite3.Row) -> dict[str, Any]:
    return unnamed(read_config_text(row["config"]))


def _in_words(row: sqlite3.Row, label: str) -> str:
    name = "/".join(str(row[column]) for column in (*NAMES, "run"))
    return f"{name} ({f'{label}, ' if label else ''}id {row['id']})"


def _cell(store: Store, cell: str) -> Cell:
    query = "SELECT * FROM cells JOIN datasets ON dataset = name WHERE id = ?"
    (row,) = store.rows(query, cell)
    if row["source"] is None:
        raise StoreError(f"{row['dataset']} was passed as graphs, which the store does not keep.")
    dataset = Dataset(
        *(row[name] for name in ("name", "digest", "graphs", "nodes", "source", "root"))
    )
    return Cell(dataset, *read_config(row["config"]))
