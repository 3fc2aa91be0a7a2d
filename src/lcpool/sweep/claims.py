"""Which command trains which cells, so that several commands can share one store."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from lcpool.sweep.grid import Job, Wanted
from lcpool.sweep.store import Store, StoreError


class Owner:
    """A command that works on a store; use it as a context.

    It holds a lock on a file of its own beside the store. The system frees the lock when the
    process ends, however it ends: so others see at once, and by no clock, whether it still lives.
    """

    def __init__(self, store: Store) -> None:
        self.store, self.id = store, uuid.uuid4().hex

    def __enter__(self) -> Owner:
        self.file = _new_file(_lock_file(self.store, self.id))
        with contextlib.suppress(OSError):  # Some network file systems have no locks.
            _lock(self.file.fileno())
        with self.store.transaction() as connection:
            connection.execute("INSERT INTO owners VALUES (?, ?)", (self.id, os.getpid()))
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        # On a full disk the claims stay until another command sees that this one is dead.
        with contextlib.suppress(StoreError), self.store.transaction() as connection:
            _forget(connection, self.store, self.id)

    def claim(self, job: Job) -> Wanted | None:
        """Take a job; returns its missing runs, or None while another command works on it."""
        with self.store.transaction() as connection:
            self._forget_the_dead(connection)
            cells = [cell.id for cell in job.cells]
            marks = ", ".join("?" * len(cells))
            query = f"SELECT owner FROM claims WHERE cell IN ({marks}) AND owner != ?"
            if connection.execute(query, (*cells, self.id)).fetchone() is not None:
                return None
            query = f"SELECT cell, run FROM runs WHERE cell IN ({marks})"
            done = {(row["cell"], row["run"]) for row in connection.execute(query, cells)}
            missing = tuple((cell, n) for cell, n in job.wanted if (cell.id, n) not in done)
            if missing:
                claims = [(cell, self.id) for cell in cells]
                connection.executemany("INSERT OR IGNORE INTO claims VALUES (?, ?)", claims)
            return missing

    def release(self, job: Job) -> None:
        """Give a job back."""
        with self.store.transaction() as connection:
            query = "DELETE FROM claims WHERE cell = ? AND owner = ?"
            connection.executemany(query, [(cell.id, self.id) for cell in job.cells])

    def others(self, jobs: Iterable[Job]) -> list[str]:
        """The processes of other commands that work on these jobs."""
        cells = {cell.id for job in jobs for cell in job.cells}
        query = "SELECT cell, pid FROM claims JOIN owners ON owner = owners.id WHERE owner != ?"
        found = {row["pid"] for row in self.store.rows(query, self.id) if row["cell"] in cells}
        return [f"process {pid}" for pid in sorted(found)]

    def _forget_the_dead(self, connection: sqlite3.Connection) -> None:
        """End the claims of commands that have died."""
        for owner in connection.execute("SELECT id FROM owners").fetchall():
            if owner["id"] != self.id and not _alive(_lock_file(self.store, owner["id"])):
                _forget(connection, self.store, owner["id"])


def _lock_file(store: Store, owner: str) -> Path:
    return store.work.path / f"{owner}.lock"


def _new_file(path: Path) -> BinaryIO:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # Another command has removed the folder.
            return path.open("wb")


def _forget(connection: sqlite3.Connection, store: Store, owner: str) -> None:
    connection.execute("DELETE FROM claims WHERE owner = ?", (owner,))
    connection.execute("DELETE FROM owners WHERE id = ?", (owner,))
    _lock_file(store, owner).unlink(missing_ok=True)


def _alive(path: Path) -> bool:
    """Whether the process that made a lock file still holds it."""
    try:
        if sys.platform == "win32":
            path.unlink()  # not possible while the file is open
        else:
            with path.open("rb") as file:
                _lock(file.fileno())
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _lock(file: int) -> None:
    """Lock an open file; an OSError if another process has."""
    if sys.platform != "win32":  # There, an open file cannot be removed, which is sign enough.
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
