"""Where the time of a sweep went: what its runs say of themselves.

    python benchmarks/sweep.py paper/results/paper/runs-fresh.csv

Runs that are trained as one take their steps together, and the last of them to end decides how
many these are. Where the host is what is waited for, a step takes as long for many runs as for few,
and what counts is the number of steps: epochs of a run against those of its stack, and the steps
beside those of a sweep in which every cell has a stack of its own. Seconds are those of worker
processes, side by side. Runs that were trained as one belong in one call.
"""

from __future__ import annotations

import argparse
import math

import pandas as pd
from operators import print_table

from lcpool.sweep.results import Results

CELL = ["dataset", "backbone", "conv", "pool"]
STACK = ["dataset", "conv", "pool", "stack", "number"]
BATCH = 32


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", help="stores, or CSV files exported from them")
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


if __name__ == "__main__":
    main()
