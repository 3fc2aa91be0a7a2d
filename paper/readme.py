"""The figures of the README: a sentence, a table and how it was made, between two marks.

``python -m paper readme paper/results README.md`` writes them from the committed results.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from lcpool.report.verdict import Verdict
from lcpool.sweep.results import Results
from paper import dates
from paper.report import PaperReport

BEGIN, END = "<!-- begin: make readme -->", "<!-- end: make readme -->"
POOLINGS = {
    "nopool": "no pooling",
    "topkpool": "TopK",
    "sagpool": "SAG",
    "lcpool": "**LCPool**",
    "asapool": "ASAP",
    "mincutpool": "MinCut",
    "diffpool": "DiffPool",
}

# Those whose place LCPool takes.
SELECTING = {pool: POOLINGS[pool] for pool in ("topkpool", "sagpool")}


def write(results: Path, readme: Path) -> Path:
    """Replace what stands between the marks in the README."""
    text = readme.read_text("utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    readme.write_text(f"{before}{BEGIN}\n{figures(results)}\n{END}{after}", "utf-8")
    return readme


def figures(results: Path) -> str:
    """Accuracy, time, edges and connectivity beside LCPool's, as Markdown."""
    runs = pd.read_csv(results / "paper" / "runs-fresh.csv")
    accuracy = runs.pivot_table(index="dataset", columns="pool", values="test_accuracy")
    costs = pd.read_csv(results / "costs.csv")
    seconds = costs.pivot(index="dataset", columns="pool", values="seconds_per_epoch")
    structure = pd.read_csv(results / "structure.csv").replace({"pool": {"none": "nopool"}})
    structure["edges"] = structure["nodes"] * structure["degree"] / 2
    edges = structure.pivot(index="dataset", columns="pool", values="edges")
    connected = structure.pivot(index="dataset", columns="pool", values="stay_connected")
    report = PaperReport.of(Results.read(results / "paper" / "runs-fresh.csv"))
    verdicts = {verdict.pairs.other: verdict for verdict in report.verdicts.rivals}
    against = {
        "accuracy: LCPool minus this one": (accuracy.rsub(accuracy["lcpool"], axis=0), "{:+.1f}"),
        "time of an epoch / LCPool's": (seconds.div(seconds["lcpool"], axis=0), "{:.1f}"),
        "edges after / before": (edges.div(edges["nopool"], axis=0), "{:.1f}"),
        "stay connected": (connected, "{:.0f} %"),
    }
    first, *others = against
    header = ["pooling", first, "LCPool is worse / equal / better", *others]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for pool, name in POOLINGS.items():
        row = [_spread(table[pool], form) for table, form in against.values()]
        row.insert(1, _verdict(verdicts[pool]) if pool in verdicts else "")
        if pool == "lcpool":
            row[:3] = ["", "", ""]
        lines.append(f"| {name} | " + " | ".join(row) + " |")
    agreement = (results / "paper" / "agreement.md").read_text("utf-8")
    fresh = re.search(r"\| fresh \| accuracy \| (\d+ of \d+) \|", agreement)
    assert fresh is not None, "agreement.md has no line of the fresh splits"
    devices = ", ".join(sorted({*costs["device"], *runs["device"]}))
    networks = runs.groupby(["backbone", "conv"]).ngroups
    when = dates.measured(results, ["paper/runs-fresh.csv", "costs.csv", "structure.csv"])
    leads, times = (against[column][0] for column in (first, others[0]))
    ahead = (leads[list(SELECTING)] > 0).all(axis=1).sum()
    return "\n".join(
        [
            f"**If you would have taken {' or '.join(SELECTING.values())}, take LCPool.** It is "
            f"{_each(leads, '{:.1f}')} points more accurate on average, ahead of both on {ahead} "
            f"of {len(leads)} datasets; their epochs take {_each(times, '{:.1f}')} times as long "
            "as LCPool's.",
            "",
            *lines,
            "",
            f"Mean over {len(accuracy)} datasets, in brackets the lowest and the highest. Accuracy "
            f"in points on the test set, {runs['run'].nunique()} runs on fresh splits in each of "
            f"{networks} networks. Worse, equal, better: how probable each is on the average "
            f"dataset, where a difference of up to one point is none. Edges and connected graphs "
            f"after {structure['epochs'].max()} epochs of training. Published accuracies that "
            f"agree with ours: {fresh[1]}. Accuracies and times are of one {devices}; measured on "
            f"{when}.",
        ]
    )


def _each(table: pd.DataFrame, form: str) -> str:
    return " and ".join(form.format(table[pool].mean()) for pool in SELECTING)


def _verdict(verdict: Verdict) -> str:
    return " / ".join(f"{100 * probability:.0f}" for probability in verdict.regions) + " %"


def _spread(values: pd.Series[float], form: str) -> str:
    low, mean, high = (form.format(x) for x in (values.min(), values.mean(), values.max()))
    return mean if low == high else f"{mean} ({low} to {high})"
