"""The one way a stack is trained to its end, alone or in a sweep.

It continues from a checkpoint and writes checkpoints, stops when it is asked to or would not end an
epoch in time, tests at the end, and tries again with half the runs where memory does not suffice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch

from lcpool.train.checkpoint import Checkpoint
from lcpool.train.device import free_memory, is_fault, is_out_of_memory
from lcpool.train.loop import Trainer

Wanted = TypeVar("Wanted")
Said = TypeVar("Said", covariant=True)


def training(
    trainer: Trainer,
    checkpoint: Checkpoint,
    note: Callable[[str], None],
    asked_to_stop: Callable[[], bool] = lambda: False,
    deadline: float = math.inf,
) -> Iterator[Trainer]:
    """Train until every run has ended, and test; continue from the checkpoint if there is one.

    Args:
        trainer: what to train.
        checkpoint: where it goes on after an interruption.
        note: told what a user should know. Without room for a checkpoint the training goes on, and
            that is noted once: only an interruption costs more.
        asked_to_stop: whether to stop, asked before each epoch.
        deadline: when to stop, as seconds since 1970. An epoch that would not end in time, if it
            took as long as the one before, is not begun.

    Yields:
        The trainer, after each epoch. In the end it has ``tested``, unless it was stopped: then a
        checkpoint was written.
    """
    state = checkpoint.load(trainer.graphs.x.device)
    if state is not None:
        trainer.load_state(state)
    save = _Saving(trainer, checkpoint, note)
    while not trainer.ended:
        if asked_to_stop() or time.time() + trainer.pace > deadline:
            save(now=True)
            return
        trainer.train_epoch()
        save(now=trainer.ended)
        yield trainer
    trainer.test()


@dataclass
class _Saving:
    """Writes checkpoints, and says once if it cannot."""

    trainer: Trainer
    checkpoint: Checkpoint
    note: Callable[[str], None]
    noted: bool = False

    def __call__(self, now: bool) -> None:
        if self.trainer.epoch == 0:
            return
        try:
            self.checkpoint.save(self.trainer.state, now)
        except (OSError, RuntimeError) as error:  # torch's own writer raises RuntimeError
            if is_out_of_memory(error) or is_fault(error):
                raise
            if not self.noted:
                self.note(f"no checkpoint can be written to {self.checkpoint.path}: {error}")
            self.noted = True


class StackInTraining(Protocol[Said]):
    """Some runs that are trained as one."""

    checkpoint: Checkpoint

    def train(self) -> Generator[Said, None, bool]:
        """Train to the end; False if it was broken off."""


@dataclass(frozen=True)
class Halved:
    """A stack did not fit in memory: from now on so many runs are trained as one."""

    stack: int


def in_stacks(
    wanted: Sequence[Wanted],
    size: int,
    begin: Callable[[Sequence[Wanted]], StackInTraining[Said]],
    device: torch.device,
) -> Generator[Said | Halved, None, bool]:
    """Train runs in stacks of at most ``size``, with half as many where memory does not suffice.

    Args:
        wanted: the runs.
        size: the most to train as one.
        begin: makes a stack of some of them.
        device: what trains.

    Yields:
        What the stacks yield, and :class:`Halved` where one did not fit.

    Returns:
        Whether all came to their end.
    """
    while wanted:
        part = wanted[:size]
        stack = begin(part)
        whole: bool | None
        try:
            whole = yield from stack.train()
        except RuntimeError as error:
            if len(part) == 1 or not is_out_of_memory(error):
                raise
            stack.checkpoint.remove()
            whole = None
        if whole is None:  # Out of the handler, nothing refers to the failed attempt any more.
            size = math.ceil(len(part) / 2)
            del stack
            free_memory(device)
            yield Halved(size)
            continue
        if not whole:
            return False
        wanted = wanted[len(part) :]
    return True
