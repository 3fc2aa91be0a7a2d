"""The messages between a sweep and its workers: a task goes out, events come back."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from lcpool.models.pooling import OwnPoolingError
from lcpool.sweep.grid import Wanted
from lcpool.sweep.store import Row

# How a traceback names an error in a user's pooling.
_OWN = f"{OwnPoolingError.__module__}.{OwnPoolingError.__qualname__}"


@dataclass(frozen=True)
class Task:
    """The missing runs of a job, for one worker to train.

    Attributes:
        runs: cells with the numbers of their runs.
        checkpoints: the folder from which an interrupted training of these runs continues.
        stack: the most runs to train as one; None for as many as fit in memory.
        share: the share of a GPU's memory that the worker may use.
        deadline: when to stop, in seconds since 1970.
    """

    runs: Wanted
    checkpoints: Path | None = None
    stack: int | None = None
    share: float = 1.0
    deadline: float = math.inf


@dataclass(frozen=True)
class Begun:
    """A worker has started the task."""


@dataclass(frozen=True)
class Planned:
    """How many runs are trained as one from now on."""

    stack: int


@dataclass(frozen=True)
class EpochDone:
    """An epoch has ended.

    Attributes:
        epoch: its number.
        going: how many runs continue.
        runs: how many runs the stack has.
        accuracy: mean validation accuracy of these runs.
    """

    epoch: int
    going: int
    runs: int
    accuracy: float


@dataclass(frozen=True)
class Finished:
    """A stack of runs has ended; these are its rows for the store."""

    rows: list[Row]


@dataclass(frozen=True)
class Ended:
    """All runs of the task have ended."""


@dataclass(frozen=True)
class Stopped:
    """The task was interrupted, by its deadline or on request."""


@dataclass(frozen=True)
class Failed:
    """The task failed.

    Attributes:
        reason: a traceback, or how its process ended.
        fault: whether the GPU faulted, after which the process can compute no more.
        counts: whether the task itself may be the cause.
    """

    reason: str
    fault: bool = False
    counts: bool = True


@dataclass(frozen=True)
class Noted:
    """A message for the user."""

    message: str


Event = Begun | Planned | EpochDone | Finished | Ended | Stopped | Failed | Noted


def is_fault(event: Event) -> TypeGuard[Failed]:
    """Whether the GPU has faulted."""
    return isinstance(event, Failed) and event.fault


def in_short(reason: str) -> str:
    """One line of a traceback: its error, or else the last line.

    For an error in a user's pooling: file, line and error there.
    """
    lines = reason.strip().splitlines() or ["no reason given"]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return (errors or lines)[-1].removeprefix(f"{_OWN}: ")
