"""What goes to a worker, and what it says."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from lcpool.models.pooling import OwnPoolingError
from lcpool.sweep.grid import Cell
from lcpool.sweep.store import Row

# How a traceback names an error in a pooling of the user's own.
_OWN = f"{OwnPoolingError.__module__}.{OwnPoolingError.__qualname__}"


@dataclass(frozen=True)
class Task:
    """What is missing of a job, for a worker to train.

    Attributes:
        runs: cells with the numbers of their runs.
        checkpoints: the folder for what an interrupted training of these runs continues from.
        stack: the most runs to train as one; what fits, if None.
        share: the share of a GPU that belongs to the worker.
        deadline: when to stop, as seconds since the epoch.
    """

    runs: tuple[tuple[Cell, int], ...]
    checkpoints: Path | None = None
    stack: int | None = None
    share: float = 1.0
    deadline: float = math.inf


@dataclass(frozen=True)
class Begun:
    """A worker has taken the task up."""


@dataclass(frozen=True)
class Planned:
    """So many runs are trained as one."""

    stack: int


@dataclass(frozen=True)
class Progress:
    """An epoch has ended.

    Attributes:
        epoch: its number.
        going: runs that go on.
        runs: runs of the stack.
        pace: seconds of this epoch.
        accuracy: mean validation accuracy of the stack's runs.
        left: epochs until the last run ends, if none improves.
    """

    epoch: int
    going: int
    runs: int
    pace: float
    accuracy: float
    left: int


@dataclass(frozen=True)
class Finished:
    """Some runs have ended."""

    rows: list[Row]


@dataclass(frozen=True)
class Ended:
    """The task is done."""


@dataclass(frozen=True)
class Stopped:
    """The task was broken off because of its deadline, or because it was asked for."""


@dataclass(frozen=True)
class Failed:
    """The task came to nothing.

    Attributes:
        reason: a traceback, or what is known of the end of a process.
        fault: whether the GPU faulted, so that the process can compute no more.
        counts: whether the task itself may be the cause.
    """

    reason: str
    fault: bool = False
    counts: bool = True

    @property
    def last_line(self) -> str:
        """The reason in short."""
        return in_short(self.reason)


def in_short(reason: str) -> str:
    """The error of a traceback, also where its message has many lines, or else the last line.

    Of an error in a pooling of the user's own: file, line, and what went wrong there.
    """
    lines = reason.strip().splitlines() or ["no reason given"]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return (errors or lines)[-1].removeprefix(f"{_OWN}: ")


@dataclass(frozen=True)
class Noted:
    """Something a user should know."""

    message: str


Event = Begun | Planned | Progress | Finished | Ended | Stopped | Failed | Noted


def is_fault(event: Event) -> TypeGuard[Failed]:
    """Whether the GPU has faulted."""
    return isinstance(event, Failed) and event.fault
