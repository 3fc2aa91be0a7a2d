"""``lcpool bench --dry-run``: the jobs as a table."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from lcpool.settings import changed
from lcpool.sweep.grid import Job
from lcpool.sweep.run import counted
from lcpool.sweep.store import Store


def print_jobs(jobs: list[Job], store: Path) -> None:
    """Print what all jobs have in common, and a row per job with its number of missing runs."""
    left = _missing(jobs, store)
    names = zip(*(job.names for job in jobs), strict=True)
    columns = dict(zip(("dataset", "backbone", "conv", "pool"), names, strict=True))
    columns["settings"] = tuple(job.label for job in jobs)
    columns["split"] = tuple(job.split for job in jobs)
    columns["runs"] = tuple(str(len(job.wanted)) for job in jobs)
    same = {
        name: values[0]
        for name, values in columns.items()
        if name != "pool" and len(set(values)) == 1
    }
    rows = {name: values for name, values in columns.items() if name not in same}
    rows["missing"] = tuple(map(str, left))
    table = Table(*(Column(name, overflow="fold") for name in rows), box=SIMPLE_HEAD)
    for row in zip(*rows.values(), strict=True):
        table.add_row(*map(Text, row))  # Text: a name is not markup
    console = Console(highlight=False)
    console.print(Text(", ".join(_in_common(jobs, same))))
    console.print(table)
    total = sum(len(job.wanted) for job in jobs)
    console.print(f"{counted(len(jobs), 'job')}, {total} trainings, {sum(left)} missing")


def _missing(jobs: list[Job], path: Path) -> list[int]:
    """How many runs of each job are not in the store, if there is one."""
    done: set[tuple[str, int]] = set()
    if path.exists():
        with Store(path, readonly=True) as store:
            done = store.done(cell for job in jobs for cell in job.cells)
    return [sum((cell.id, n) not in done for cell, n in job.wanted) for job in jobs]


def _in_common(jobs: list[Job], same: dict[str, str]) -> list[str]:
    """The columns that are the same for all jobs, and settings that differ from the default."""
    names = [f"{name} {value}" for name, value in same.items() if value]
    first, *others = (changed(job.cells[0].settings).values() for job in jobs)
    return names + [words for words in first if all(words in other for other in others)]
