"""Merge stores: add the runs of one to another."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from lcpool.sweep.columns import FIGURES
from lcpool.sweep.store import Row, Store, add_cell, add_run


@dataclass
class Merged:
    """How many runs were new, how many were there already, and what was not added and why."""

    added: int = 0
    same: int = 0
    conflicts: list[str] = field(default_factory=list)


def merge(into: Store, path: Path) -> Merged:
    """Add the runs of another store: all of them, or none if there is an error.

    Two runs are the same if their figures are; time and machine may differ.
    """
    merged = Merged()
    with Store(path, readonly=True) as source, into.transaction() as connection:
        other_data = _add_datasets(connection, source)
        merged.conflicts += [f"{name}: other data of the same name" for name in other_data]
        for row in source.runs():
            if row["dataset"] not in other_data:
                _add(connection, row, merged)
    return merged


def _add_datasets(connection: sqlite3.Connection, source: Store) -> set[str]:
    """Add the datasets of a store; returns the names of those that are there with other data."""
    known = {row["name"]: row["digest"] for row in connection.execute("SELECT * FROM datasets")}
    rows = source.rows("SELECT * FROM datasets")
    query = "INSERT OR IGNORE INTO datasets VALUES (?, ?, ?, ?)"
    connection.executemany(query, [tuple(row) for row in rows])
    return {row["name"] for row in rows if known.get(row["name"], row["digest"]) != row["digest"]}


def _add(connection: sqlite3.Connection, row: Row, merged: Merged) -> None:
    names = (row[name] for name in ("dataset", "backbone", "conv", "pool", "split"))
    name = f"{' '.join(names)} run {row['run']}"
    query = "SELECT id FROM cells WHERE dataset = ? AND config = ? AND code != ? AND current"
    if connection.execute(query, (row["dataset"], row["config"], row["code"])).fetchone():
        merged.conflicts.append(f"{name}: another version of the pooling's file")
        return
    query = "SELECT * FROM runs WHERE cell = ? AND run = ?"
    found = connection.execute(query, (row["cell"], row["run"])).fetchone()
    if found is None:
        add_cell(connection, row)
        add_run(connection, row)
        merged.added += 1
    elif differ := [name for name in FIGURES if found[name] != row[name]]:
        merged.conflicts.append(f"{name}: other {', '.join(differ)}")
    else:
        merged.same += 1
