"""A row of a store, trained again from what the store says of it."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

import torch

from lcpool.sweep.events import Finished, Task
from lcpool.sweep.grid import Cell, Dataset, read_config
from lcpool.sweep.store import FIGURES, Row, Store, StoreError
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
    """Train a run again, with the runs it was trained with.

    Args:
        store: where it is.
        name: as :func:`find` takes it.
        device: what to train on.
    """
    stored = find(store, name)
    mates = tuple((_cell(store, cell), number) for cell, number in json.loads(stored["mates"]))
    task = Task(mates, stack=len(mates))
    rows: list[Row] = []
    for event in work(task, device, lambda: False):
        rows.extend(event.rows if isinstance(event, Finished) else [])
    (again,) = (row for row in rows if (row["cell"], row["run"]) == (stored["cell"], stored["run"]))
    return Replayed(stored, again, [name for name in FIGURES if again[name] != stored[name]])


def find(store: Store, name: str) -> sqlite3.Row:
    """The row that a user means: each word before the number is one of the cell's names."""
    *words, number = name.split("/")
    query = "SELECT * FROM runs JOIN cells ON cell = cells.id WHERE CAST(run AS TEXT) = ?"
    fitting = [
        row
        for row in store.rows(query, number)
        if all(word in (row["id"], *(str(row[column]) for column in NAMES)) for word in words)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise StoreError(
            f"no run '{name}' in {store.path}: write DATASET/BACKBONE/CONV/POOL/RUN, as many of "
            "the names as it takes."
        )
    found = ", ".join("/".join((*_names(row), number)) for row in fitting[:4])
    more = f" and {len(fitting) - 4} more" if len(fitting) > 4 else ""
    raise StoreError(f"'{name}' could be {found}{more}: add names, or the seed, or the cell's id.")


def _names(row: sqlite3.Row) -> list[str]:
    return [str(row[name]) for name in NAMES]


def _cell(store: Store, cell: str) -> Cell:
    query = "SELECT * FROM cells JOIN datasets ON dataset = name WHERE id = ?"
    (row,) = store.rows(query, cell)
    if row["source"] is None:
        raise StoreError(f"{row['dataset']} was passed as graphs, which the store does not keep.")
    dataset = Dataset(
        *(row[name] for name in ("name", "digest", "graphs", "nodes", "source", "root"))
    )
    return Cell(dataset, *read_config(row["config"]))
