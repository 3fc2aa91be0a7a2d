"""Train several poolings on the built-in dataset and rank them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from lcpool.data import GraphSet, builtin
from lcpool.train import Result, Trainer, train

POOLINGS = ("nopool", "topkpool", "sagpool", "asapool", "mincutpool", "lcpool")

# Narrower and faster than the paper's protocol, so that a CPU is done in about a minute.
RUNS = 3
EPOCHS = 25
HIDDEN = 32
LR = 2e-3

OnEpoch = Callable[[Trainer], None]
Begin = Callable[[str], OnEpoch]


def show_ranking() -> None:
    """Train every pooling, progress on stderr, and print the ranking on stdout."""
    started, graphs = time.perf_counter(), builtin()
    console = Console(highlight=False)
    console.print(
        f"{len(graphs)} built-in graphs: rings of coloured hubs, of two classes that differ in\n"
        f"which hubs are neighbours. Hierarchical GCN, {HIDDEN} channels, {EPOCHS} epochs,\n"
        f"{RUNS} runs, each with a split of its own."
    )
    with show_progress(Console(stderr=True)) as begin, one_thread():
        results = [train_one(graphs, pool, begin(pool)) for pool in POOLINGS]
    console.print(ranking(results))
    console.print(
        f"Took {time.perf_counter() - started:.0f} s. The built-in set was made to show what "
        "keeping connections is\nworth. It is no evidence about other data, and with "
        f"{RUNS} runs a few points are\nnoise. An experiment of the paper's: "
        "lcpool train PROTEINS --pool lcpool"
    )


def train_one(graphs: GraphSet, pool: str, on_epoch: OnEpoch) -> Result:
    """The runs of one pooling. Splits are the same for all poolings."""
    return train(
        graphs, pool, runs=RUNS, epochs=EPOCHS, hidden=HIDDEN, lr=LR, split="fresh", device="cpu",
        on_epoch=on_epoch,
    )  # fmt: skip


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute without helper threads while inside.

    Networks this small gain little from them, and on a busy machine, where threads wait for each
    other, they take several times as long.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def ranking(results: list[Result]) -> Table:
    """A row for each pooling, the best first."""
    table = Table("", "pooling", "test accuracy", "training", box=SIMPLE_HEAD)
    for column in table.columns[2:]:
        column.justify = "right"
    ranked = sorted(results, key=Result.mean, reverse=True)
    for place, result in enumerate(ranked, 1):
        accuracy = f"{result.mean():.1f} ± {result.std():4.1f} %"
        table.add_row(str(place), result.architecture.pool, accuracy, f"{result.seconds:.1f} s")
    return table


@contextmanager
def show_progress(console: Console) -> Iterator[Begin]:
    """A bar for each pooling while inside, or a line where there is no terminal to draw them in.

    Yields:
        A function that begins a pooling, and gives what to call after each of its epochs.
    """
    if not console.is_terminal:
        yield lambda pool: lambda trainer: _line(console, pool, trainer)
        return
    columns = (TextColumn("{task.description:11}"), BarColumn(), MofNCompleteColumn(),
               TextColumn("{task.fields[note]:25}"), TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bars:
        tasks = {pool: bars.add_task(pool, total=EPOCHS, start=False, note="") for pool in POOLINGS}

        def begin(pool: str) -> OnEpoch:
            bars.start_task(tasks[pool])
            return lambda trainer: bars.update(
                tasks[pool], completed=trainer.epoch, note=_accuracy(trainer)
            )

        yield begin


def _line(console: Console, pool: str, trainer: Trainer) -> None:
    if trainer.ended or trainer.epoch % 10 == 0:
        console.print(f"{pool}: epoch {trainer.epoch}/{EPOCHS}, {_accuracy(trainer)}")


def _accuracy(trainer: Trainer) -> str:
    """The mean validation accuracy of the runs."""
    return f"validation {100 * fmean(run.curves[-1][2] for run in trainer.runs):.1f} %"
