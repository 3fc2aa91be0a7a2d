"""Accuracy by pooling and distance: ``python -m experiments.distance.analysis``.

Reads ``runs.csv`` beside this file and writes the result into ``README.md``, between two marks.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.distance.run import POOLS
from experiments.written import write_block
from lcpool.models.pooling import POOLINGS
from lcpool.settings import NetworkSettings, read_config_text

HERE = Path(__file__).parent
COMMAND = "python -m experiments.distance.analysis"
SOLVED = 90
DEEPER, WITHOUT_EDGES = "nopool with 16 convolutions", "nopool without edges"


def main() -> None:
    """Print the result and write it into the plan."""
    write_block(HERE / "README.md", COMMAND, report(pd.read_csv(HERE / "runs.csv")))


def report(runs: pd.DataFrame) -> str:
    """How far each pooling reaches, then its accuracies."""
    table = accuracies(runs)
    far = table[[name for name in table if name.startswith("far")]]
    lines = [
        f"| {' | '.join(['', 'keeps graphs connected', *table.columns])} |",
        "|---" * (2 + len(table.columns)) + "|",
    ]
    for name, row in table.iterrows():
        shown = [f"**{value:.0f}**" if value >= SOLVED else f"{value:.0f}" for value in row]
        lines.append(f"| {' | '.join([str(name), connected(str(name)), *shown])} |")
    return "\n".join([
        *(f"- {line}" for line in answers(far)), "",
        f"Mean test accuracy in percent, {runs['run'].nunique()} runs; bold: at least {SOLVED} %. "
        f"Chance is 50 %. {len(runs)} runs, {int(runs['diverged'].notna().sum())} of them "
        f"diverged. {runs['device'].iloc[0]}, torch {runs['torch'].iloc[0]}.", "", *lines,
    ])  # fmt: skip


def accuracies(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean test accuracy, poolings by datasets, controls last."""
    depth = runs["config"].map(lambda text: read_config_text(text)["depth"])
    name = runs["pool"].mask(depth > 1, DEEPER)
    name = name.mask(~runs["conv"].isin(["graphconv"]), WITHOUT_EDGES)
    means = runs.groupby([name, "dataset"])["test_accuracy"].mean().unstack()
    order = [n for n in (*POOLS, DEEPER, WITHOUT_EDGES) if n in means.index]
    return means.loc[order, list(dict.fromkeys(runs["dataset"]))]


def answers(far: pd.DataFrame) -> list[str]:
    """Which poolings solve which distances."""
    solved = (far >= SOLVED).sum(axis=1)
    lines = []
    for count in sorted(solved.unique(), reverse=True):
        names = ", ".join(solved.index[solved == count])
        reach = [column.removeprefix("far-") for column in far.columns]
        what = "no distance" if count == 0 else f"{count} of the distances {', '.join(reach)}"
        lines.append(f"{what}: {names}")
    return lines


def connected(name: str) -> str:
    """What the class of a pooling declares."""
    if name not in POOLS or name == "nopool":
        return "–"
    return "yes" if POOLINGS[name](1, 1, NetworkSettings()).keeps_connected else "no"


if __name__ == "__main__":
    main()
