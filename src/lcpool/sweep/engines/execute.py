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
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean

import torch
import torch_geometric

from lcpool import version
from lcpool.data import GraphSet, Split
from lcpool.models.own import OwnCodeError, own_errors
from lcpool.sweep import predictions
from lcpool.sweep.engine import (
    Begun,
    Ended,
    EpochDone,
    Event,
    Failed,
    Finished,
    Happened,
    Noted,
    Planned,
    Stopped,
    Task,
)
from lcpool.sweep.grid import Cell, Dataset
from lcpool.sweep.store import Row, pack_curves
from lcpool.train import Run, Trainer
from lcpool.train.api import own_code
from lcpool.train.checkpoint import Checkpoint
from lcpool.train.device import device_name, free_memory, in_stacks, stack_size
from lcpool.train.faults import is_fault
from lcpool.train.loop import training
from lcpool.train.metrics import METRICS
from lcpool.train.tasks import LOSS


class InlineEngine:
    """Trains one task after the other in this process; each call of ``events`` is an epoch."""

    slots = 1
    share = 1.0

    def __init__(self, device: torch.device) -> None:
        self.device, self.stopping = device, False
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


def attempt(
    task: Task, device: torch.device, asked_to_stop: Callable[[], bool]
) -> Generator[Event, None, None]:
    """Like :func:`execute`, but an error becomes the last event."""
    yield Begun()
    try:
        with own_errors(*task.runs[0][0].architecture.own_classes):
            yield from execute(task, device, asked_to_stop)
    except Exception as error:
        cause = error.__cause__ if isinstance(error, OwnCodeError) else error
        failure = Failed(traceback.format_exc(), fault=is_fault(cause))
    else:
        return
    if not failure.fault:
        with suppress(RuntimeError):  # A fault may show only here; the next job will meet it.
            free_memory(device)
    yield failure


def execute(
    task: Task, device: torch.device, asked_to_stop: Callable[[], bool]
) -> Generator[Event, None, None]:
    """Train the runs of a task, as many as one as fit in memory, and report events."""
    first = task.runs[0][0]
    if own_code(first.architecture) != first.code:
        own = " or ".join(first.architecture.own_classes)
        raise ValueError(f"the file of {own} is not the one that the sweep began with")
    graphs = load(first.dataset, device)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        settings = (first.architecture, first.protocol)
        size = stack_size(graphs, *settings, len(task.runs), task.stack, task.share)
    yield from (Noted(str(warning.message)) for warning in said)
    yield Planned(size)
    splits = {(cell, n): cell.protocol.split_of(graphs, n) for cell, n in task.runs}
    sizes = {run: split.sizes for run, split in splits.items()}
    # Folds differ by a graph: side by side, runs of the same sizes are fewer stacks.
    runs = sorted(task.runs, key=lambda run: list(sizes.values()).index(sizes[run]))
    train = functools.partial(train_stack, task, graphs, splits, asked_to_stop)
    whole = yield from in_stacks(runs, size, train, device, Planned, sizes.__getitem__)
    if whole:
        free_memory(device)
    yield Ended() if whole else Stopped()


def train_stack(
    task: Task,
    graphs: GraphSet,
    splits: Mapping[tuple[Cell, int], Split],
    asked_to_stop: Callable[[], bool],
    runs: Sequence[tuple[Cell, int]],
) -> Generator[Event, None, bool]:
    """Train runs as one, whose cells differ in split and backbone only; False if it was stopped."""
    device, first, notes = graphs.x.device, runs[0][0], list[str]()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    backbones = [cell.architecture.backbone for cell, _ in runs]
    numbers = [number for _, number in runs]
    trainer = Trainer(
        graphs, first.architecture, first.protocol, numbers, [splits[run] for run in runs],
        backbones,
    )  # fmt: skip
    mates = [[cell.id, number] for cell, number in runs]
    checkpoint = Checkpoint(task.checkpoints, {"sweep": 3, "runs": mates})
    for _ in training(trainer, checkpoint, notes.append, asked_to_stop, task.deadline):
        yield from map(Noted, notes)
        notes.clear()
        going = sum(not run.ended(trainer.protocol) for run in trainer.runs)
        value = fmean(run.curves[-1][2] for run in trainer.runs)
        shown = trainer.metric.short(value)
        yield EpochDone(trainer.epoch, going, len(runs), shown)
    yield from map(Noted, notes)
    if trainer.tested:
        yield Finished(rows_of(trainer, [cell for cell, _ in runs], json.dumps(mates)))
    return trainer.tested


def rows_of(trainer: Trainer, cells: Sequence[Cell], mates: str) -> list[Row]:
    """What the store keeps of the runs of a trainer that has tested them."""
    device, epochs = trainer.graphs.x.device, sum(run.epochs for run in trainer.runs)
    common = {
        "peak_memory": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
        "stack": len(trainer.runs),
        "mates": mates,
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        **versions(),
    }
    return [
        {
            "cell": cell.id,
            **figures(run, trainer.task.name),
            **{f"num_{part}": len(getattr(split, part)) for part in split._fields},
            # A run's share of the time is its share of the epochs.
            "seconds": trainer.seconds * run.epochs / epochs,
            **common,
        }
        for cell, run, split in zip(cells, trainer.runs, trainer.splits, strict=True)
    ]


def figures(run: Run, task: str = "classes") -> Row:
    """The results of a run; accuracies in percent, None where no epoch was ever chosen."""
    metric, by_metric, by_loss = METRICS[run.metric], run.choices[run.metric], run.choices[LOSS]
    rules = {"": run.metric, "_by_loss": LOSS}
    chosen = {
        **{
            f"test_{name}{ending}": one.factor * run.measured[rule].get(name, math.nan)
            for name, one in METRICS.items()
            for ending, rule in rules.items()
        },
        "val_accuracy": 100 * by_metric.value if run.metric == "accuracy" else math.nan,
        "val_metric": metric.factor * by_metric.value,
        "val_loss": by_loss.loss,
        "epoch": by_metric.epoch,
        "epoch_by_loss": by_loss.epoch,
        "constant": run.constant.get(run.metric, math.nan),
        "constant_by_loss": run.constant.get(LOSS, math.nan),
    }
    return {
        **{name: _known(value) if not run.lost else None for name, value in chosen.items()},
        "run": int(run.number),
        "epochs": run.epochs,
        "diverged": run.diverged,
        "task": task,
        "metric": run.metric,
        "largest_class": _known(100 * run.largest_class),
        "curves": pack_curves(run.curves),
        "predictions": predictions.pack(predictions.of_run(run)),
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


@functools.lru_cache(maxsize=8)
def load(dataset: Dataset, device: torch.device) -> GraphSet:
    """A dataset on the device, loaded once for all its cells."""
    return dataset.load().to(device)


@functools.cache
def versions() -> dict[str, str]:
    """The versions of the software, and the commit of the sources."""
    return {
        "lcpool": version.__version__,
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
    folder = Path(version.__file__).parent

    def git(*command: str) -> str:
        whole = ["git", "-C", str(folder), *command]
        return subprocess.check_output(whole, text=True, stderr=subprocess.DEVNULL).strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # not just any repository around it
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
