"""What an engine is, and the simplest one: training in this process."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

import torch

from lcpool.sweep.engines.execute import attempt
from lcpool.sweep.engines.task import Event, Task

Happened = tuple[Task | None, Event]  # None: the event concerns no task


class EngineError(RuntimeError):
    """An engine that cannot train anything at all."""


class Engine(Protocol):
    """Trains several tasks at once. The last event of a task is Ended, Stopped or Failed.

    Tasks that one GPU fault took down fail together, with ``fault``, in one call of ``events``.
    """

    @property
    def slots(self) -> int:
        """How many tasks can be trained at once."""

    @property
    def share(self) -> float:
        """The share of a GPU's memory that each task may use."""

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


class InlineEngine:
    """Trains one task after the other in this process; each call of ``events`` is an epoch."""

    slots = 1
    share = 1.0

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stopping = False
        self.task: Task | None = None
        self.steps: Generator[Event, None, None] | None = None

    def submit(self, task: Task) -> None:
        self.task, self.steps = task, attempt(task, self.device, lambda: self.stopping)

    def events(self, timeout: float) -> list[Happened]:
        event = next(self.steps, None) if self.steps is not None else None
        return [] if event is None else [(self.task, event)]

    def stop(self) -> None:
        self.stopping = True

    def abandon(self, task: Task) -> None:
        self.close()

    def close(self) -> None:
        if self.steps is not None:
            self.steps.close()
