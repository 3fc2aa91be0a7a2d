"""What there is to show of a sweep: the jobs at work, how many are done, and the time left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from lcpool.progress import Board, Display, clock, display
from lcpool.sweep.jobs import AtWork
from lcpool.sweep.run import Sweep

COLUMNS = ("at work", "epoch", "runs", "validation", "time", "left")


class SweepProgress:
    """Shows a sweep on a display."""

    def __init__(self, display: Display) -> None:
        self.display = display

    def say(self, message: str) -> None:
        """A line that stays."""
        self.display.say(message)

    def show(self, sweep: Sweep) -> None:
        """The state of things."""
        self.display.show(lambda: board(sweep))


@contextmanager
def show_sweep(shown: bool = True) -> Iterator[SweepProgress]:
    """Show a sweep on stderr while inside, or nothing."""
    with display(shown) as on:
        yield SweepProgress(on)


def board(sweep: Sweep) -> Board:
    """The jobs at work, the longest left first, and a summary."""
    working = sorted(sweep.at_work.values(), key=AtWork.left, reverse=True)
    learnt = bool(sweep.estimate.effects)
    rows = [(str(work.job), *_state(work, learnt)) for work in working]
    return Board(COLUMNS, rows, summary(sweep))


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


def _state(work: AtWork, learnt: bool) -> tuple[str, ...]:
    """Epoch, runs that go on, accuracy, time passed and left; the least, until jobs are done."""
    passed = clock(time.monotonic() - work.since)
    if work.progress is None:
        return ("–", "–", "–", passed, "–")
    p, left = work.progress, clock(work.left()) if learnt else f"≥ {clock(work.least())}"
    return (str(p.epoch), f"{p.going}/{p.runs}", f"{100 * p.accuracy:.1f} %", passed, left)
