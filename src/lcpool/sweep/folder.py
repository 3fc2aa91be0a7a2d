"""The folder beside a store: checkpoints, and what workers print."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import psutil

from lcpool.sweep.grid import Cell, Job


def work_folder(store: Path) -> Path:
    """The folder that belongs to a store."""
    return store.absolute().with_name(f"{store.name}.work")


def checkpoints(store: Path, cell: Cell) -> Path:
    """Where an interrupted training whose first run is of this cell continues from."""
    return work_folder(store) / "checkpoints" / cell.id


def begun(store: Path, job: Job) -> bool:
    """Whether there is something that a training of this job would continue from."""
    return any(any(checkpoints(store, cell).glob("*.ckpt")) for cell in job.cells)


def forget(store: Path, job: Job) -> None:
    """Remove the checkpoints of a job that is done, also of stacks that were cut otherwise."""
    for cell in job.cells:
        shutil.rmtree(checkpoints(store, cell), ignore_errors=True)


def clean_up(store: Path) -> None:
    """Remove the folder, unless there is something in it to continue from."""
    folder = work_folder(store)
    for log in folder.glob("worker-*.log"):  # of commands that were killed
        if not psutil.pid_exists(int(log.name.split("-")[1])):
            log.unlink(missing_ok=True)
    for empty in (*folder.glob("checkpoints/*"), folder / "checkpoints", folder):
        with contextlib.suppress(OSError):
            empty.rmdir()
