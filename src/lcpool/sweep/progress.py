"""What is shown of a sweep: the jobs being trained, how many are done, and the time left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from lcpool.progress import Board, Display, clock, display
from lcpool.sweep.run import AtWork, Sweep

TITLES = ("training", "epoch", "runs", "validation", "time")


class SweepProgress:
    """Shows a sweep on a display."""

    def __init__(self, display: Display) -> None:
        self.display, self.say = display, display.say

    def show(self, sweep: Sweep) -> None:
        self.display.show(lambda: board(sweep))


@contextmanager
def show_sweep(shown: bool = True) -> Iterator[SweepProgress]:
    """Show a sweep on stderr while inside, if ``shown``."""
    with display(shown) as on:
        yield SweepProgress(on)


def board(sweep: Sweep) -> Board:
    """A row per job that is being trained, and a summary."""
    return Board(TITLES, [_row(work) for work in sweep.at_work.values()], summary(sweep))


def summary(sweep: Sweep) -> str:
    """Jobs done, failed and left, runs per minute, and the time left."""
    seconds = time.monotonic() - sweep.started
    parts = [f"{sweep.complete()} of {len(sweep.jobs)} jobs done", f"{len(sweep.at_work)} training"]
    if failures := sum(sweep.failures.values()):
        aside = sum(map(sweep.set_aside, sweep.waiting))
        parts.append(f"{failures} failures, {aside} set aside")
    if sweep.runs:
        parts.append(f"{60 * sweep.runs / seconds:.1f} runs per minute")
    parts.append(f"{clock(seconds)} passed")
    if sweep.stopping:
        parts.append(f"{sweep.stopping}: stopping")
    elif left := sweep.seconds_left():
        parts.append(f"about {clock(left)} left")
    return " · ".join(parts)


def _row(work: AtWork) -> tuple[str, ...]:
    passed = clock(time.monotonic() - work.since)
    if (e := work.epoch) is None:
        return str(work.job), "–", "–", "–", passed
    return str(work.job), str(e.epoch), f"{e.going}/{e.runs}", f"{100 * e.accuracy:.1f} %", passed
