"""The sweep of ``lcpool bench``: its jobs, its engine, and its last lines."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from lcpool.cli.errors import FAILED, INTERRUPTED, UNFINISHED, say
from lcpool.cli.own import check_own_class, try_out
from lcpool.progress import clock, display
from lcpool.settings import TaskName, changed
from lcpool.sweep.engine import Engine, in_short
from lcpool.sweep.engines.local import LocalEngine, devices
from lcpool.sweep.grid import Dataset, Grid, Job, make_jobs, over_each_other, read_grids
from lcpool.sweep.replay import replay
from lcpool.sweep.run import Outcome, Sweep
from lcpool.sweep.store import Store, WorkFolder, differing
from lcpool.train.api import with_predefined
from lcpool.train.device import pick_device
from lcpool.words import count


def jobs_of(
    paper: bool,
    file: Path | None,
    settings: dict[str, Any],
    root: Path | None,
    stack: int | None,
    splits: Path | None = None,
    task: TaskName | None = None,
) -> list[Job]:
    """The jobs of a file, of the paper, or of the options alone."""
    if paper and file is not None:
        raise ValueError("give either --paper or --file, not both.")
    if splits is not None:
        named = settings.get("dataset", [])
        if len(named) != 1:
            found = ", ".join(named) or "none"
            raise ValueError(f"--splits-file is about one dataset: name it with -d, not {found}.")
        of_file = Dataset.of(named[0], root, splits=splits, task=task)
        settings = with_predefined({**settings, "dataset": [of_file]})
    if file is not None:
        grids = read_grids(file, settings)
    else:
        grids = [Grid.of(**over_each_other(Grid.paper() if paper else {}, settings))]
    networks = [network for grid in grids for network, _ in grid.configurations()]
    own = {(name, a.hidden, a.ratio): a for a in networks for name in a.own_classes}
    for (name, *_), architecture in own.items():
        try_out(check_own_class, name, architecture)
    return make_jobs(grids, root, stack, task)


def print_jobs(jobs: list[Job], path: Path) -> None:
    """Print what all jobs have in common, and a row per job with its number of missing runs."""
    missing = {job: job.wanted for job in jobs}
    if path.exists():
        with Store(path, readonly=True) as store:
            missing = store.missing(jobs)
    left = [len(missing.get(job, ())) for job in jobs]
    titles = ("dataset", "backbone", "conv", "pool", "settings", "split", "runs")
    rows = [(*job.names, job.label, job.split, str(len(job.wanted))) for job in jobs]
    columns = dict(zip(titles, zip(*rows, strict=True), strict=True))
    same = [name for name, values in columns.items() if name != "pool" and len(set(values)) == 1]
    shared = {name: columns.pop(name)[0] for name in same}
    common = [f"{name} {value}" for name, value in shared.items() if value]
    # Settings that differ from the default, and are the same in all jobs.
    first, *others = (changed(job.cells[0].settings).values() for job in jobs)
    common += [words for words in first if all(words in other for other in others)]
    columns["missing"] = tuple(map(str, left))
    table = Table(*(Column(name, overflow="fold") for name in columns), box=SIMPLE_HEAD)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, row))  # Text: a name is not markup
    console = Console(highlight=False)
    console.print(Text(", ".join(common)))
    console.print(table)
    total = sum(len(job.wanted) for job in jobs)
    console.print(f"{count(len(jobs), 'job')}, {total} trainings, {sum(left)} missing")


def local_engine(
    kind: str, device: str | None, workers: int | None, store: Path, jobs: int
) -> Engine:
    """Check the options of the local engine, and start it."""
    if kind != "local":
        raise ValueError(f"unknown engine '{kind}': choose local or ray.")
    if workers is not None and workers < 1:
        raise ValueError(f"--workers must be at least 1, not {workers}.")
    return LocalEngine(devices(device), workers, WorkFolder(store).path, jobs)


def run_sweep(jobs: list[Job], path: Path, engine: Engine, **options: Any) -> int:
    """Train what a store lacks, with options of :class:`Sweep`; returns the exit status."""
    with terminated_like_interrupted(), contextlib.closing(engine), Store(path) as store:
        store.add(jobs)
        with display() as view:
            outcome = Sweep(jobs, store, engine, view, **options).run()
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
    if outcome.rescued:
        say(
            f"{store} was deleted, moved or replaced while the sweep ran. All runs are in "
            f"{outcome.rescued}: move it back to {store}, and the same command continues."
        )
        return FAILED
    for job, reason in outcome.failed:
        say(f"set aside: {job}: {in_short(reason)}")
    say(
        f"{outcome.complete} of {outcome.jobs} jobs are complete in {store}; "
        f"{count(outcome.runs, 'run')} now, in {clock(outcome.seconds)}."
    )
    if outcome.others:
        say(f"also training: {', '.join(outcome.others)}")
    if outcome.failed:
        say(
            f"{count(len(outcome.failed), 'job')} failed, with tracebacks in the store's table "
            "'failures'. The same command tries again."
        )
    if left := len(outcome.left):
        why = outcome.stopped or "trained elsewhere"
        verb = "is" if left == 1 else "are"
        say(f"{count(left, 'job')} {verb} missing ({why}); the same command continues.")
    if outcome.complete:
        say(f"to see which pooling is best: lcpool report {store}")
    if outcome.stopped == "interrupted":
        return INTERRUPTED
    return FAILED if outcome.failed else UNFINISHED if outcome.left else 0


def print_replay(path: Path, name: str, device: str | None, splits: Path | None = None) -> int:
    """Train a stored run again and print both results; returns the exit status."""
    with Store(path, readonly=True) as store, contextlib.redirect_stdout(sys.stderr):
        stored, again = replay(store, name, pick_device(device), splits)
    shown = f"test_{stored['metric']}"
    for column in (shown, f"{shown}_by_loss", "epoch", "epoch_by_loss", "epochs"):
        typer.echo(f"{column}: stored {stored[column]}, now {again[column]}")
    differ = differing(stored, again)
    typer.echo(f"not the same: {', '.join(differ)}" if differ else "the same, curves too")
    return FAILED if differ else 0
