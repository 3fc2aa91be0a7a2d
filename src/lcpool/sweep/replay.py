"""Replay: train a stored run again and compare the results."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from lcpool.data.predefined import as_splits
from lcpool.data.splits import Scheme, digest
from lcpool.settings import TaskName, labels, read_config_text, unnamed
from lcpool.sweep.engine import Finished, Task
from lcpool.sweep.engines.execute import execute
from lcpool.sweep.grid import Cell, Dataset, read_config
from lcpool.sweep.store import Row, Store, StoreError
from lcpool.train.api import edge_fingerprint

NAMES = ("dataset", "backbone", "conv", "pool", "split", "seed")


def replay(store: Store, name: str, device: torch.device, splits: Any = None) -> tuple[Row, Row]:
    """Train a run again, with the stack and the number of threads that it was trained with.

    ``name`` is what :func:`find` takes; ``splits`` are those that it was trained with, if they were
    passed: a store keeps their digest alone.

    Returns:
        The stored run, and the same run as it was trained now.
    """
    stored = find(store, name)
    mates = tuple(
        (_cell(store, cell, splits, stored["task"]), number)
        for cell, number in json.loads(stored["mates"])
    )
    with computing_with(stored["threads"]):
        events = list(execute(Task(mates, stack=len(mates)), device, lambda: False))
    rows = (row for event in events if isinstance(event, Finished) for row in event.rows)
    (again,) = (row for row in rows if (row["cell"], row["run"]) == (stored["cell"], stored["run"]))
    return stored, again


@contextlib.contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Use so many threads while inside: the last bits of a sum depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def find(store: Store, name: str) -> Row:
    """The run called ``WORD/…/NUMBER``; each word is a name or a setting of its cell."""
    *words, number = name.split("/")
    runs = (row for row in store.runs() if str(row["run"]) == number)
    fitting = [row for row in runs if _names(row).issuperset(words)]
    if not fitting:
        raise StoreError(
            f"no run '{name}' in {store.path}: write DATASET/BACKBONE/CONV/POOL/RUN, or some of "
            "these names and settings such as ratio=0.25; the number of the run comes last."
        )
    if len(fitting) > 1:
        marks = labels([_settings(row) for row in fitting])
        found = [
            "/".join(str(row[column]) for column in (*NAMES, "run"))
            + f" ({f'{mark}, ' if mark else ''}id {row['id']})"
            for row, mark in zip(fitting, marks, strict=True)
        ]
        if len(found) > 4:
            found[4:] = [f"and {len(found) - 4} more"]
        raise StoreError(
            f"'{name}' could be {'; '.join(found)}: add names, a setting, or the cell's id, "
            "before the number of the run."
        )
    return fitting[0]


def _names(row: Row) -> set[str]:
    """All words that name a cell."""
    settings = {f"{name}={value}" for name, value in _settings(row).items()}
    family = Scheme.of(row["split"]).family
    return {row["id"], family, *(str(row[column]) for column in NAMES), *settings}


def _settings(row: Row) -> dict[str, Any]:
    return unnamed(read_config_text(row["config"]))


def _cell(store: Store, cell: str, splits: Any, task: TaskName) -> Cell:
    query = "SELECT * FROM cells JOIN datasets ON dataset = name WHERE id = ?"
    (row,) = store.rows(query, cell)
    if row["source"] is None:
        raise StoreError(f"{row['dataset']} was passed as graphs, which the store does not keep.")
    dataset = Dataset(row["name"], row["digest"], row["source"], row["root"], task)
    if splits is not None:
        passed = as_splits(splits, len(dataset.load()), dataset.name)
        dataset = replace(dataset, splits=digest(passed), passed=passed)
    found = Cell(dataset, *read_config(row["config"]))
    if not found.architecture.reads_edge_attr:
        return found
    # The store keeps no digest of edge attributes, but the cell's id follows from it.
    found = replace(found, dataset=replace(dataset, edge_digest=edge_fingerprint(dataset.load())))
    if found.id != cell:
        raise StoreError(f"{dataset.name} or {found.architecture.conv} has changed since that run.")
    return found
