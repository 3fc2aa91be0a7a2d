"""Merge stores: add the runs of one to another."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from lcpool.sweep.columns import FIGURES
from lcpool.sweep.store import Store, add_cell, add_run


@dataclass
class Merged:
    """The result of a merge.

    Attributes:
        added: how many runs were new.
        same: how many runs were there with the same figures.
        conflicts: messages about runs that were there with other figures; these did not change.
    """

    added: int = 0
    same: int = 0
    conflicts: list[str] = field(default_factory=list)


def merge(into: Store, path: Path) -> Merged:
    """Add the runs of another store: all of them, or none if there is an error.

    Two runs are the same if their figures are; time and machine may differ.
    """
    merged = Merged()
    with Store(path, readonly=True) as source, into.transaction() as connection:
        _add_datasets(connection, source, merged)
        known = {row["name"]: row["digest"] for row in into.rows("SELECT * FROM datasets")}
        cells = {
            cell["id"]: cell
            for cell in source.rows(
                "SELECT cells.*, digest FROM cells JOIN datasets ON dataset = name"
            )
            if known[cell["dataset"]] == cell["digest"]
        }
        for cell in cells.values():
            add_cell(connection, dict(cell))  # without how many runs fit in that machine's memory
        for row in source.rows("SELECT * FROM runs"):
            if row["cell"] in cells:
                _add_run(connection, row, cells[row["cell"]], merged)
    return merged


def _add_datasets(connection: sqlite3.Connection, source: Store, merged: Merged) -> None:
    for row in source.rows("SELECT * FROM datasets"):
        query = "SELECT digest FROM datasets WHERE name = ?"
        found = connection.execute(query, (row["name"],)).fetchone()
        if found is None:
            connection.execute("INSERT INTO datasets VALUES (?, ?, ?, ?, ?, ?)", tuple(row))
        elif found["digest"] != row["digest"]:
            merged.conflicts.append(
                f"{row['name']}: other data of the same name; none of its runs was added"
            )


def _add_run(
    connection: sqlite3.Connection, row: sqlite3.Row, cell: sqlite3.Row, merged: Merged
) -> None:
    query = "SELECT * FROM runs WHERE cell = ? AND run = ?"
    found = connection.execute(query, (row["cell"], row["run"])).fetchone()
    if found is None:
        add_run(connection, dict(row))
        merged.added += 1
        return
    differ = [name for name in FIGURES if found[name] != row[name]]
    if not differ:
        merged.same += 1
        return
    names = (cell[name] for name in ("dataset", "backbone", "conv", "pool", "split"))
    merged.conflicts.append(f"{' '.join(names)} run {row['run']}: other {', '.join(differ)}")
