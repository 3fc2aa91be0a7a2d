"""The sweep of ``lcpool bench``: its jobs, its engine, and its last lines."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import typer

from lcpool.cli.checks import check_device, check_own_pooling
from lcpool.cli.errors import FAILED, INTERRUPTED, UNFINISHED, say
from lcpool.progress import clock
from lcpool.sweep.engines.engine import Engine, EngineError
from lcpool.sweep.engines.local import LocalEngine, devices
from lcpool.sweep.engines.task import in_short
from lcpool.sweep.engines.worker import try_out
from lcpool.sweep.grid import Grid, Job, make_jobs, over_each_other, read_grids
from lcpool.sweep.progress import show_sweep
from lcpool.sweep.replay import replay
from lcpool.sweep.run import Outcome, Sweep, counted
from lcpool.sweep.store import Store, WorkFolder
from lcpool.train.device import pick_device


def jobs_of(
    paper: bool,
    file: Path | None,
    settings: dict[str, Any],
    root: Path | None,
    stack: int | None,
) -> list[Job]:
    """The jobs of a file, of the paper, or of the options alone."""
    if paper and file is not None:
        raise ValueError("give either --paper or --file, not both.")
    if file is not None:
        grids = read_grids(file, settings)
    else:
        grids = [Grid.of(**over_each_other(Grid.paper() if paper else {}, settings))]
    networks = [network for grid in grids for network, _ in grid.configurations()]
    own = {(a.pool, a.hidden, a.ratio): None for a in networks if ":" in a.pool}
    for pool, hidden, ratio in own:
        try_out(check_own_pooling, pool, hidden, ratio)
    return make_jobs(grids, root, stack)


def ray_engine(address: str | None, cpus: float, gpus: float) -> Callable[[], Engine]:
    """Connect to a Ray cluster, and return what gives its engine."""
    from lcpool.sweep.engines.ray import RayEngine

    found = RayEngine(address, cpus, gpus)
    return lambda: found


def local_engine(
    kind: str, device: str | None, workers: int | None, store: Path, jobs: int
) -> Callable[[], Engine]:
    """Check the options of the local engine, and return what starts it."""
    if kind != "local":
        raise ValueError(f"unknown engine '{kind}': choose local or ray.")
    if workers is not None and workers < 1:
        raise ValueError(f"--workers must be at least 1, not {workers}.")
    if device is not None:
        check_device(device)
    return partial(LocalEngine, devices(device), workers, WorkFolder(store).path, jobs)


def run_sweep(jobs: list[Job], path: Path, start: Callable[[], Engine], **options: Any) -> int:
    """Train what a store lacks, with options of :class:`Sweep`; returns the exit status."""
    with Store(path) as store, terminated_like_interrupted():
        store.add(jobs)
        try:
            with show_sweep() as view:
                outcome = Sweep(jobs, store, start(), view, **options).run()
        except EngineError as error:
            say(f"{error} The finished runs are in {path}.")
            return FAILED
    return conclude(outcome, path)


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Stop on SIGTERM, which batch systems send, as on Ctrl-C."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def conclude(outcome: Outcome, store: Path) -> int:
    """Print what is there, what is missing and what to do next; returns the exit status."""
    for job, reason in outcome.failed:
        say(f"set aside: {job}: {in_short(reason)}")
    say(
        f"{outcome.complete} of {outcome.jobs} jobs are complete in {store}; "
        f"{counted(outcome.runs, 'run')} now, in {clock(outcome.seconds)}."
    )
    if outcome.others:
        say(f"also training: {', '.join(outcome.others)}")
    if failed := len(outcome.failed):
        theirs = "its traceback is" if failed == 1 else "their tracebacks are"
        say(
            f"{counted(failed, 'job')} failed; {theirs} in the store's table 'failures'. "
            "The same command tries again."
        )
    if left := len(outcome.left):
        why = outcome.stopped or "trained elsewhere"
        verb = "is" if left == 1 else "are"
        say(f"{counted(left, 'job')} {verb} missing ({why}); the same command continues.")
    if outcome.complete:
        say(f"to see which pooling is best: lcpool report {store}")
    if outcome.stopped == "interrupted":
        return INTERRUPTED
    return FAILED if outcome.failed else UNFINISHED if outcome.left else 0


def print_replay(path: Path, name: str, device: str | None) -> int:
    """Train a stored run again and print both results; returns the exit status."""
    if device is not None:
        check_device(device)
    with Store(path, readonly=True) as store, contextlib.redirect_stdout(sys.stderr):
        found = replay(store, name, pick_device(device))
    for column in ("test_accuracy", "test_accuracy_by_loss", "epoch", "epoch_by_loss", "epochs"):
        typer.echo(f"{column}: stored {found.stored[column]}, now {found.again[column]}")
    same = not found.differ
    typer.echo("the same, curves too" if same else f"not the same: {', '.join(found.differ)}")
    return 0 if same else FAILED
