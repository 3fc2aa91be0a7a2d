"""The store: one SQLite file with a row per run, which stays whole however a sweep ends."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import sqlite3
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from lcpool.sweep.columns import COLUMNS, FIGURES, KEY, OF_CELL, OF_RUN, TYPES
from lcpool.sweep.grid import Cell, Job, Wanted

VERSION = 5
APPLICATION = 0x6C63706F  # "lcpo": tells a store from other SQLite files.
BUSY_SECONDS = 60.0  # to wait for another process that is writing

_TABLES = f"""
CREATE TABLE datasets (name TEXT PRIMARY KEY, digest TEXT NOT NULL, source TEXT, root TEXT) STRICT;
CREATE TABLE cells (id TEXT PRIMARY KEY, {", ".join(c.schema for c in OF_CELL)},
    code TEXT NOT NULL, current INTEGER NOT NULL DEFAULT 1, stack INTEGER,
    FOREIGN KEY (dataset) REFERENCES datasets) STRICT;
CREATE TABLE runs (cell TEXT NOT NULL REFERENCES cells, {", ".join(c.schema for c in OF_RUN)},
    checksum TEXT NOT NULL, PRIMARY KEY (cell, run)) STRICT, WITHOUT ROWID;
CREATE TABLE failures (cell TEXT NOT NULL, time REAL NOT NULL, reason TEXT NOT NULL) STRICT;
"""
TABLES = [table.strip() for table in _TABLES.split(";") if table.strip()]

# The columns of the tables of cells and runs that are compared and copied.
CELL = ("id", *(column.name for column in OF_CELL), "code")
RUN = ("cell", *(column.name for column in OF_RUN), "checksum")

Row = dict[str, Any]


class StoreError(ValueError):
    """A store that cannot be used; the message says why and what to do."""


@dataclass
class Merged:
    """How many runs were new, how many were there already, and what was not added and why."""

    added: int = 0
    same: int = 0
    conflicts: list[str] = field(default_factory=list)


class Store:
    """An open store; its file is created if it is missing, and never changed if ``readonly``."""

    def __init__(self, path: str | Path, readonly: bool = False) -> None:
        self.path, self.readonly = Path(path), readonly
        self.place, self.work = self.path.absolute(), WorkFolder(self.path)
        with self.clear_errors():
            self.connection = self._open()
            try:
                self._check()
                self.file, self.log = _identity(self.place), _identity(self._log("-wal"))
            except BaseException:
                self.connection.close()
                raise

    def _open(self) -> sqlite3.Connection:
        if self.path.is_dir():
            raise StoreError(f"{self.path} is a folder; name a file for the store.")
        if self.readonly and not self.path.exists():
            raise StoreError(f"{self.path}: there is no such store.")
        mode = "ro" if self._log("-wal").exists() else "ro&immutable=1"
        if not self.readonly:
            self.place.parent.mkdir(parents=True, exist_ok=True)
            mode = "rwc"
        elif os.access(self.place.parent, os.W_OK):
            mode = "rw"  # Reading beside a writer means sharing its log.
        uri = f"{self.place.as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
        connection.execute(f"PRAGMA query_only = {self.readonly:d}")
        connection.row_factory = sqlite3.Row
        # A damaged text must not be an error here: its checksum tells which run it belongs to.
        connection.text_factory = lambda text: text.decode(errors="replace")
        return connection

    def _log(self, end: str) -> Path:
        return Path(f"{self.place}{end}")

    def _check(self) -> None:
        """Create the tables of a new store; refuse a file that is no store of this version."""
        if not self.readonly and self._empty():
            self._create()
        if self._value("PRAGMA application_id") != APPLICATION:
            raise StoreError(f"{self.path} is not an lcpool store; it was not changed.")
        if (version := self._value("PRAGMA user_version")) != VERSION:
            age = "a newer" if version > VERSION else "an older"
            raise StoreError(
                f"{self.path} was written by {age} lcpool (format {version}; this one reads "
                f"{VERSION}); it was not changed. Install that version."
            )
        verdict = self._value("PRAGMA quick_check(1)")
        tables = self.connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table'")
        if verdict == "ok" and [table["sql"] for table in tables] != TABLES:
            verdict = "its tables are not those of a store"
        if verdict != "ok":
            raise StoreError(_damaged(self.path, verdict))

    def _value(self, query: str) -> Any:
        return self.connection.execute(query).fetchone()[0]

    def _empty(self) -> bool:
        tables = self._value("SELECT count(*) FROM sqlite_master")
        return bool(tables == self._value("PRAGMA application_id") == 0)

    def _create(self) -> None:
        self.use_log()
        with self.transaction() as connection:
            if self._empty():  # Another command may have created it meanwhile.
                for table in TABLES:
                    connection.execute(table)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")

    def use_log(self) -> None:
        """Switch to WAL; here SQLite itself does not wait for other processes."""
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > until:
                    raise
            time.sleep(0.05)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything inside is stored or nothing, with no other writer in between."""
        with self.clear_errors(), self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            yield self.connection

    @contextmanager
    def clear_errors(self) -> Iterator[None]:
        """Turn SQLite's errors into messages that say what to do."""
        try:
            yield
        except sqlite3.Error as error:
            if words := _in_words(error, self.path):
                raise StoreError(words) from error
            raise
        except OSError as error:
            raise StoreError(f"{self.path} cannot be opened: {error.strerror}.") from error

    def close(self) -> None:
        with self.clear_errors():
            self.connection.close()
        if not self.readonly and self.is_gone() and _identity(self._log("-wal")) == self.log:
            # SQLite would take the log of this store for that of the next one at its place.
            for end in ("-wal", "-shm"):
                self._log(end).unlink(missing_ok=True)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        with self.clear_errors():
            return self.connection.execute(query, values).fetchall()

    def add(self, jobs: Iterable[Job]) -> None:
        """Enter the cells of some jobs, and remove damaged runs; other runs stay as they are."""
        cells = dict.fromkeys(cell for job in jobs for cell in job.cells)
        datasets = [
            (one.name, one.digest, one.source if isinstance(one.source, str) else None, one.root)
            for one in dict.fromkeys(cell.dataset for cell in cells)
        ]
        with self.transaction() as connection:
            if others := self._add_datasets(datasets):
                raise StoreError(
                    f"{self.path} has runs on other data with the name {others[0]}: "
                    "use another store, or rename the dataset."
                )
            for cell in cells:
                self._replace_versions(cell)
                self.add_cell({"id": cell.id, **cell.columns, "code": cell.code})
            if damaged := [(row["cell"], row["run"]) for row in self.damaged()]:
                warnings.warn(f"{self.path}: removing {len(damaged)} damaged runs", stacklevel=3)
                connection.executemany("DELETE FROM runs WHERE cell = ? AND run = ?", damaged)

    def _add_datasets(self, rows: list[tuple[Any, ...]]) -> list[str]:
        """Enter datasets; returns the names of those that are there with other data."""
        query = "INSERT OR IGNORE INTO datasets VALUES (?, ?, ?, ?)"
        self.connection.executemany(query, rows)
        known = {row["name"]: row["digest"] for row in self.rows("SELECT * FROM datasets")}
        return [name for name, digest, *_ in rows if known[name] != digest]

    def _replace_versions(self, cell: Cell) -> None:
        """Hide the runs of other versions of a user's pooling."""
        where = "WHERE dataset = ? AND config = ? AND id != ? AND current"
        values = (cell.dataset.name, cell.config, cell.id)
        query = f"SELECT run FROM runs WHERE cell IN (SELECT id FROM cells {where})"
        runs = len(self.rows(query, *values))
        self.rows(f"UPDATE cells SET current = 0 {where}", *values)
        self.rows("UPDATE cells SET current = 1 WHERE id = ?", cell.id)
        if runs:
            warnings.warn(
                f"the file of {cell.architecture.pool} has changed since {self.path} got {runs} "
                "runs of it: these are hidden, and the new version is trained.",
                stacklevel=4,
            )

    def add_cell(self, values: Row) -> None:
        """Enter a cell; the columns of one that is there are set again, should they be damaged."""
        again = ", ".join(f'"{name}" = excluded."{name}"' for name in CELL)
        self._insert("cells", CELL, values, f"(id) DO UPDATE SET {again}")

    def add_run(self, values: Row) -> None:
        """Enter a run with its checksum, unless it is there."""
        typed = {
            c.name: None if values[c.name] is None else TYPES[c.sql](values[c.name]) for c in OF_RUN
        }
        (cell,) = self.rows("SELECT * FROM cells WHERE id = ?", values["cell"])
        row = {**dict(cell), **typed, "cell": values["cell"]}
        self._insert("runs", RUN, {**row, "checksum": checksum(row)}, "DO NOTHING")

    def _insert(self, table: str, names: Sequence[str], values: Row, known: str) -> None:
        """Enter a row; ``known`` is what to do if it is there."""
        columns = ", ".join(f'"{name}"' for name in names)  # in quotes: COMMIT is a word of SQL
        marks = ", ".join("?" * len(names))
        query = f"INSERT INTO {table} ({columns}) VALUES ({marks}) ON CONFLICT {known}"
        self.rows(query, *(values[name] for name in names))

    def runs(self) -> list[Row]:
        """Every run with the columns of its cell; an error if one of them is damaged."""
        if damaged := self.damaged():
            raise StoreError(
                f"{self.path} is damaged: {len(damaged)} of its runs are not as they were stored "
                f"(lcpool bench check {self.path}). lcpool bench trains them again."
            )
        return [row for row in self._joined() if row["current"]]

    def damaged(self) -> list[Row]:
        """The runs that do not match their checksum, have lost their cell, or are hidden wrongly.

        Of all versions of a cell exactly one is current; no checksum has this flag, which changes.
        """
        query = "SELECT dataset, config, sum(current) FROM cells GROUP BY dataset, config"
        current = {(dataset, config): count for dataset, config, count in self.rows(query)}
        return [
            row
            for row in self._joined()
            if row["checksum"] != checksum(row) or current[row["dataset"], row["config"]] != 1
        ]

    def _joined(self) -> list[Row]:
        tables = {**dict.fromkeys(RUN, "runs"), **dict.fromkeys(CELL, "cells"), "current": "cells"}
        names = ", ".join(f'{table}."{name}"' for name, table in tables.items())
        order = ", ".join(f"{tables[name]}.{name}" for name in KEY)
        query = f"SELECT {names} FROM runs LEFT JOIN cells ON cell = cells.id ORDER BY {order}"
        return [dict(row) for row in self.rows(query)]

    def is_gone(self) -> bool:
        """Whether the file has been deleted, moved or replaced since it was opened."""
        return _identity(self.place) != self.file

    def rescue(self) -> Path:
        """Copy everything, after the file has gone, to a new file in the same folder."""
        names = (f"{self.place.stem}.rescued{n or ''}.sqlite" for n in itertools.count())
        places = (self.place.with_name(name) for name in names)
        copy = next(place for place in places if not place.exists())
        with self.clear_errors():
            copy.parent.mkdir(parents=True, exist_ok=True)
            self.connection.execute("VACUUM INTO ?", (str(copy),))
        with Store(copy) as store:
            store.use_log()
        return copy

    def missing(self, jobs: Iterable[Job]) -> dict[Job, Wanted]:
        """The jobs of which runs are not stored, and these runs."""
        done = {tuple(row) for row in self.rows("SELECT cell, run FROM runs")}
        runs = {job: tuple(w for w in job.wanted if (w[0].id, w[1]) not in done) for job in jobs}
        return {job: missing for job, missing in runs.items() if missing}

    def save(self, rows: Sequence[Row]) -> None:
        """Enter finished runs; a run that is there stays as it is."""
        with self.transaction():
            for row in rows:
                self.add_run(row)

    def plan(self, cells: Iterable[Cell], stack: int | None) -> None:
        """Store how many runs fit as one, so that a continued cell uses the same stacks."""
        values = [(stack, cell.id) for cell in cells]
        with self.transaction() as connection:
            connection.executemany("UPDATE cells SET stack = ? WHERE id = ?", values)

    def fail(self, cells: Iterable[Cell], reason: str, now: float) -> None:
        """Enter a failure of these cells."""
        values = [(cell.id, now, reason) for cell in cells]
        with self.transaction() as connection:
            connection.executemany("INSERT INTO failures VALUES (?, ?, ?)", values)

    def merge(self, path: Path) -> Merged:
        """Add the runs of another store: all of them, or none if there is an error.

        Two runs are the same if their figures are; time and machine may differ.
        """
        merged = Merged()
        with Store(path, readonly=True) as source, self.transaction():
            datasets = source.rows("SELECT * FROM datasets")
            others = self._add_datasets([tuple(row) for row in datasets])
            merged.conflicts += [f"{name}: other data of the same name" for name in others]
            for row in source.runs():
                if row["dataset"] not in others:
                    self._merge_run(row, merged)
        return merged

    def _merge_run(self, row: Row, merged: Merged) -> None:
        names = (row[name] for name in ("dataset", "backbone", "conv", "pool", "split"))
        name = f"{' '.join(names)} run {row['run']}"
        query = "SELECT id FROM cells WHERE dataset = ? AND config = ? AND code != ? AND current"
        found = self.rows("SELECT * FROM runs WHERE cell = ? AND run = ?", row["cell"], row["run"])
        if self.rows(query, row["dataset"], row["config"], row["code"]):
            merged.conflicts.append(f"{name}: another version of the pooling's file")
        elif not found:
            self.add_cell(row)
            self.add_run(row)
            merged.added += 1
        elif differ := differing(found[0], row):
            merged.conflicts.append(f"{name}: other {', '.join(differ)}")
        else:
            merged.same += 1


def differing(one: Row | sqlite3.Row, other: Row) -> list[str]:
    """The figures in which two runs differ."""
    return [name for name in FIGURES if one[name] != other[name]]


def checksum(row: Mapping[str, Any]) -> str:
    """A digest of all columns of a run and of its cell, curves and predictions included."""
    values = [row[name] for name in ("cell", "code", *(column.name for column in COLUMNS))]
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one of the same name; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def pack_curves(curves: Sequence[Sequence[float]]) -> bytes:
    """Curves, one row per epoch, as bytes that keep every bit."""
    return zlib.compress(np.asarray(curves, "<f8").tobytes())


def unpack_curves(content: bytes) -> NDArray[np.float64]:
    """The inverse of :func:`pack_curves`."""
    return np.frombuffer(zlib.decompress(content), "<f8").reshape(-1, 3)


class WorkFolder:
    """The folder ``STORE.work`` beside a store: checkpoints, logs of workers, claims.

    An interrupted training continues from the checkpoints of its first run's cell.
    """

    def __init__(self, store: Path) -> None:
        self.path = store.absolute().with_name(f"{store.name}.work")
        self.checkpoints, self.claims = self.path / "checkpoints", self.path / "claims"

    def has_checkpoint(self, job: Job) -> bool:
        """Whether a training of this job would continue from a checkpoint."""
        return any(any((self.checkpoints / cell.id).glob("*.ckpt")) for cell in job.cells)

    def has_left(self, job: Job) -> bool:
        """Whether there are checkpoints or claims of this job."""
        folders = (self.checkpoints, self.claims)
        return any((folder / cell.id).exists() for cell in job.cells for folder in folders)

    def forget(self, job: Job) -> None:
        """Remove the checkpoints of a finished job, also those of other stacks of its runs."""
        for cell in job.cells:
            shutil.rmtree(self.checkpoints / cell.id, ignore_errors=True)

    def clean_up(self) -> None:
        """Remove the folder, unless a checkpoint is in it."""
        for log in self.path.glob("worker-*.log"):  # of commands that were killed
            if not psutil.pid_exists(int(log.name.split("-")[1])):
                log.unlink(missing_ok=True)
        for empty in (*self.checkpoints.glob("*"), self.checkpoints, self.claims, self.path):
            with contextlib.suppress(OSError):
                empty.rmdir()


def _in_words(error: sqlite3.Error, path: Path) -> str | None:
    """The message for a user; None for errors that are bugs."""
    name: str = getattr(error, "sqlite_errorname", "")
    with contextlib.suppress(OSError):
        # SQLite has several errors for a disk that has no room for a page.
        if name.startswith("SQLITE_IOERR") and shutil.disk_usage(path.parent).free < 2**16:
            name = "SQLITE_FULL"
    if name == "SQLITE_FULL":
        return (
            f"the disk of {path} is full. What was stored before is safe: "
            "free some space, and the same command continues."
        )
    if name.startswith("SQLITE_IOERR"):
        return (
            f"{path} cannot be written or read ({error}): is the disk full, or gone? What was "
            "stored before is safe; the same command continues."
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return f"{path} cannot be written to: name a store in a folder of your own with --store."
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{path} has been locked by another process for {BUSY_SECONDS:.0f} s; try again."
    if name == "SQLITE_NOTADB":
        return f"{path} is not an lcpool store; it was not changed."
    odd = ("no such table", "unsupported file format")
    if name.startswith("SQLITE_CORRUPT") or any(words in str(error) for words in odd):
        return _damaged(path, str(error))
    return None


def _damaged(path: Path, error: str) -> str:
    return (
        f"{path} is damaged ({' '.join(error.split())}); it was not changed. Move it away and "
        f"start again, or rescue what can be read: sqlite3 {path} .recover | sqlite3 rescued.sqlite"
    )
