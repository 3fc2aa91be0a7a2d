"""Train several poolings on the built-in dataset and rank them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lcpool.data import GraphSet, builtin
from lcpool.train import Result, train

POOLINGS = ("nopool", "topkpool", "sagpool", "asapool", "mincutpool", "lcpool")

# Narrower and shorter than by default, so that a CPU needs about a minute.
RUNS = 3
EPOCHS = 25
HIDDEN = 32
LR = 2e-3


def show_ranking() -> None:
    """Train every pooling, progress on stderr, and print the ranking on stdout."""
    started, graphs = time.perf_counter(), builtin()
    console = Console(highlight=False)
    console.print(
        f"{len(graphs)} built-in graphs: rings of coloured hubs. The two classes differ in which\n"
        f"hubs are neighbours. Hierarchical GCN, {HIDDEN} channels, {EPOCHS} epochs,\n"
        f"{RUNS} runs, each with its own split."
    )
    results = []
    with one_thread():
        for number, pool in enumerate(POOLINGS, 1):
            print(f"training {pool} ({number} of {len(POOLINGS)})", file=sys.stderr)
            results.append(train_one(graphs, pool))
    console.print(ranking(results))
    console.print(
        f"Took {time.perf_counter() - started:.0f} s. The built-in graphs are made to show what "
        "keeping connections is\nworth. They are no evidence about other data, and with "
        f"{RUNS} runs a few points are\nnoise. For real data: "
        "lcpool train PROTEINS --pool lcpool"
    )


def train_one(graphs: GraphSet, pool: str) -> Result:
    """The runs of one pooling. Splits are the same for all poolings."""
    return train(
        graphs, pool, runs=RUNS, epochs=EPOCHS, hidden=HIDDEN, lr=LR, split="fresh", device="cpu"
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: small networks gain little from more, and lose on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def ranking(results: list[Result]) -> Table:
    """A row per pooling, the best first."""
    table = Table("", "pooling", "test accuracy", "training", box=SIMPLE_HEAD)
    for column in table.columns[2:]:
        column.justify = "right"
    ranked = sorted(results, key=Result.mean, reverse=True)
    for place, result in enumerate(ranked, 1):
        accuracy = f"{result.mean():.1f} ± {result.std():4.1f} %"
        table.add_row(str(place), result.architecture.pool, accuracy, f"{result.seconds:.1f} s")
    return table
