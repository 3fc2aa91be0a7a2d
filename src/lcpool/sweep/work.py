"""One job, trained: what a worker does, whatever engine it belongs to."""

from __future__ import annotations

import functools
import json
import math
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence

import torch

from lcpool.data import GraphSet
from lcpool.models.pooling import OwnPoolingError, own_errors
from lcpool.sweep.circumstances import PeakMemory, versions
from lcpool.sweep.events import (
    Begun,
    Ended,
    Event,
    Failed,
    Finished,
    Noted,
    Planned,
    Progress,
    Stopped,
    Task,
)
from lcpool.sweep.grid import Cell, Dataset
from lcpool.sweep.store import Row, pack
from lcpool.train import Run, Trainer
from lcpool.train.api import pooling_code
from lcpool.train.checkpoint import Checkpoint
from lcpool.train.device import device_name, free_memory, is_fault
from lcpool.train.memory import stack_size
from lcpool.train.training import Halved, in_stacks, training


def attempt(
    task: Task, device: torch.device, asked_to_stop: Callable[[], bool]
) -> Generator[Event, None, None]:
    """As :func:`work`, with whatever goes wrong as the last event."""
    yield Begun()
    try:
        with own_errors(task.runs[0][0].architecture.pool):
            yield from work(task, device, asked_to_stop)
    except Exception as error:
        cause = error.__cause__ if isinstance(error, OwnPoolingError) else error
        failure = Failed(traceback.format_exc(), fault=is_fault(cause))
    else:
        return
    if not failure.fault:
        free_memory(device)
    yield failure


def work(
    task: Task, device: torch.device, asked_to_stop: Callable[[], bool]
) -> Generator[Event, None, None]:
    """Train what a task asks for, as many runs as one as fit, and say what happens."""
    (first, _), *_ = task.runs
    graphs = load(first.dataset, device)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        settings = (first.architecture, first.protocol)
        size = stack_size(graphs, *settings, len(task.runs), task.stack, task.share)
    yield from (Noted(str(warning.message)) for warning in said)
    yield Planned(size)

    def train(part: Sequence[tuple[Cell, int]]) -> Generator[Event, None, bool]:
        return Stack(graphs, tuple(part), task, asked_to_stop).train()

    stacks = in_stacks(task.runs, size, train, device)
    whole = yield from _with_plans(stacks)
    if whole:
        free_memory(device)
    yield Ended() if whole else Stopped()


def _with_plans(
    stacks: Generator[Event | Halved, None, bool],
) -> Generator[Event, None, bool]:
    """What stacks say, and a new plan where one of them did not fit in memory."""
    while True:
        try:
            said = next(stacks)
        except StopIteration as end:
            return bool(end.value)
        yield Planned(said.stack) if isinstance(said, Halved) else said


class Stack:
    """Runs that go through the network together.

    Args:
        graphs: the data.
        runs: cells, alike in all but split and backbone, with the numbers of their runs.
        task: what the runs belong to.
        asked_to_stop: whether to stop after the epoch.
    """

    def __init__(
        self,
        graphs: GraphSet,
        runs: tuple[tuple[Cell, int], ...],
        task: Task,
        asked_to_stop: Callable[[], bool],
    ) -> None:
        self.graphs, self.runs, self.task = graphs, runs, task
        self.asked_to_stop = asked_to_stop
        mates = [[cell.id, number] for cell, number in runs]
        self.mates = json.dumps(mates)
        code = pooling_code(runs[0][0].architecture.pool)
        identity = {"sweep": 1, "runs": mates, "code": code}
        self.checkpoint = Checkpoint(task.checkpoints, identity)

    def train(self) -> Generator[Event, None, bool]:
        """Train to the end; what happens, epoch by epoch."""
        peak, notes = PeakMemory(self.graphs.x.device), list[str]()
        trainer = make_trainer(self.graphs, self.runs)
        for _ in training(
            trainer, self.checkpoint, notes.append, self.asked_to_stop, self.task.deadline
        ):
            yield from (Noted(notes.pop()) for _ in list(notes))
            yield _progress(trainer)
        yield from map(Noted, notes)
        if trainer.tested:
            yield Finished(self._rows(trainer, peak.bytes()))
        return trainer.tested

    def _rows(self, trainer: Trainer, peak: int | None) -> list[Row]:
        epochs = sum(run.epochs for run in trainer.runs)
        common = {
            "peak_memory": peak,
            "stack": len(trainer.runs),
            "mates": self.mates,
            "device": device_name(self.graphs.x.device),
            "threads": torch.get_num_threads(),
            **versions(),
        }
        return [
            {
                "cell": cell.id,
                **figures(run),
                **{f"num_{part}": len(getattr(split, part)) for part in split._fields},
                # A run's share of the time is its share of the epochs.
                "seconds": trainer.seconds * run.epochs / epochs,
                **common,
            }
            for (cell, _), run, split in zip(self.runs, trainer.runs, trainer.splits, strict=True)
        ]


def make_trainer(graphs: GraphSet, runs: tuple[tuple[Cell, int], ...]) -> Trainer:
    """A trainer of these runs, each with the backbone of its cell and the split it gives it."""
    first = runs[0][0]
    splits = [cell.protocol.split_of(len(graphs), number) for cell, number in runs]
    backbones = [cell.architecture.backbone for cell, _ in runs]
    numbers = [number for _, number in runs]
    return Trainer(graphs, first.architecture, first.protocol, numbers, splits, backbones)


def figures(run: Run) -> Row:
    """What became of a run; accuracies in percent, nothing where no epoch was ever chosen."""
    by_accuracy, by_loss = run.choices["accuracy"], run.choices["loss"]
    chosen = not run.lost

    def if_chosen(value: float) -> float | None:
        return value if chosen and math.isfinite(value) else None

    def if_known(rule: str) -> int | None:
        return int(run.constant[rule]) if chosen and rule in run.constant else None

    return {
        "run": int(run.number),
        "test_accuracy": if_chosen(100 * run.test["accuracy"][0]),
        "test_accuracy_by_loss": if_chosen(100 * run.test["loss"][0]),
        "val_accuracy": if_chosen(100 * by_accuracy.accuracy),
        "val_loss": if_chosen(by_loss.loss),
        "epoch": by_accuracy.epoch if chosen else None,
        "epoch_by_loss": by_loss.epoch if chosen else None,
        "epochs": run.epochs,
        "diverged": run.diverged,
        "largest_class": None if math.isnan(run.largest_class) else 100 * run.largest_class,
        "constant": if_known("accuracy"),
        "constant_by_loss": if_known("loss"),
        "curves": pack(run.curves),
    }


@functools.lru_cache(maxsize=8)
def load(dataset: Dataset, device: torch.device) -> GraphSet:
    """A dataset on the device; once for all its cells."""
    return dataset.load().to(device)


def _progress(trainer: Trainer) -> Progress:
    protocol = trainer.protocol
    going = [run for run in trainer.runs if not run.ended(protocol)]
    chosen = [max(choice.epoch for choice in run.choices.values()) for run in going]
    last = min(max(chosen, default=0) + protocol.patience, protocol.epochs)
    accuracy = sum(run.curves[-1][2] for run in trainer.runs) / len(trainer.runs)
    left = max(0, last - trainer.epoch) if going else 0
    return Progress(trainer.epoch, len(going), len(trainer.runs), trainer.pace, accuracy, left)
