"""The messages between a sweep and an engine: a task goes out, events come back."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeGuard

from lcpool.sweep.grid import Wanted
from lcpool.sweep.store import Row


@dataclass(frozen=True)
class Task:
    """The missing runs of a job, for one worker to train."""

    runs: Wanted
    checkpoints: Path | None = None  # the folder from which an interrupted training continues
    stack: int | None = None  # the most runs to train as one; by default as many as fit in memory
    share: float = 1.0  # of a GPU's memory
    deadline: float = math.inf  # when to stop, in seconds since 1970


class Begun:
    """A worker has started the task."""


@dataclass(frozen=True)
class Planned:
    """How many runs are trained as one from now on."""

    stack: int


@dataclass(frozen=True)
class EpochDone:
    """An epoch of a stack of runs has ended."""

    epoch: int
    going: int  # runs that continue
    runs: int
    validation: str  # the mean of the metric on the validation graphs, as text


@dataclass(frozen=True)
class Finished:
    """A stack of runs has ended; these are its rows for the store."""

    rows: list[Row]


@dataclass(frozen=True)
class Noted:
    """A message for the user."""

    message: str


class Ended:
    """All runs of the task have ended."""


class Stopped:
    """The task was interrupted, by its deadline or on request."""


@dataclass(frozen=True)
class Failed:
    """The task failed."""

    reason: str  # a traceback, or how its process ended
    fault: bool = False  # whether the GPU faulted, after which the process can compute no more
    counts: bool = True  # whether the task itself may be the cause


Last = Ended | Stopped | Failed
Event = Begun | Planned | EpochDone | Finished | Noted | Last
Happened = tuple[Task | None, Event]  # None: the event concerns no task


class EngineError(RuntimeError):
    """An engine that cannot train anything at all."""


class Engine(Protocol):
    """Trains several tasks at once. The last event of a task is Ended, Stopped or Failed.

    Tasks that one GPU fault took down fail together, with ``fault``, in one call of ``events``.
    """

    slots: int  # how many tasks can be trained at once
    share: float  # of a GPU's memory, for each task

    def submit(self, task: Task) -> None:
        """Begin a task; there must be a free slot."""

    def events(self, timeout: float) -> list[Happened]:
        """Wait up to ``timeout`` seconds for events, and return them."""

    def stop(self) -> None:
        """Ask all tasks to stop after the current epoch."""

    def abandon(self, task: Task) -> None:
        """Kill a task; it sends no more events."""

    def close(self) -> None:
        """End at once, and kill whatever still trains."""


def is_fault(event: Event) -> TypeGuard[Failed]:
    """Whether the GPU has faulted."""
    return isinstance(event, Failed) and event.fault


def in_short(reason: str) -> str:
    """One line of a traceback: its error, or else the last line.

    For an error in a user's pooling: file, line and error there.
    """
    lines = reason.strip().splitlines() or ["no reason given"]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return re.sub(r"^[\w.]+\.OwnCodeError: ", "", (errors or lines)[-1])
