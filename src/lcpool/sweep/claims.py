"""Who works on what: claims by which several commands share one store."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

import psutil

from lcpool.sweep.grid import Cell, Job
from lcpool.sweep.store import Store, StoreError

BEAT = 5.0  # Seconds between two signs of life.
DRIFT = 5.0  # Seconds by which the time of a process's start may move when a clock is set.
LEASE = 60.0  # Seconds without one after which an owner is taken for dead.


class Owner:
    """A command at work on a store; use it as a context.

    While it lives it gives a sign of life every few seconds. Its claims end with it, or with its
    death: on this machine that is seen at once, elsewhere when its signs of life cease.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.id = uuid.uuid4().hex
        self._leave = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Owner:
        values = (self.id, _host(), os.getpid(), _born(os.getpid()), time.time())
        with self.store.transaction() as connection:
            connection.execute("INSERT INTO owners VALUES (?, ?, ?, ?, ?)", values)
        self._heart.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave.set()
        self._heart.join()
        # On a full disk the claims stay, and end with this process.
        with contextlib.suppress(StoreError), self.store.transaction() as connection:
            _forget(connection, self.id)

    def _beat(self) -> None:
        query = "UPDATE owners SET beat = ? WHERE id = ?"
        with Store(self.store.path) as store:  # SQLite wants a connection for each thread.
            while not self._leave.wait(BEAT):
                # The one who writes the results reports what is wrong.
                with contextlib.suppress(StoreError), store.transaction() as connection:
                    connection.execute(query, (time.time(), self.id))

    def claim(self, job: Job) -> tuple[tuple[Cell, int], ...] | None:
        """Take a job; what is missing of it, or None while somebody else works on it."""
        with self.store.transaction() as connection:
            bury_the_dead(connection)
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


def bury_the_dead(connection: sqlite3.Connection) -> None:
    """End the claims of owners that are dead."""
    for owner in connection.execute("SELECT * FROM owners").fetchall():
        if _dead(owner):
            _forget(connection, owner["id"])


def others(store: Store, owner: Owner, jobs: Iterable[Job]) -> list[str]:
    """Host and process of those who work on these jobs too."""
    cells = {cell.id for job in jobs for cell in job.cells}
    query = "SELECT cell, host, pid FROM claims JOIN owners ON owner = owners.id WHERE owner != ?"
    found = [row for row in store.rows(query, owner.id) if row["cell"] in cells]
    return sorted({f"{row['host'].split('/')[0]}, process {row['pid']}" for row in found})


def _dead(owner: sqlite3.Row) -> bool:
    if owner["host"] == _host():
        return bool(abs(_born(owner["pid"]) - owner["born"]) > DRIFT)
    return bool(time.time() - owner["beat"] > LEASE)


def _forget(connection: sqlite3.Connection, owner: str) -> None:
    connection.execute("DELETE FROM claims WHERE owner = ?", (owner,))
    connection.execute("DELETE FROM owners WHERE id = ?", (owner,))


def _host() -> str:
    """This machine; in a container, with the name of its own process numbers."""
    space = Path("/proc/self/ns/pid")
    return f"{socket.gethostname()}/{os.readlink(space) if space.is_symlink() else ''}"


def _born(pid: int) -> float:
    """When a process was started, which tells it from a later one of the same number; 0 if dead."""
    try:
        process = psutil.Process(pid)
        return 0.0 if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return 0.0
