"""One job, trained: what a worker does, whatever engine it belongs to."""

from __future__ import annotations

import functools
import gc
import json
import math
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator

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
from lcpool.train.api import device_name, pooling_code, stack_size, step_memory
from lcpool.train.checkpoint import Checkpoint
from lcpool.train.loop import initial_model

# The share of the GPU's memory that is counted on; the rest is for what cannot be foreseen.
USABLE = 0.8


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
    graphs = load(task.runs[0][0].dataset, device)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        size = fitting_stack(graphs, task)
    yield from (Noted(str(warning.message)) for warning in said)
    yield Planned(size)
    waiting = task.runs
    while waiting:
        part = waiting[:size]
        stack = StackInTraining(graphs, part, task)
        try:
            whole = yield from stack.train(asked_to_stop)
        except RuntimeError as error:
            if len(part) == 1 or not is_out_of_memory(error):
                raise
            size = math.ceil(len(part) / 2)
            stack.checkpoint.remove()
            whole = None
        if whole is None:  # Out of the handler, nothing refers to the failed attempt any more.
            del stack
            free_memory(device)
            yield Planned(size)
            continue
        if not whole:
            yield Stopped()
            return
        waiting = waiting[len(part) :]
    free_memory(device)
    yield Ended()


class StackInTraining:
    """Runs that go through the network together.

    Args:
        graphs: the data.
        runs: cells, alike in all but split and backbone, with the numbers of their runs.
        task: what the runs belong to.
    """

    def __init__(self, graphs: GraphSet, runs: tuple[tuple[Cell, int], ...], task: Task) -> None:
        self.graphs, self.runs, self.task = graphs, runs, task
        mates = [[cell.id, number] for cell, number in runs]
        self.mates = json.dumps(mates)
        code = pooling_code(runs[0][0].architecture.pool)
        identity = {"sweep": 1, "runs": mates, "code": code}
        self.checkpoint = Checkpoint(task.checkpoints, identity)

    def train(self, asked_to_stop: Callable[[], bool]) -> Generator[Event, None, bool]:
        """Train to the end, from the checkpoint if there is one; False if it was broken off."""
        peak = PeakMemory(self.graphs.x.device)
        trainer = make_trainer(self.graphs, self.runs)
        saved = self.checkpoint.load(self.graphs.x.device)
        if saved is not None:
            trainer.load_state(saved)
        pace = 0.0
        while not trainer.ended:
            # An epoch that would not end in time is not begun.
            if asked_to_stop() or time.time() + pace > self.task.deadline:
                yield from self._save(trainer, now=True)
                return False
            before = trainer.seconds
            trainer.train_epoch()
            pace = trainer.seconds - before
            yield from self._save(trainer, now=trainer.ended)
            yield _progress(trainer, pace)
        trainer.test()
        yield Finished(self._rows(trainer, peak.bytes()))
        return True

    def _save(self, trainer: Trainer, now: bool) -> Iterator[Event]:
        """Without room for a checkpoint the training goes on; only an interruption costs more."""
        if trainer.epoch == 0:
            return
        try:
            self.checkpoint.save(trainer.state, now)
        except (OSError, RuntimeError) as error:  # torch's own writer raises RuntimeError
            if is_out_of_memory(error) or is_fault(error):
                raise
            yield Noted(f"no checkpoint can be written to {self.checkpoint.path}: {error}")

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


def fitting_stack(graphs: GraphSet, task: Task) -> int:
    """How many runs to train as one in this worker's share of the memory."""
    cell, count = task.runs[0][0], len(task.runs)
    if task.stack is not None or not graphs.x.is_cuda:
        return stack_size(graphs, cell.architecture, cell.protocol, count, task.stack)
    size = stack_size(graphs, cell.architecture, cell.protocol, count, count)
    if size == 1:
        return 1
    first = initial_model(graphs, cell.architecture, cell.protocol, 0)
    one = step_memory(graphs, first, cell.protocol)
    total = torch.cuda.get_device_properties(graphs.x.device).total_memory
    return max(1, min(size, int(USABLE * task.share * total / max(one, 1))))


@functools.lru_cache(maxsize=8)
def load(dataset: Dataset, device: torch.device) -> GraphSet:
    """A dataset on the device; once for all its cells."""
    return dataset.load().to(device)


def free_memory(device: torch.device) -> None:
    """Give back what a stack has used: other processes share the GPU."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def is_fault(error: BaseException | None) -> bool:
    """Whether the GPU has faulted: nothing can be computed in this process any more."""
    if is_out_of_memory(error) or not isinstance(error, RuntimeError):
        return False
    text = str(error)
    return any(sign in text for sign in ("CUDA error", "CUDA driver error", "CUBLAS_STATUS"))


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether a GPU had no room: torch's own words for it, or those of what torch calls."""
    signs = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory")
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
    )


def _progress(trainer: Trainer, pace: float) -> Progress:
    protocol = trainer.protocol
    going = [run for run in trainer.runs if not run.ended(protocol)]
    chosen = [max(choice.epoch for choice in run.choices.values()) for run in going]
    last = min(max(chosen, default=0) + protocol.patience, protocol.epochs)
    accuracy = sum(run.curves[-1][2] for run in trainer.runs) / len(trainer.runs)
    left = max(0, last - trainer.epoch) if going else 0
    return Progress(trainer.epoch, len(going), len(trainer.runs), pace, accuracy, left)
