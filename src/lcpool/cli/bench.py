"""``lcpool bench``: compare poolings by one command, which can be interrupted at any time."""

from __future__ import annotations

import math
import re
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lcpool.cli.errors import FAILED, one_line_errors
from lcpool.cli.options import TASK, given, setting_options
from lcpool.cli.own import import_from_here
from lcpool.settings import TaskName

STOPPED = "stopped; the same command continues."
UNITS = {"s": 1, "m": 60, "h": 3600}
EXIT_SECONDS = 10.0  # the most time reserved for Python itself to exit


class BenchCommands(TyperGroup):
    """Tells users of ``lcpool train DATASET`` that the dataset is an option here."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            raise typer.BadParameter(
                f"there is no command '{args[0]}'. If it is a dataset, write: "
                f"lcpool bench -d {args[0]}"
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=BenchCommands, invoke_without_command=True, add_completion=False)

what = partial(typer.Option, rich_help_panel="What to compare")
place = partial(typer.Option, rich_help_panel="Where, and how long")
instead = partial(typer.Option, rich_help_panel="Instead of training")


@app.callback()
@setting_options(several=True)
def bench(
    context: typer.Context,
    paper: Annotated[
        bool, what("--paper", help="The paper's 192 cells, on shared splits.")
    ] = False,
    file: Annotated[Path | None, what(help="A TOML file with one or more grids.")] = None,
    datasets: Annotated[
        list[str] | None,
        what("--datasets", "--dataset", "-d", help="TU names or paths.", show_default="builtin"),
    ] = None,
    splits_file: Annotated[
        Path | None,
        what(help="Train on the splits of a .json, .npz or .csv file (predefined), one dataset."),
    ] = None,
    task: Annotated[TaskName | None, what(**TASK)] = None,
    *,
    stack: Annotated[
        int | None, place(help="The most runs to train as one.", show_default="as many as fit")
    ] = None,
    time_limit: Annotated[str | None, place(help="Stop within this time: 45s, 9m or 1.5h.")] = None,
    epoch_timeout: Annotated[str, place(help="Kill a job if an epoch takes longer.")] = "1h",
    store: Annotated[Path, place(help="The file that keeps the runs.")] = Path("bench.sqlite"),
    device: Annotated[
        str | None,
        place(help="cpu, cuda (all GPUs) or cuda:N.", show_default="GPUs if there are any"),
    ] = None,
    workers: Annotated[
        int | None, place(help="Processes on this machine.", show_default="one per core")
    ] = None,
    engine: Annotated[str, place(help="local: processes here; ray: a Ray cluster.")] = "local",
    address: Annotated[str | None, place(help="Address of the cluster, for ray.init.")] = None,
    cpus: Annotated[float, place(help="CPUs per job on the cluster.")] = 1,
    gpus: Annotated[float, place(help="GPUs per job on the cluster, such as 0.25.")] = 0,
    root: Annotated[Path | None, place(help="Folder of datasets, also to download to.")] = None,
    dry_run: Annotated[bool, instead("--dry-run", help="Print jobs and missing runs.")] = False,
    replay: Annotated[
        str | None, instead(help="Train a stored run again, such as PROTEINS/lcpool/3.")
    ] = None,
    **settings: Any,
) -> None:
    """Compare poolings: every dataset, backbone, convolution and pooling, several runs of each.

    Every setting takes a list, with commas or by repeating the option, and all combinations are
    trained; 'all' means all choices, 'both' the paper's two (--pool all, --split both). Runs that
    the store has are not trained again; interrupted ones continue. Several commands can share one
    store.
    """
    if context.invoked_subcommand is not None:
        return
    began = context.obj or time.monotonic()  # Imports and reading data count, too.
    with one_line_errors(STOPPED):
        import_from_here()
        from lcpool.cli import sweep

        if replay is not None:
            raise typer.Exit(sweep.print_replay(store, replay, device, splits_file))
        said = given(context, settings)
        if datasets is not None:
            said["dataset"] = [name for part in datasets for name in part.split(",") if name]
        limit = math.inf if time_limit is None else _seconds("--time-limit", time_limit)
        timeout = _seconds("--epoch-timeout", epoch_timeout)
        if stack is not None and stack < 1:
            raise ValueError(f"--stack must be at least 1, not {stack}.")
        jobs = sweep.jobs_of(paper, file, said, root, stack, splits_file, task)
        if dry_run:
            sweep.print_jobs(jobs, store)
            return
        if engine == "ray":
            from lcpool.sweep.engines.ray import RayEngine

            on: Any = RayEngine(address, cpus, gpus)
        else:
            on = sweep.local_engine(engine, device, workers, store, len(jobs))
        options = {"stack": stack, "limit": _left(limit, began), "epoch_timeout": timeout}
        raise typer.Exit(sweep.run_sweep(jobs, store, on, **options))


@app.command()
def merge(
    into: Annotated[
        Path, typer.Argument(help="The store to add to; created if it does not exist.")
    ],
    sources: Annotated[list[Path], typer.Argument(help="Stores to add.")],
) -> None:
    """Add the runs of other stores to one. Its own runs do not change."""
    with one_line_errors("stopped; no store is half merged."):
        from lcpool.sweep.store import Store

        conflicts = 0
        for path in sources:  # all of them, before anything is changed
            Store(path, readonly=True).close()
        with Store(into) as store:
            for path in sources:
                merged = store.merge(path)
                typer.echo(
                    f"{path}: {merged.added} runs added, {merged.same} already there, "
                    f"{len(merged.conflicts)} conflicts"
                )
                for conflict in merged.conflicts:
                    typer.echo(f"  not changed: {conflict}")
                conflicts += len(merged.conflicts)
    raise typer.Exit(FAILED if conflicts else 0)


@app.command()
def check(store: Annotated[Path, typer.Argument(help="A store.")]) -> None:
    """Compare every run with its checksum, and list the damaged ones. Changes nothing."""
    with one_line_errors("stopped."):
        from lcpool.sweep.store import Store

        with Store(store, readonly=True) as opened:
            damaged, runs = opened.damaged(), len(opened.rows("SELECT run FROM runs"))
        for row in damaged:
            names = ("dataset", "backbone", "conv", "pool", "split", "run", "cell")
            typer.echo(f"damaged: {' '.join(str(row[name]) for name in names)}")
        typer.echo(f"{runs - len(damaged)} of {runs} runs in {store} are as they were stored")
    raise typer.Exit(FAILED if damaged else 0)


@app.command()
def export(
    store: Annotated[Path, typer.Argument(help="A store.")],
    to: Annotated[Path, typer.Argument(help="A CSV file, or a folder for runs.csv.")],
    split: Annotated[str | None, typer.Option(help="Only fresh, 10-fold, …")] = None,
) -> None:
    """Write the runs as CSV; beside it learning curves as NPZ, and cells that failed as JSON."""
    with one_line_errors("stopped."):
        from lcpool.data.splits import of_family
        from lcpool.sweep.results import Results
        from lcpool.words import count

        results = Results.read(store)
        if split is not None:
            splits = [*results.runs["split"], *(failure.split for failure in results.failures)]
            results = results.where(split=of_family(splits, split))
        path = results.write(to)
        failed = f"; {count(len(results.failures), 'cell')} failed" if results.failures else ""
        typer.echo(f"{len(results.runs)} runs are in {path}{failed}")


def _seconds(option: str, text: str) -> float:
    """A length of time such as 45s, 9m or 1.5h in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if found is None or float(found[1]) == 0:
        raise ValueError(f"{option} {text}: write a time as 45s, 9m or 1.5h.")
    return float(found[1]) * UNITS[found[2] or "s"]


def _left(limit: float, began: float) -> float:
    """Seconds left for the sweep; Python needs time to exit, but less than it took to start."""
    passed = time.monotonic() - began
    return limit - passed - min(passed, EXIT_SECONDS)
