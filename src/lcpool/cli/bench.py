"""``lcpool bench``: a whole comparison by one command that can be interrupted at any time."""

from __future__ import annotations

import contextlib
import math
import re
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lcpool.cli.errors import INTERRUPTED, one_line_errors, say

if TYPE_CHECKING:
    from lcpool.sweep.engine import Engine
    from lcpool.sweep.grid import Job
    from lcpool.sweep.run import Outcome
    from lcpool.sweep.store import Store

FAILED, UNFINISHED = 1, 3
STOPPED = "stopped; the same command goes on from here."
UNITS = {"s": 1, "m": 60, "h": 3600}

app = typer.Typer(invoke_without_command=True, add_completion=False)

what = partial(typer.Option, rich_help_panel="What to compare")
how = partial(typer.Option, rich_help_panel="How to train it")
place = partial(typer.Option, rich_help_panel="Where")
instead = partial(typer.Option, rich_help_panel="Instead of training")


@app.callback()
def bench(
    context: typer.Context,
    paper: Annotated[
        bool, what("--paper", help="The paper's grid: 6 datasets, 2 backbones, 2 convolutions.")
    ] = False,
    file: Annotated[Path | None, what(help="A TOML file with one or more grids.")] = None,
    datasets: Annotated[
        list[str] | None,
        what("--datasets", "-d", help="TU names or paths.", show_default="builtin"),
    ] = None,
    pools: Annotated[
        list[str] | None,
        what("--pools", "-p", help="Poolings, your own as module:Class.", show_default="all eight"),
    ] = None,
    backbones: Annotated[
        list[str] | None, what(help="hierarchical, plain.", show_default="hierarchical")
    ] = None,
    convs: Annotated[list[str] | None, what(help="gcn, graphconv.", show_default="gcn")] = None,
    runs: Annotated[int | None, what(help="Runs of each cell.", show_default="10")] = None,
    split: Annotated[
        list[str] | None, what(help="shared, fresh, or both.", show_default="shared")
    ] = None,
    seed: Annotated[
        list[int] | None, what(help="All random choices derive from it.", show_default="0")
    ] = None,
    hidden: Annotated[int | None, how(help="Width.", show_default="128")] = None,
    epochs: Annotated[int | None, how(help="The most epochs.", show_default="500")] = None,
    stack: Annotated[
        int | None, how(help="The most runs to train as one.", show_default="as many as fit")
    ] = None,
    time_limit: Annotated[
        str | None, how(help="Stop cleanly before so long has passed, as 9m, 45s or 1.5h.")
    ] = None,
    store: Annotated[Path, place(help="The file that keeps the runs.")] = Path("bench.sqlite"),
    device: Annotated[
        str | None,
        place(help="cpu, cuda (all there are) or cuda:N.", show_default="GPUs if there are any"),
    ] = None,
    workers: Annotated[
        int | None, place(help="Processes on this machine.", show_default="as many as pay")
    ] = None,
    engine: Annotated[
        str, place(help="local: processes on this machine; ray: a cluster.")
    ] = "local",
    address: Annotated[str | None, place(help="Of the Ray cluster, as ray.init takes it.")] = None,
    cpus: Annotated[float, place(help="CPUs of a job on the cluster.")] = 1,
    gpus: Annotated[float, place(help="GPUs, or a share of one, of a job on the cluster.")] = 0,
    root: Annotated[
        Path | None, place(help="Folder to look for datasets in, and to download to.")
    ] = None,
    dry_run: Annotated[
        bool, instead("--dry-run", help="Print the jobs, and what is missing of each.")
    ] = False,
    replay: Annotated[
        str | None,
        instead(metavar="NAMES/RUN", help="Train a stored run again, as PROTEINS/lcpool/3."),
    ] = None,
) -> None:
    """Compare poolings: every dataset, backbone, convolution and pooling, several runs of each.

    Lists are written with commas, or by repeating the option. What the store has is not trained
    again; what was interrupted goes on. Several commands can share one store.
    """
    if context.invoked_subcommand is not None:
        return
    began = time.monotonic()  # Importing and reading data count in the time limit.
    with one_line_errors(STOPPED):
        sys.path.append("")  # The current folder, which a console script leaves out.
        if replay is not None:
            raise typer.Exit(_replay(store, replay, device))
        settings = {
            "datasets": _list(datasets), "pools": _list(pools), "backbones": _list(backbones),
            "convs": _list(convs), "runs": runs, "splits": _splits(split), "seeds": seed,
            "hidden": hidden, "epochs": epochs,
        }  # fmt: skip
        jobs, limit = _jobs(paper, file, settings, root), _seconds(time_limit)
        if dry_run:
            _print_jobs(jobs, store)
            return
        from lcpool.sweep.store import Store

        with Store(store) as opened, _terminated_like_interrupted():
            opened.add(jobs)
            if engine == "ray":
                chosen = _ray(address, cpus, gpus)
            else:
                chosen = _local(engine, device, workers, opened, len(jobs))
            code = _sweep(jobs, opened, chosen, stack, limit - (time.monotonic() - began))
    raise typer.Exit(code)


@app.command()
def merge(
    into: Annotated[Path, typer.Argument(help="The store to add to; made if it is not there.")],
    sources: Annotated[list[Path], typer.Argument(help="Stores to add.")],
) -> None:
    """Add the runs of other stores to one. What is there already stays."""
    with one_line_errors("stopped; nothing was changed."):
        from lcpool.sweep.merge import merge as merge_stores
        from lcpool.sweep.store import Store

        conflicts = 0
        with Store(into) as store:
            for path in sources:
                merged = merge_stores(store, path)
                typer.echo(
                    f"{path}: {merged.added} runs added, {merged.same} were there already, "
                    f"{len(merged.conflicts)} conflicts"
                )
                for conflict in merged.conflicts:
                    typer.echo(f"  left as it is: {conflict}")
                conflicts += len(merged.conflicts)
    raise typer.Exit(FAILED if conflicts else 0)


@app.command()
def export(
    store: Annotated[Path, typer.Argument(help="A store.")],
    to: Annotated[Path, typer.Argument(help="A CSV file, or a folder for runs.csv.")],
    split: Annotated[str | None, typer.Option(help="Only shared, or only fresh.")] = None,
) -> None:
    """Write the runs as CSV, and their learning curves beside it as .npz."""
    with one_line_errors("stopped."):
        from lcpool.sweep.results import Results

        results = Results.read(store)
        if split is not None:
            results = results.where(split=split)
        path = results.write(to)
        typer.echo(f"{len(results.runs)} runs are in {path}")


def _jobs(paper: bool, file: Path | None, settings: dict[str, Any], root: Path | None) -> list[Job]:
    """The jobs that the options ask for: a file's, or the paper's, or what they say."""
    from lcpool.cli.train import _check_own_pooling
    from lcpool.sweep.grid import Grid, make_jobs, read_grids

    said = {name: value for name, value in settings.items() if value is not None}
    if paper and file is not None:
        raise ValueError("--paper and --file both say what to compare; leave one out.")
    grids = [Grid.of(**{**(Grid.paper() if paper else {}), **said})] if file is None else []
    if file is not None:
        grids = read_grids(file, said)
    with contextlib.redirect_stdout(sys.stderr):  # A pooling of the user's own may print.
        for grid in grids:
            for pool in filter(lambda pool: ":" in pool, grid.pools):
                _check_own_pooling(pool, grid.hidden, grid.ratio)
        return make_jobs(grids, root)


def _ray(address: str | None, cpus: float, gpus: float) -> Engine:
    from lcpool.sweep.ray import RayEngine

    return RayEngine(address, cpus, gpus)


def _local(kind: str, device: str | None, workers: int | None, store: Store, jobs: int) -> Engine:
    from lcpool.cli.train import _check_device
    from lcpool.sweep.local import LocalEngine, devices
    from lcpool.sweep.run import work_folder

    if kind != "local":
        raise ValueError(f"unknown engine '{kind}': choose local or ray.")
    if workers is not None and workers < 1:
        raise ValueError(f"--workers must be at least 1, not {workers}.")
    if device is not None:
        _check_device(device)
    return LocalEngine(devices(device), workers, work_folder(store.path), jobs)


def _sweep(jobs: list[Job], store: Store, engine: Engine, stack: int | None, limit: float) -> int:
    """Work the jobs off and say what came of it; the exit status."""
    from lcpool.sweep.engine import EngineError
    from lcpool.sweep.run import Sweep
    from lcpool.sweep.view import show_sweep

    try:
        with show_sweep() as view:
            outcome = Sweep(jobs, store, engine, view, stack, limit).run()
    except EngineError as error:
        say(f"{error} What was finished is in {store.path}.")
        return FAILED
    return _conclude(outcome, len(jobs), store)


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """A batch system that wants the machine back is as good a reason to stop as Ctrl-C."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _conclude(outcome: Outcome, jobs: int, store: Store) -> int:
    """Say what is there and what is missing; the exit status."""
    from lcpool.sweep.events import in_short

    for job, reason in outcome.failed:
        say(f"set aside: {job}: {in_short(reason)}")
    say(f"{outcome.complete} of {jobs} jobs are complete in {store.path}; {outcome.runs} runs now.")
    if outcome.others:
        say(f"also at work: {'; '.join(outcome.others)}")
    if failed := len(outcome.failed):
        theirs = "its traceback is" if failed == 1 else "their tracebacks are"
        say(
            f"{_count(failed, 'job')} failed; {theirs} in the store's table 'failures'. "
            "The same command tries again."
        )
    if left := len(outcome.left):
        why = outcome.stopped or "trained elsewhere"
        verb = "is" if left == 1 else "are"
        say(f"{_count(left, 'job')} {verb} missing ({why}); the same command goes on.")
    if outcome.stopped == "interrupted":
        return INTERRUPTED
    return FAILED if outcome.failed else UNFINISHED if outcome.left else 0


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _print_jobs(jobs: list[Job], path: Path) -> None:
    """A row for each job: what is to be trained, and how much of it is there."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    from lcpool.sweep.store import Store

    done: set[tuple[str, int]] = set()
    if path.exists():
        with Store(path, readonly=True) as store:
            done = store.done(cell for job in jobs for cell in job.cells)
    special = any(job.cells[0].settings for job in jobs)
    heads = ["dataset", "backbone", "conv", "pool", "split", "runs", "missing"]
    heads[5:5] = ["settings"] if special else []
    table = Table(*(Column(head, overflow="fold") for head in heads), box=SIMPLE_HEAD)
    missing = 0
    for job in jobs:
        left = [n for cell, n in job.wanted if (cell.id, n) not in done]
        missing += len(left)
        splits = "+".join(cell.protocol.split for cell in job.cells)
        first = job.cells[0]
        names = (Text(name) for name in first.names)  # Text: a name is no markup
        settings = [first.settings] if special else []
        table.add_row(*names, splits, *settings, str(len(job.wanted)), str(len(left)))
    console = Console()
    console.print(table)
    total = sum(len(job.wanted) for job in jobs)
    console.print(f"{len(jobs)} jobs, {total} trainings, {missing} missing", highlight=False)


def _replay(path: Path, name: str, device: str | None) -> int:
    """Train a stored run again, and print both."""
    from lcpool.sweep.replay import replay
    from lcpool.sweep.store import Store
    from lcpool.train.api import pick_device

    with Store(path, readonly=True) as store, contextlib.redirect_stdout(sys.stderr):
        found = replay(store, name, pick_device(device))
    for column in ("test_accuracy", "test_accuracy_by_loss", "epoch", "epoch_by_loss", "epochs"):
        typer.echo(f"{column}: stored {found.stored[column]}, now {found.again[column]}")
    same = not found.differ
    typer.echo("the same, curves too" if same else f"not the same: {', '.join(found.differ)}")
    return 0 if same else FAILED


def _list(values: list[str] | None) -> list[str] | None:
    """What was written with commas or by repeating an option, as one list."""
    return (
        None if values is None else [part for value in values for part in value.split(",") if part]
    )


def _splits(values: list[str] | None) -> list[str] | None:
    found = _list(values)
    return ["shared", "fresh"] if found == ["both"] else found


def _seconds(text: str | None) -> float:
    """A length of time as it was written."""
    if text is None:
        return math.inf
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if found is None or float(found[1]) == 0:
        raise ValueError(f"--time-limit {text}: write a time as 45s, 9m or 1.5h.")
    return float(found[1]) * UNITS[found[2] or "s"]
