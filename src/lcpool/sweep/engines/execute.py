"""What a worker of any engine does: train a task and report events and rows."""

from __future__ import annotations

import functools
import json
import math
import os
import platform
import subprocess
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import torch
import torch_geometric

import lcpool
from lcpool.data import GraphSet
from lcpool.models.pooling import OwnPoolingError, own_errors
from lcpool.sweep.engines.task import (
    Begun,
    Ended,
    EpochDone,
    Event,
    Failed,
    Finished,
    Noted,
    Planned,
    Stopped,
    Task,
)
from lcpool.sweep.grid import Cell, Dataset, Wanted
from lcpool.sweep.store import Row, pack
from lcpool.train import Run, Trainer
from lcpool.train.api import pooling_code
from lcpool.train.checkpoint import Checkpoint
from lcpool.train.device import device_name, free_memory, in_stacks, is_fault, stack_size
from lcpool.train.loop import training


def attempt(
    task: Task, device: torch.device, asked_to_stop: Callable[[], bool]
) -> Generator[Event, None, None]:
    """Like :func:`execute`, but an error becomes the last event."""
    yield Begun()
    try:
        with own_errors(task.runs[0][0].architecture.pool):
            yield from execute(task, device, asked_to_stop)
    except Exception as error:
        cause = error.__cause__ if isinstance(error, OwnPoolingError) else error
        failure = Failed(traceback.format_exc(), fault=is_fault(cause))
    else:
        return
    if not failure.fault:
        free_memory(device)
    yield failure


def execute(
    task: Task, device: torch.device, asked_to_stop: Callable[[], bool]
) -> Generator[Event, None, None]:
    """Train the runs of a task, as many as one as fit in memory, and report events."""
    first = task.runs[0][0]
    if pooling_code(first.architecture.pool) != first.code:
        raise ValueError(
            f"the file of {first.architecture.pool} is not the one that the sweep began with"
        )
    graphs = load(first.dataset, device)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        settings = (first.architecture, first.protocol)
        size = stack_size(graphs, *settings, len(task.runs), task.stack, task.share)
    yield from (Noted(str(warning.message)) for warning in said)
    yield Planned(size)

    def train(part: Sequence[tuple[Cell, int]]) -> Generator[Event, None, bool]:
        return CellStack(graphs, tuple(part), task, asked_to_stop).train()

    whole = yield from in_stacks(task.runs, size, train, device, halved=Planned)
    if whole:
        free_memory(device)
    yield Ended() if whole else Stopped()


class CellStack:
    """Runs of a task that are trained as one; their cells differ in split and backbone only."""

    def __init__(
        self, graphs: GraphSet, runs: Wanted, task: Task, asked_to_stop: Callable[[], bool]
    ) -> None:
        self.graphs, self.runs, self.task = graphs, runs, task
        self.asked_to_stop = asked_to_stop
        mates = [[cell.id, number] for cell, number in runs]
        self.mates = json.dumps(mates)
        self.checkpoint = Checkpoint(task.checkpoints, {"sweep": 1, "runs": mates})

    def train(self) -> Generator[Event, None, bool]:
        """Train to the end and report every epoch; False if it was stopped."""
        device, notes = self.graphs.x.device, list[str]()
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        trainer = make_trainer(self.graphs, self.runs)
        for _ in training(
            trainer, self.checkpoint, notes.append, self.asked_to_stop, self.task.deadline
        ):
            yield from (Noted(notes.pop()) for _ in list(notes))
            yield _epoch_done(trainer)
        yield from map(Noted, notes)
        if trainer.tested:
            yield Finished(self._rows(trainer, device))
        return trainer.tested

    def _rows(self, trainer: Trainer, device: torch.device) -> list[Row]:
        epochs = sum(run.epochs for run in trainer.runs)
        peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
        common = {
            "peak_memory": peak,
            "stack": len(trainer.runs),
            "mates": self.mates,
            "device": device_name(device),
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


def make_trainer(graphs: GraphSet, runs: Wanted) -> Trainer:
    """A trainer of these runs, each with the backbone and the split of its cell."""
    first = runs[0][0]
    splits = [cell.protocol.split_of(len(graphs), number) for cell, number in runs]
    backbones = [cell.architecture.backbone for cell, _ in runs]
    numbers = [number for _, number in runs]
    return Trainer(graphs, first.architecture, first.protocol, numbers, splits, backbones)


def _epoch_done(trainer: Trainer) -> EpochDone:
    going = sum(not run.ended(trainer.protocol) for run in trainer.runs)
    accuracy = sum(run.curves[-1][2] for run in trainer.runs) / len(trainer.runs)
    return EpochDone(trainer.epoch, going, len(trainer.runs), accuracy)


def figures(run: Run) -> Row:
    """The results of a run; accuracies in percent, None where no epoch was ever chosen."""
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
    """A dataset on the device, loaded once for all its cells."""
    return dataset.load().to(device)


@functools.cache
def versions() -> dict[str, str]:
    """The versions of the software, and the commit of the sources."""
    return {
        "lcpool": lcpool.__version__,
        "torch": torch.__version__,
        "pyg": torch_geometric.__version__,
        "python": platform.python_version(),
        "commit": commit(),
    }


def commit() -> str:
    """The commit of the sources, with "+" if they were changed since; empty if it is unknown.

    ``LCPOOL_COMMIT`` can name it where the sources have no repository around them.
    """
    if named := os.environ.get("LCPOOL_COMMIT"):
        return named
    folder = Path(lcpool.__file__).parent

    def git(*command: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # not just any repository around it
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
