"""Accuracy by pooling and distance: ``python -m experiments.distance.analysis``.

Reads ``runs.csv`` beside this file and writes the result into ``README.md``, between two marks.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.distance.run import DISTANCES, POOLS
from experiments.written import write_block
from lcpool.models.pooling import POOLINGS
from lcpool.settings import NetworkSettings, read_config_text

HERE = Path(__file__).parent
COMMAND = "python -m experiments.distance.analysis"
# Percent: of what is solved, of what is at chance, and what connections may cost where they do not
# matter.
SOLVED, CHANCE, LOSS = 90, 65, 5
DEEPER, WITHOUT_EDGES = "nopool with 16 convolutions", "nopool without edges"


def main() -> None:
    """Print the result and write it into the plan."""
    write_block(HERE / "README.md", COMMAND, report(pd.read_csv(HERE / "runs.csv")))


def report(runs: pd.DataFrame) -> str:
    """What came of the expectations, how far each pooling reaches, then all accuracies."""
    table = accuracies(runs)
    lines = [
        f"| {' | '.join(['', 'keeps graphs connected', *table.columns])} |",
        "|---" * (2 + len(table.columns)) + "|",
    ]
    for name, row in table.iterrows():
        shown = [f"**{value:.0f}**" if value >= SOLVED else f"{value:.0f}" for value in row]
        lines.append(f"| {' | '.join([str(name), connected(str(name)), *shown])} |")
    return "\n".join([
        "Solved:", "",
        *(f"- {line}" for line in answers(table.filter(like="far"))), "",
        "Of [what we expected](#what-we-expect-and-what-would-refute-it):", "",
        *(f"{number}. {outcome(against)}" for number, against in enumerate(refuting(table), 1)), "",
        f"Mean test accuracy in percent, {runs['run'].nunique()} runs; bold: at least {SOLVED} %. "
        f"Chance is 50 %. {len(runs)} runs, {int(runs['diverged'].notna().sum())} of them "
        f"diverged. {runs['device'].iloc[0]}, torch {runs['torch'].iloc[0]}.", "", *lines,
    ])  # fmt: skip


def refuting(table: pd.DataFrame) -> list[list[str]]:
    """For each expectation of the plan, the poolings that it does not hold for."""
    far, near = table.filter(like="far"), table.filter(like="near")
    apart = far.drop(columns="far-2").reindex(["topkpool", "sagpool", "random"]).max(axis=1)
    reach = far.mean(axis=1)
    always = [n for n in reach.index if (far.loc[n] >= SOLVED).all()]
    between = apart.index.map(reach).max() < reach["lcpool"] < reach[always].min()
    below = (near.loc[WITHOUT_EDGES] - near).max(axis=1)
    return [
        [n for n in far.index if connected(n) == "yes" and (far.loc[n] < SOLVED).any()],
        list(apart.index[apart > CHANCE]),
        [] if between else ["lcpool"],
        list(below.index[below > LOSS]),
    ]


def outcome(against: list[str]) -> str:
    """In words."""
    return f"refuted by {', '.join(against)}" if against else "holds"


def accuracies(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean test accuracy, poolings by datasets, controls last."""
    depth = runs["config"].map(lambda text: read_config_text(text)["depth"])
    name = runs["pool"].mask(depth > 1, DEEPER)
    name = name.mask(~runs["conv"].isin(["graphconv"]), WITHOUT_EDGES)
    means = runs.groupby([name, "dataset"])["test_accuracy"].mean().unstack()
    order = [n for n in (*POOLS, DEEPER, WITHOUT_EDGES) if n in means.index]
    sets = [f"{family.__name__}-{d}" for family, several in DISTANCES.items() for d in several]
    return means.loc[order, [name for name in sets if name in means]]


def answers(far: pd.DataFrame) -> list[str]:
    """Which poolings solve which distances."""
    solved = (far >= SOLVED).sum(axis=1)
    lines = []
    for count in sorted(solved.unique(), reverse=True):
        names = ", ".join(solved.index[solved == count])
        reach = ", ".join(column.removeprefix("far-") for column in far.columns)
        lines.append(f"{count} of the distances {reach}: {names}")
    return lines


def connected(name: str) -> str:
    """What the class of a pooling declares."""
    if name not in POOLS or name == "nopool":
        return "–"
    return "yes" if POOLINGS[name](1, 1, NetworkSettings()).keeps_connected else "no"


if __name__ == "__main__":
    main()
