"""What there is to show of a training: a row for each run, and how long it may still take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean

from lcpool.progress import Board, Display, clock, display
from lcpool.train.loop import Run, Trainer

# Epochs over which the time of an epoch is averaged; runs that end make it shorter.
RECENT = 10
COLUMNS = (
    "run", "epoch", "training\nloss", "validation\nloss", "validation\naccuracy",
    "chosen by\naccuracy", "chosen by\nloss", "",
)  # fmt: skip


class TrainingProgress:
    """Shows a training; to be called after each epoch with the trainer.

    Args:
        display: where it is shown.
        num_runs: the runs of the whole training; it may go through them in several stacks.
    """

    def __init__(self, display: Display, num_runs: int) -> None:
        self.display, self.num_runs = display, num_runs
        self.trainer: Trainer | None = None
        self.runs: dict[int, Run] = {}
        self.durations: tuple[float, ...] = ()
        self.ended: set[int] = set()

    def __call__(self, trainer: Trainer) -> None:
        """Take note of an epoch that has just ended, and show it."""
        if trainer is not self.trainer:
            self._begin(trainer)
        self.durations = (*self.durations, trainer.pace)[-RECENT:]
        self.runs |= {run.number: run for run in trainer.runs}
        self.display.show(self.board)
        for run in trainer.runs:
            if run.number not in self.ended and run.ended(trainer.protocol):
                self.ended.add(run.number)
                self.display.mention(_ending(run))

    def _begin(self, trainer: Trainer) -> None:
        """Another stack, or fewer runs of the same if all of them did not fit in memory."""
        first = trainer.runs[0].number
        self.say_kept(first)
        self.runs = {number: run for number, run in self.runs.items() if number < first}
        if trainer.epoch > 1:
            self.display.say(f"continued after epoch {trainer.epoch - 1}")
        self.trainer, self.durations = trainer, ()

    def say_kept(self, until: int) -> None:
        """Say which runs before ``until`` were not trained now, as their end was in checkpoints."""
        first = max(self.runs, default=-1) + 1
        if first < until:
            runs = f"run {first}" if first == until - 1 else f"runs {first} to {until - 1}"
            self.display.say(f"finished before, and kept: {runs}")

    def epochs_left(self) -> tuple[int, int]:
        """Epochs still to train if no run improves any more, and if all are trained."""
        assert self.trainer is not None
        protocol, stack = self.trainer.protocol, self.trainer.runs
        going = [run for run in stack if not run.ended(protocol)]
        fewest = max((_until_patience_ends(run, self.trainer) for run in going), default=0)
        most = protocol.epochs - self.trainer.epoch if going else 0
        waiting = math.ceil((self.num_runs - 1 - stack[-1].number) / len(stack))
        # Patience cannot end before one epoch was chosen.
        least = min(protocol.patience + 1, protocol.epochs)
        return fewest + waiting * least, most + waiting * protocol.epochs

    def board(self) -> Board:
        """The runs, and a summary."""
        assert self.trainer is not None
        rows = [_cells(run, self.trainer) for run in self.runs.values()]
        return Board(COLUMNS, rows, self.summary(), _means(self.trainer))

    def summary(self) -> str:
        """Epoch, runs that go on, time of an epoch, and how long it may still take."""
        assert self.trainer is not None
        protocol, epoch = self.trainer.protocol, self.trainer.epoch
        ended = sum(run.ended(protocol) for run in self.runs.values())
        going, waiting = len(self.runs) - ended, self.num_runs - 1 - max(self.runs)
        text = f"epoch {epoch}/{protocol.epochs} · {going} of {self.num_runs} runs going"
        if waiting:
            text += f", {waiting} waiting"
        duration, (fewest, most) = fmean(self.durations), self.epochs_left()
        text += f" · {duration:.2f} s an epoch"
        if most:
            text += (
                f" · left: {clock(fewest * duration)} if nothing improves, "
                f"{clock(most * duration)} if all {protocol.epochs} epochs are trained"
            )
        return text


@contextmanager
def show_training(
    shown: bool, num_runs: int, then: Callable[[Trainer], None] | None
) -> Iterator[Callable[[Trainer], None] | None]:
    """What to call after each epoch while inside: shows the training, if asked to, and ``then``."""
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


def _until_patience_ends(run: Run, trainer: Trainer) -> int:
    chosen = max(choice.epoch for choice in run.choices.values())
    last = min(chosen + trainer.protocol.patience, trainer.protocol.epochs)
    return last - run.epochs


def _cells(run: Run, trainer: Trainer) -> tuple[str, ...]:
    train, val, accuracy = run.curves[-1]
    chosen = [str(run.choices[rule].epoch or "–") for rule in ("accuracy", "loss")]
    state = "ended" if run.ended(trainer.protocol) else ""
    if run.diverged is not None:
        state = "diverged"
    return (
        str(run.number), str(run.epochs), f"{train:.4f}", f"{val:.4f}", f"{100 * accuracy:.1f} %",
        *chosen, state,
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
    by_accuracy, by_loss = (run.choices[rule] for rule in ("accuracy", "loss"))
    return (
        f"run {run.number} ended after {run.epochs} epochs; chosen by accuracy: {by_accuracy.epoch}"
        f" ({100 * by_accuracy.accuracy:.1f} %), by loss: {by_loss.epoch} ({by_loss.loss:.4f})"
    )
