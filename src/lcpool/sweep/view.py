"""How a sweep goes on, shown on stderr: a board that lives in a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lcpool.sweep.jobs import AtWork
from lcpool.sweep.run import Sweep, View

# Seconds between two lines where stderr is no terminal, and between two drawings where it is one.
PAUSE, REDRAW = 20.0, 0.5


class LineView:
    """A line for everything that happens, and one every so often with the state of things."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.shown = time.monotonic()

    def say(self, message: str) -> None:
        """Print a line as it is, however long."""
        self.console.print(message, soft_wrap=True, highlight=False, markup=False)

    def show(self, sweep: Sweep) -> None:
        """Print the state if the last time is long ago."""
        if time.monotonic() - self.shown >= PAUSE:
            self.say(summary(sweep))
            self.shown = time.monotonic()


class LiveView:
    """What is at work as a table, redrawn in place under what has happened."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.drawn = 0.0

    def say(self, message: str) -> None:
        """Print a line above the table."""
        self.live.console.print(message, highlight=False, markup=False)

    def show(self, sweep: Sweep) -> None:
        """Draw the table if the last time is long ago."""
        if time.monotonic() - self.drawn >= REDRAW:
            self.live.update(board(sweep), refresh=True)
            self.drawn = time.monotonic()


@contextmanager
def show_sweep() -> Iterator[View]:
    """A view on stderr while inside."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield LineView(console)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveView(live)


def board(sweep: Sweep) -> RenderableType:
    """The jobs at work, the longest left first, and a summary."""
    table = Table("at work", "epoch", "runs", "validation", "time", "left", box=SIMPLE_HEAD)
    for column in table.columns[1:]:
        column.justify = "right"
    for work in sorted(sweep.at_work.values(), key=AtWork.left, reverse=True):
        # Text: a name is no markup
        table.add_row(Text(str(work.job)), *_state(work, bool(sweep.estimate.effects)))
    return Group(table, Text(summary(sweep)))


def summary(sweep: Sweep) -> str:
    """Jobs done, failed and left, runs a minute, and the time left."""
    seconds = time.monotonic() - sweep.started
    parts = [f"{sweep.complete()} of {len(sweep.jobs)} jobs done", f"{len(sweep.at_work)} at work"]
    if failures := sum(sweep.blame.failures.values()):
        parts.append(f"{failures} failures, {len(sweep.aside())} set aside")
    if sweep.runs:
        parts.append(f"{60 * sweep.runs / seconds:.1f} runs a minute")
    parts.append(f"{clock(seconds)} passed")
    if sweep.stopping:
        parts.append(f"{sweep.stopping}: stopping")
    elif sweep.estimate.effects:
        parts.append(f"about {clock(sweep.left())} left")
    elif least := max((work.least() for work in sweep.at_work.values()), default=0.0):
        parts.append(f"at least {clock(least)} left")  # More is known when the first is done.
    return " · ".join(parts)


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    return str(timedelta(seconds=round(seconds)))


def _state(work: AtWork, learnt: bool) -> list[str]:
    """Epoch, runs that go on, accuracy, time passed and left; the least, until jobs are done."""
    passed = clock(time.monotonic() - work.since)
    if work.progress is None:
        return ["–", "–", "–", passed, "–"]
    p, left = work.progress, clock(work.left()) if learnt else f"≥ {clock(work.least())}"
    return [str(p.epoch), f"{p.going}/{p.runs}", f"{100 * p.accuracy:.1f} %", passed, left]
