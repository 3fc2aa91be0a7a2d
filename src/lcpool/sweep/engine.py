"""What an engine is, and the simplest: this process."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

import torch

from lcpool.sweep.events import Event, Task
from lcpool.sweep.work import attempt

Happened = tuple[Task | None, Event]  # None: it concerns no task


class EngineError(RuntimeError):
    """An engine that cannot train anything at all."""


class Engine(Protocol):
    """Trains several tasks at once. The last event of a task is Ended, Stopped or Failed.

    Events of Failed with ``fault`` that come together are tasks that one fault took down.
    """

    @property
    def slots(self) -> int:
        """How many tasks can be trained at once."""

    @property
    def cuda(self) -> bool:
        """Whether GPUs train."""

    @property
    def share(self) -> float:
        """The share of a GPU's memory that each of them has."""

    def submit(self, task: Task) -> None:
        """Begin a task; there must be a free slot."""

    def events(self, timeout: float) -> list[Happened]:
        """What has happened; wait ``timeout`` seconds for something to happen."""

    def stop(self) -> None:
        """Ask all tasks to stop after the epoch they are in."""

    def abandon(self, task: Task) -> None:
        """End a task by force; nothing more is heard of it."""

    def close(self) -> None:
        """End at once, whatever is at work."""


class InlineEngine:
    """Trains one task after the other in this process; each call of events is an epoch."""

    slots = 1
    share = 1.0

    def __init__(self, device: torch.device) -> None:
        self.device, self.cuda = device, device.type == "cuda"
        self.stopping = False
        self.task: Task | None = None
        self.steps: Generator[Event, None, None] | None = None

    def submit(self, task: Task) -> None:
        """Begin a task."""
        self.task, self.steps = task, attempt(task, self.device, lambda: self.stopping)

    def events(self, timeout: float) -> list[Happened]:
        """Train until something happens."""
        event = next(self.steps, None) if self.steps is not None else None
        return [] if event is None or self.task is None else [(self.task, event)]

    def stop(self) -> None:
        """Stop after the epoch."""
        self.stopping = True

    def abandon(self, task: Task) -> None:
        """Leave the task as it is."""
        self.close()

    def close(self) -> None:
        """Leave the task as it is."""
        if self.steps is not None:
            self.steps.close()
