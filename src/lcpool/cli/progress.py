"""How a training goes on, shown on stderr: a table that lives in a terminal, lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from lcpool.train import Run, Trainer

# Seconds between two lines where stderr is no terminal.
PAUSE = 5.0
# Epochs over which the time of an epoch is averaged; runs that end make it shorter.
RECENT = 10


class Progress:
    """What is known of a training after each epoch; call it with the trainer.

    Args:
        num_runs: the runs of the whole training; it may go through them in several stacks.
    """

    def __init__(self, num_runs: int) -> None:
        self.num_runs = num_runs
        self.trainer: Trainer | None = None
        self.runs: dict[int, Run] = {}
        self.durations: tuple[float, ...] = ()
        self.seconds = 0.0

    def __call__(self, trainer: Trainer) -> None:
        """Take note of an epoch that has just ended."""
        # Replaced, not changed: the thread that draws may be reading what was there before.
        if trainer is self.trainer:
            self.durations = (*self.durations, trainer.seconds - self.seconds)[-RECENT:]
        else:
            self.say_kept(trainer.runs[0].number)
            # All that is known of the epochs before a continued one is their sum.
            self.durations = (trainer.seconds / trainer.epoch,)
            if trainer.epoch > 1:
                self.say(f"continued after epoch {trainer.epoch - 1}")
        self.runs = {**self.runs, **{run.number: run for run in trainer.runs}}
        self.trainer, self.seconds = trainer, trainer.seconds

    def say(self, message: str) -> None:
        """Print a line that stays."""

    def say_kept(self, until: int) -> None:
        """Say which runs before ``until`` were not trained now, as their end was in checkpoints."""
        first = max(self.runs, default=-1) + 1
        if first < until:
            runs = f"run {first}" if first == until - 1 else f"runs {first} to {until - 1}"
            self.say(f"finished before, and kept: {runs}")

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
                f" · left: {_clock(fewest * duration)} if nothing improves, "
                f"{_clock(most * duration)} if all {protocol.epochs} epochs are trained"
            )
        return text


class LiveProgress(Progress):
    """A table with a row for each run, redrawn in place."""

    def __init__(self, num_runs: int, console: Console) -> None:
        super().__init__(num_runs)
        self.live = Live(self, console=console)

    def __call__(self, trainer: Trainer) -> None:
        """Take note of an epoch; the first shows the table."""
        super().__call__(trainer)
        # Not before: what is downloaded has a display of its own.
        if not self.live.is_started:
            self.live.start()

    def say(self, message: str) -> None:
        """Print a line above the table."""
        self.live.console.print(message)

    def __rich__(self) -> RenderableType:
        """Drawn a few times a second, however short an epoch is."""
        assert self.trainer is not None
        table = Table(
            "run", "epoch", "training\nloss", "validation\nloss", "validation\naccuracy",
            "chosen by\naccuracy", "chosen by\nloss", "", box=SIMPLE_HEAD,
        )  # fmt: skip
        for column in table.columns[:-1]:
            column.justify = "right"
        for run in self.runs.values():
            table.add_row(*_cells(run, self.trainer))
        return Group(table, self.summary())


class LineProgress(Progress):
    """A line every few seconds with means over the runs that go on, and one for each that ends."""

    def __init__(self, num_runs: int, console: Console) -> None:
        super().__init__(num_runs)
        self.console = console
        self.ended: set[int] = set()
        self.last = -math.inf

    def say(self, message: str) -> None:
        """Print a line as it is, however long."""
        self.console.print(message, soft_wrap=True, highlight=False, markup=False)

    def __call__(self, trainer: Trainer) -> None:
        """Take note of an epoch, and print if it is time to."""
        super().__call__(trainer)
        if time.monotonic() - self.last >= PAUSE:
            self.say(f"{self.summary()} · {_means(trainer)}")
            self.last = time.monotonic()
        for run in trainer.runs:
            if run.number not in self.ended and run.ended(trainer.protocol):
                self.ended.add(run.number)
                self.say(_ending(run))


@contextmanager
def show_progress(num_runs: int) -> Iterator[Progress]:
    """Progress on stderr while inside; to be called after each epoch."""
    console = Console(stderr=True)
    if not console.is_terminal:
        lines = LineProgress(num_runs, console)
        yield lines
        lines.say_kept(num_runs)
        return
    progress = LiveProgress(num_runs, console)
    try:
        yield progress
        progress.say_kept(num_runs)
    finally:
        progress.live.stop()


def _until_patience_ends(run: Run, trainer: Trainer) -> int:
    chosen = max(choice.epoch for choice in run.choices.values())
    last = min(chosen + trainer.protocol.patience, trainer.protocol.epochs)
    return last - run.epochs


def _cells(run: Run, trainer: Trainer) -> list[str]:
    train, val, accuracy = run.curves[-1]
    chosen = [str(run.choices[rule].epoch or "–") for rule in ("accuracy", "loss")]
    state = "[dim]ended[/]" if run.ended(trainer.protocol) else ""
    if run.diverged is not None:
        state = "[red]diverged[/]"
    return [
        str(run.number), str(run.epochs), f"{train:.4f}", f"{val:.4f}", f"{100 * accuracy:.1f} %",
        *chosen, state,
    ]  # fmt: skip


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


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
