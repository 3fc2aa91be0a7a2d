"""Replay: train a stored run again and compare the results."""

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
from lcpool.sweep.engines.execute import execute
from lcpool.sweep.engines.task import Finished, Task
from lcpool.sweep.grid import Cell, Dataset, read_config
from lcpool.sweep.store import Row, Store, StoreError

NAMES = ("dataset", "backbone", "conv", "pool", "split", "seed")


@dataclass(frozen=True)
class Replayed:
    """A stored run, the same run trained again, and the figures in which they differ."""

    stored: sqlite3.Row
    again: Row
    differ: list[str]


def replay(store: Store, name: str, device: torch.device) -> Replayed:
    """Train a run again, with the stack and the number of threads that it was trained with.

    ``name`` is what :func:`find` takes.
    """
    stored = find(store, name)
    mates = tuple((_cell(store, cell), number) for cell, number in json.loads(stored["mates"]))
    task = Task(mates, stack=len(mates))
    rows: list[Row] = []
    with computing_with(stored["threads"]):
        for event in execute(task, device, lambda: False):
            rows.extend(event.rows if isinstance(event, Finished) else [])
    (again,) = (row for row in rows if (row["cell"], row["run"]) == (stored["cell"], stored["run"]))
    return Replayed(stored, again, [name for name in FIGURES if again[name] != stored[name]])


@contextlib.contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Use so many threads while inside: the last bits of a sum depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def find(store: Store, name: str) -> sqlite3.Row:
    """The run called ``WORD/…/NUMBER``; each word is a name or a setting of its cell."""
    *words, number = name.split("/")
    query = "SELECT * FROM runs JOIN cells ON cell = cells.id WHERE CAST(run AS TEXT) = ?"
    fitting = [row for row in store.rows(query, number) if _names(row).issuperset(words)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise StoreError(
            f"no run '{name}' in {store.path}: write DATASET/BACKBONE/CONV/POOL/RUN, or some of "
            "these names, with settings as ratio=0.25."
        )
    words = labels([_settings(row) for row in fitting])
    found = "; ".join(map(_in_words, fitting[:4], words))
    more = f"; and {len(fitting) - 4} more" if len(fitting) > 4 else ""
    raise StoreError(f"'{name}' could be {found}{more}: add names, a setting, or the cell's id.")


def _names(row: sqlite3.Row) -> set[str]:
    """All words that name a cell."""
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
