"""Progress of a training: a table with a row per run, and the time it may still take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean

from lcpool.progress import Board, Display, clock, display
from lcpool.train.loop import Trainer
from lcpool.train.protocol import RULES
from lcpool.train.result import Run

RUN_COLUMNS = (
    "run", "epoch", "training\nloss", "validation\nloss", "validation\naccuracy",
    "chosen by\naccuracy", "chosen by\nloss", "",
)  # fmt: skip


class TrainingProgress:
    """Shows a training on a display; to be called with the trainer after each epoch.

    Args:
        display: where to show it.
        num_runs: the runs of the whole training, which may be trained in several stacks.
    """

    def __init__(self, display: Display, num_runs: int) -> None:
        self.display, self.num_runs = display, num_runs
        self.trainer: Trainer | None = None
        self.runs: dict[int, Run] = {}
        self.ended: set[int] = set()

    def __call__(self, trainer: Trainer) -> None:
        if trainer is not self.trainer:
            self._begin(trainer)
        self.runs |= {run.number: run for run in trainer.runs}
        self.display.show(lambda: self.board(trainer))
        for run in trainer.runs:
            if run.number not in self.ended and run.ended(trainer.protocol):
                self.ended.add(run.number)
                self.display.mention(_ending(run))

    def _begin(self, trainer: Trainer) -> None:
        """Another stack, or fewer runs of the same one if they did not fit in memory."""
        first = trainer.runs[0].number
        self.say_kept(first)
        self.runs = {number: run for number, run in self.runs.items() if number < first}
        if trainer.epoch > 1:
            self.display.say(f"continued after epoch {trainer.epoch - 1}")
        self.trainer = trainer

    def say_kept(self, until: int) -> None:
        """Name the runs before ``until`` that were complete in checkpoints."""
        first = max(self.runs, default=-1) + 1
        if first < until:
            runs = f"run {first}" if first == until - 1 else f"runs {first} to {until - 1}"
            self.display.say(f"finished before, and kept: {runs}")

    def board(self, trainer: Trainer) -> Board:
        """The table of all runs so far, with a summary."""
        rows = [_cells(run, trainer) for run in self.runs.values()]
        return Board(RUN_COLUMNS, rows, self.summary(trainer), _means(trainer))

    def summary(self, trainer: Trainer) -> str:
        """Epoch, active runs, time per epoch, and the time left."""
        protocol, pace = trainer.protocol, trainer.seconds / trainer.epoch
        going = sum(not run.ended(protocol) for run in self.runs.values())
        waiting = self.num_runs - 1 - max(self.runs)
        fewest, most = epochs_left(trainer, self.num_runs)
        return (
            f"epoch {trainer.epoch}/{protocol.epochs} · {going} of {self.num_runs} runs going"
            + (f", {waiting} waiting" if waiting else "")
            + f" · {pace:.2f} s per epoch"
            + (f" · left: {clock(fewest * pace)} to {clock(most * pace)}" if most else "")
        )


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


@contextmanager
def show_training(
    shown: bool, num_runs: int, then: Callable[[Trainer], None] | None
) -> Iterator[Callable[[Trainer], None] | None]:
    """A callback for after each epoch: shows the training if ``shown``, and calls ``then``."""
    if not shown:
        yield then
        return
    with display(keep=True) as on:
        progress = TrainingProgress(on, num_runs)

        def both(trainer: Trainer) -> None:
            progress(trainer)
            if then is not None:
                then(trainer)

        yield both
        progress.say_kept(num_runs)


def _cells(run: Run, trainer: Trainer) -> tuple[str, ...]:
    train, val, accuracy = run.curves[-1]
    chosen = [str(run.choices[rule].epoch or "–") for rule in RULES]
    state = "ended" if run.ended(trainer.protocol) else ""
    return (
        str(run.number), str(run.epochs), f"{train:.4f}", f"{val:.4f}", f"{100 * accuracy:.1f} %",
        *chosen, state if run.diverged is None else "diverged",
    )  # fmt: skip


def _means(trainer: Trainer) -> str:
    """Means over the runs that trained this epoch."""
    rows = [run.curves[-1] for run in trainer.runs if run.epochs == trainer.epoch]
    train, val, accuracy = (fmean(column) for column in zip(*rows, strict=True))
    return (
        f"training loss {train:.4f}, validation loss {val:.4f}, "
        f"validation accuracy {100 * accuracy:.1f} %"
    )


def _ending(run: Run) -> str:
    if run.diverged is not None:
        return f"run {run.number} diverged in epoch {run.diverged}"
    by_accuracy, by_loss = (run.choices[rule] for rule in RULES)
    return (
        f"run {run.number} ended after {run.epochs} epochs; chosen by accuracy: {by_accuracy.epoch}"
        f" ({100 * by_accuracy.accuracy:.1f} %), by loss: {by_loss.epoch} ({by_loss.loss:.4f})"
    )
