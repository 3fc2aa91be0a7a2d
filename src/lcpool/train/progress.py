"""Progress of a training: a table with a row per run, and the time it may still take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean

from lcpool.progress import Board, Display, clock, display
from lcpool.train.loop import Trainer
from lcpool.train.metrics import METRICS, Metric
from lcpool.train.result import Run

OnEpoch = Callable[[Trainer], None]


@contextmanager
def show_training(
    shown: bool, num_runs: int, then: OnEpoch | None, begins: str
) -> Iterator[OnEpoch]:
    """A callback for after each epoch: shows the training if ``shown``, and calls ``then``.

    ``begins`` is shown at once, since a first epoch may take long.
    """
    with display(shown, keep=True) as on:
        on.say(begins)
        progress = TrainingProgress(on, num_runs, then)
        yield progress
        progress.say_kept(num_runs)


class TrainingProgress:
    """Shows a training of ``num_runs`` runs, in several stacks or one; called after each epoch."""

    def __init__(self, display: Display, num_runs: int, then: OnEpoch | None = None) -> None:
        self.display, self.num_runs, self.then = display, num_runs, then
        # Of the current stack; not its trainer, whose memory must be free where it did not fit.
        self.current: list[Run] = []
        self.runs: list[Run] = []

    def __call__(self, trainer: Trainer) -> None:
        first = trainer.runs[0].number
        if trainer.runs is not self.current:
            self.current = trainer.runs
            self.say_kept(first)
            if trainer.epoch > 1:
                self.display.say(f"continued after epoch {trainer.epoch - 1}")
        # A stack that did not fit in memory is followed by a part of its runs.
        self.runs = [*(run for run in self.runs if run.number < first), *trainer.runs]
        self.display.show(lambda: self.board(trainer))
        for run in trainer.runs:
            if run.epochs == trainer.epoch and run.ended(trainer.protocol):
                self.display.mention(_ending(run))
        if self.then is not None:
            self.then(trainer)

    def say_kept(self, until: int) -> None:
        """Name the runs before ``until`` that were complete in checkpoints."""
        first = self.runs[-1].number + 1 if self.runs else 0
        if first < until:
            runs = f"run {first}" if first == until - 1 else f"runs {first} to {until - 1}"
            self.display.say(f"finished before, and kept: {runs}")

    def board(self, trainer: Trainer) -> Board:
        """The table of all runs so far, with epoch, active runs, time per epoch and time left."""
        protocol, pace = trainer.protocol, trainer.seconds / trainer.epoch
        going = sum(not run.ended(protocol) for run in self.runs)
        waiting = self.num_runs - 1 - self.runs[-1].number
        fewest, most = epochs_left(trainer, self.num_runs)
        left = dict.fromkeys((clock(fewest * pace), clock(most * pace)))  # once where they agree
        summary = (
            f"epoch {trainer.epoch}/{protocol.epochs} · {going} of {self.num_runs} runs going"
            + (f", {waiting} waiting" if waiting else "")
            + f" · {pace:.2f} s per epoch"
            + (f" · left: {' to '.join(left)}" if most else "")
        )
        now = [run.curves[-1] for run in trainer.runs if run.epochs == trainer.epoch]
        train, val, value = (fmean(column) for column in zip(*now, strict=True))
        means = (
            f"training loss {train:.4f}, validation loss {val:.4f}, "
            f"validation {trainer.metric.title} {trainer.metric.short(value)}"
        )
        return Board(
            run_columns(trainer.metric), [_cells(run, trainer) for run in self.runs], summary, means
        )


def run_columns(metric: Metric) -> tuple[str, ...]:
    """The titles of the table of runs."""
    return (
        "run", "epoch", "training\nloss", "validation\nloss", f"validation\n{metric.title}",
        f"chosen by\n{metric.title}", "chosen by\nloss", "",
    )  # fmt: skip


def epochs_left(trainer: Trainer, num_runs: int) -> tuple[int, int]:
    """Epochs still to train if no run improves any more, and if all epochs are trained."""
    protocol = trainer.protocol
    going = [run for run in trainer.runs if not run.ended(protocol)]
    chosen = [max(choice.epoch for choice in run.choices.values()) for run in going]
    last = min(max(chosen, default=0) + protocol.patience, protocol.epochs)
    fewest, most = (last - trainer.epoch, protocol.epochs - trainer.epoch) if going else (0, 0)
    stacks = math.ceil((num_runs - 1 - trainer.runs[-1].number) / len(trainer.runs))
    # Patience cannot run out before one epoch was chosen.
    least = min(protocol.patience + 1, protocol.epochs)
    return fewest + stacks * least, most + stacks * protocol.epochs


def _cells(run: Run, trainer: Trainer) -> tuple[str, ...]:
    train, val, value = run.curves[-1]
    chosen = [str(choice.epoch or "–") for choice in run.choices.values()]
    state = "ended" if run.ended(trainer.protocol) else ""
    return (
        str(run.number), str(run.epochs), f"{train:.4f}", f"{val:.4f}",
        trainer.metric.short(value), *chosen, state if run.diverged is None else "diverged",
    )  # fmt: skip


def _ending(run: Run) -> str:
    if run.diverged is not None:
        return f"run {run.number} diverged in epoch {run.diverged}"
    metric = METRICS[run.metric]
    by_metric, by_loss = run.choices.values()
    return (
        f"run {run.number} ended after {run.epochs} epochs; chosen by {metric.title}: "
        f"{by_metric.epoch} ({metric.short(by_metric.value)}), by loss: {by_loss.epoch} "
        f"({by_loss.loss:.4f})"
    )
