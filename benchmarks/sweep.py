"""Where the time of a sweep went: what its runs say of themselves.

    python benchmarks/sweep.py paper/results/paper/runs-fresh.csv
    python benchmarks/sweep.py paper/results/paper/runs-fresh.csv --step NCI1 0.70 1.02

Runs that are trained as one take their steps together, and the last of them to end decides how
many these are. Where the host is what is waited for, a step takes as long for many runs as for few,
and what counts is the number of steps: epochs of a run against those of its stack, and the steps
beside those of a sweep in which every cell has a stack of its own. Seconds are those of worker
processes, side by side. Runs that were trained as one belong in one call.

With ``--step DATASET A B``, milliseconds of a captured step of 20 and of 40 runs
(``benchmarks/steps.py``), a second table says what a stack should do with the places of runs that
have ended, if a step of k runs takes a + b k. All is divided by the time of stacks from which each
run is taken as it ends, which no captured step can do for nothing:

- "kept": the places stay, empty;
- "halved": the stack is made anew when half of its runs have ended, as the training does;
- "refilled, S": a stack of S places, each of which the next run takes when one has ended.
"""

from __future__ import annotations

import argparse
import heapq
import math
from collections.abc import Iterator, Sequence

import pandas as pd
from operators import print_table

from lcpool.sweep.results import Results

CELL = ["dataset", "backbone", "conv", "pool"]
STACK = ["dataset", "conv", "pool", "stack", "number"]
BATCH = 32
# The sizes of the stacks that ``--step`` is told the time of, and stacks to be refilled.
TOLD, PLACES = (20, 40), (5, 10, 15)


def numbered(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with the number of their stack among those of its size: a job is cut in this order."""
    runs = runs.sort_values([*CELL, "split", "seed", "run"])
    place = runs.groupby(["dataset", "conv", "pool", "stack"]).cumcount()
    return runs.assign(number=place // runs["stack"])


def stacks(runs: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The stacks that runs form if those of the same names are trained as one."""
    found = runs.groupby(by).agg(
        seconds=("seconds", "sum"), mean=("epochs", "mean"), last=("epochs", "max"),
        train=("num_train", "first"),
    )  # fmt: skip
    found["steps"] = found["last"] * (found["train"] / BATCH).apply(math.ceil)
    return found.reset_index()


def row(name: str, now: pd.DataFrame, apart: pd.DataFrame) -> tuple[str, ...]:
    """One dataset, or all of them."""
    seconds, steps = now["seconds"].sum(), now["steps"].sum()
    return (
        name, str(len(now)), f"{now['mean'].mean():.0f}", f"{now['last'].mean():.0f}",
        f"{steps / 1000:.0f}", f"{1000 * seconds / steps:.1f}", f"{seconds / 3600:.2f}",
        f"{steps / apart['steps'].sum():.2f}",
    )  # fmt: skip


def left_after(epochs: Sequence[int]) -> Iterator[tuple[int, int]]:
    """As runs end: for how many epochs how many runs have gone on."""
    begin = 0
    for ended, end in enumerate(sorted(epochs)):
        yield end - begin, len(epochs) - ended
        begin = end


def refilled(epochs: Sequence[int], places: int) -> int:
    """Epochs until all runs have ended, if each takes the first free place of so many."""
    free = [0] * places
    for count in epochs:
        heapq.heapreplace(free, free[0] + count)
    return max(free)


def manners(epochs: Sequence[int], fixed: float, each: float) -> dict[str, float]:
    """Milliseconds per batch of an epoch for a stack of these runs, by what ended ones leave."""

    def step(runs: int) -> float:
        return fixed + each * runs

    halved, size = 0.0, len(epochs)
    for count, left in left_after(epochs):
        size = left if 2 * left <= size else size
        halved += count * step(size)
    return {
        "ideal": sum(count * step(left) for count, left in left_after(epochs)),
        "kept": max(epochs) * step(len(epochs)),
        "halved": halved,
        **{f"refilled, {n}": refilled(epochs, n) * step(n) for n in PLACES},
    }


def show_manners(runs: pd.DataFrame, told: Sequence[tuple[str, str, str]]) -> None:
    rows, header = [], ()
    for dataset, *given in told:
        few, many = map(float, given)
        each = (many - few) / (TOLD[1] - TOLD[0])
        sums: dict[str, float] = {}
        for _, stack in runs[runs["dataset"] == dataset].groupby(STACK):
            # In the order in which runs would wait.
            epochs = stack.sort_values(["run", "backbone"])["epochs"].tolist()
            for name, time in manners(epochs, few - TOLD[0] * each, each).items():
                sums[name] = sums.get(name, 0.0) + time
        ideal = sums.pop("ideal")
        header = ("", *sums)
        rows.append((dataset, *(f"{time / ideal:.2f}" for time in sums.values())))
    print_table("Places of runs that have ended: time, of that of the ideal", header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", help="stores, or CSV files exported from them")
    parser.add_argument("--step", nargs=3, action="append", default=[],
                        metavar=("DATASET", "A", "B"),
                        help="milliseconds of a step of 20 and of 40 runs")  # fmt: skip
    args = parser.parse_args()
    runs = numbered(Results.read(*args.results).runs)
    now, apart = stacks(runs, STACK), stacks(runs, CELL)
    rows = [
        row(name, now[now["dataset"] == name], apart[apart["dataset"] == name])
        for name in dict.fromkeys(runs["dataset"])
    ]
    header = (
        "", "stacks", "epochs per run", "per stack", "10³ steps", "ms per step", "worker hours",
        "steps, of those of single cells",
    )  # fmt: skip
    print_table("Where the time went", header, [*rows, row("all", now, apart)])
    if args.step:
        show_manners(runs, args.step)


if __name__ == "__main__":
    main()
