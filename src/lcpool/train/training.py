"""Train a stack to its end, alone or in a sweep.

:func:`training` continues from a checkpoint, writes checkpoints, stops on request or before a
deadline, and tests at the end. :func:`in_stacks` halves a stack that does not fit in memory.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from lcpool.train.checkpoint import Checkpoint
from lcpool.train.device import free_memory, is_out_of_memory
from lcpool.train.loop import Trainer

Item = TypeVar("Item")
Event = TypeVar("Event")


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
        checkpoint: where to continue from after an interruption.
        note: called with messages for the user. If a checkpoint cannot be written, training goes
            on, and a message says so once.
        asked_to_stop: whether to stop, asked before each epoch.
        deadline: when to stop, in seconds since 1970. An epoch that would end later, if it took
            as long as the one before, is not begun.

    Yields:
        The trainer, after each epoch. At the end it has ``tested``, unless it was stopped: then a
        checkpoint was written.
    """
    state = checkpoint.load(trainer.graphs.x.device)
    if state is not None:
        trainer.load_state(state)
    noted = stop = False
    while not trainer.ended:
        stop = asked_to_stop() or time.time() + trainer.pace > deadline
        if not stop:
            trainer.train_epoch()
        try:
            if trainer.epoch:
                checkpoint.save(trainer.state, now=stop or trainer.ended)
        except OSError as error:
            if not noted:
                note(f"no checkpoint can be written to {checkpoint.path}: {error}")
            noted = True
        if stop:
            return
        yield trainer
    trainer.test()


@dataclass(frozen=True)
class Halved:
    """A stack did not fit in memory: from now on ``stack`` runs are trained as one."""

    stack: int


def in_stacks(
    wanted: Sequence[Item],
    size: int,
    train: Callable[[Sequence[Item]], Generator[Event, None, bool]],
    device: torch.device,
) -> Generator[Event | Halved, None, bool]:
    """Train runs in stacks of at most ``size``, half as many where memory does not suffice.

    Args:
        wanted: the runs.
        size: the most to train as one.
        train: trains some runs as one; returns False if it was stopped.
        device: where they are trained.

    Yields:
        What ``train`` yields, and :class:`Halved` where a stack did not fit.

    Returns:
        Whether all runs were trained to their end.
    """
    while wanted:
        part = wanted[:size]
        try:
            if not (yield from train(part)):
                return False
        except RuntimeError as error:
            if len(part) == 1 or not is_out_of_memory(error):
                raise
        else:
            wanted = wanted[len(part) :]
            continue
        # Outside the handler, nothing refers to the failed attempt any more.
        size = math.ceil(len(part) / 2)
        free_memory(device)
        yield Halved(size)
    return True
