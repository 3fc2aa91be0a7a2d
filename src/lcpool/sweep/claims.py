"""Which command trains which cells, so that several commands can share one store."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from lcpool.atomic import lock
from lcpool.sweep.grid import Job, Wanted
from lcpool.sweep.store import Store


class Claims:
    """The cells that this command trains; use it as a context.

    Each is a lock on a file beside the store. The system frees a lock when its process ends,
    however it ends: so other commands see at once, and by no clock, whether it is alive.
    """

    def __init__(self, store: Store) -> None:
        self.store, self.held = store, dict[Path, BinaryIO]()

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_: object) -> None:
        for path in list(self.held):
            self._release(path)

    def claim(self, job: Job) -> Wanted | None:
        """Take a job; returns its missing runs, or None while another command trains it."""
        for path in self._files(job):
            file = _locked(path)
            if file is None:
                self.release(job)
                return None
            self.held[path] = file
        missing = self.store.missing([job]).get(job, ())
        if not missing:
            self.release(job)
        return missing

    def release(self, job: Job) -> None:
        for path in self._files(job):
            self._release(path)

    def others(self, jobs: Iterable[Job]) -> list[str]:
        """The processes of other commands that train some of these jobs."""
        files = {path for job in jobs for path in self._files(job)} - self.held.keys()
        return [f"process {pid}" for pid in sorted(filter(None, set(map(_owner, files))))]

    def _files(self, job: Job) -> list[Path]:
        return [self.store.work.claims / cell.id for cell in job.cells]

    def _release(self, path: Path) -> None:
        if file := self.held.pop(path, None):
            with contextlib.suppress(OSError):  # The folder may be gone, too.
                path.unlink()
            file.close()


def _locked(path: Path) -> BinaryIO | None:
    """The file, opened and locked, with the number of this process; None if another has it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = path.open("ab")
        except FileNotFoundError:  # Another command has just removed the folder.
            continue
        if not _lock(file):
            file.close()
            return None
        if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
            file.truncate(0)
            file.write(str(os.getpid()).encode())
            file.flush()
            return file
        file.close()  # Another command has just released, and removed, this one.


def _owner(path: Path) -> str:
    """The number of the process that has a file locked, if any."""
    try:
        with path.open("rb") as file:
            return "" if _lock(file) else file.read().decode()
    except FileNotFoundError:
        return ""


def _lock(file: BinaryIO) -> bool:
    """Lock a file until it is closed; False if another process has.

    Without locks, on Windows and some network file systems, commands that share a store may train
    the same runs; the first result is stored.
    """
    try:
        lock(file)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True
