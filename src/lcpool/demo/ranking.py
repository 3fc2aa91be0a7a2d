"""Train several poolings on the built-in dataset and rank them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lcpool.data import GraphSet, builtin
from lcpool.progress import Board, Display, display
from lcpool.train import Result, Trainer, train

POOLINGS = ("nopool", "topkpool", "sagpool", "asapool", "mincutpool", "lcpool")

# Narrower and faster than the paper's protocol, so that a CPU is done in about a minute.
RUNS = 3
EPOCHS = 25
HIDDEN = 32
LR = 2e-3

OnEpoch = Callable[[Trainer], None]


def show_ranking() -> None:
    """Train every pooling, progress on stderr, and print the ranking on stdout."""
    started, graphs = time.perf_counter(), builtin()
    console = Console(highlight=False)
    console.print(
        f"{len(graphs)} built-in graphs: rings of coloured hubs, of two classes that differ in\n"
        f"which hubs are neighbours. Hierarchical GCN, {HIDDEN} channels, {EPOCHS} epochs,\n"
        f"{RUNS} runs, each with a split of its own."
    )
    with display() as shown, one_thread():
        progress = Progress(shown)
        results = [train_one(graphs, pool, progress.of(pool)) for pool in POOLINGS]
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


class Progress:
    """Shows the poolings one after the other, on a display."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.rows = {pool: (pool, "–", "–", "–") for pool in POOLINGS}
        self.done = 0

    def of(self, pool: str) -> OnEpoch:
        """What to call after each epoch of a pooling."""
        return lambda trainer: self.take(pool, trainer)

    def take(self, pool: str, trainer: Trainer) -> None:
        """Take note of an epoch, and show it."""
        epoch, accuracy = f"{trainer.epoch}/{EPOCHS}", _accuracy(trainer)
        self.rows[pool] = (pool, epoch, accuracy, f"{trainer.seconds:.1f} s")
        if trainer.ended:
            self.done += 1
            self.display.mention(f"{pool}: epoch {epoch}, validation accuracy {accuracy}")
        self.display.show(self.board)

    def board(self) -> Board:
        """A row for each pooling."""
        columns = ("pooling", "epoch", "validation", "training")
        return Board(
            columns, list(self.rows.values()), f"{self.done} of {len(self.rows)} poolings trained"
        )


def _accuracy(trainer: Trainer) -> str:
    """The mean validation accuracy of the runs."""
    return f"{100 * fmean(run.curves[-1][2] for run in trainer.runs):.1f} %"
