"""What the figures say, in sentences; all of it computed."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pandas as pd

from lcpool.report.comparison import VARIANT
from lcpool.report.statistics import ALPHA, datasets_needed, smallest_signed_rank
from lcpool.report.words import count, duration, p_value

if TYPE_CHECKING:
    from lcpool.report.api import Report


def findings(report: Report) -> dict[str, list[str]]:
    """Sentences on the paper's figures, the ranking, and what this many datasets could show."""
    return {
        "agreement": _agreement(report),
        "ranking": _ranking(report),
        "power": _power(report),
        "missing": _missing(report),
    }


def _agreement(report: Report) -> list[str]:
    agreeing, judged = report.agreeing
    other = int((~report.cells["as_paper"]).sum())
    said = []
    if judged:
        share = f"{100 * agreeing / judged:.1f} %"
        said.append(
            f"{agreeing} of {count(judged, 'published cell')} agree with the paper ({share})."
        )
    else:
        said.append("No cell here can be judged against a figure of the paper's.")
    if other:
        said.append(
            f"{count(other, 'cell')} of {len(report.cells)} were trained otherwise than the "
            "paper's, and are not compared with it."
        )
    return said


def _ranking(report: Report) -> list[str]:
    c = report.ranked
    if c.empty:
        return ["There are no two poolings with runs in the same groups: nothing to rank."]
    average = c.average_ranks(c.means)
    best = [
        pool for pool, rank in zip(c.pools, average, strict=True) if rank <= average.min() + 1e-9
    ]
    said = [
        f"{' and '.join(best)} {'ranks' if len(best) == 1 else 'rank'} first over "
        f"{count(len(c.datasets), 'dataset')} (average rank {average.min():.2f} among "
        f"{count(len(c.pools), 'pooling')})."
    ]
    test = c.friedman
    if test is not None:
        verdict = "differ" if test.permuted_p < ALPHA else "cannot be told apart"
        said.append(
            f"As a whole the poolings {verdict}: Friedman's χ² {test.statistic:.2f}, p "
            f"{p_value(test.p)}, by permutation {p_value(test.permuted_p)}; Iman and Davenport's F "
            f"{_finite(test.f)}, p {p_value(test.f_p)}."
        )
    return said


def _power(report: Report) -> list[str]:
    """How large a difference this many datasets could show at all."""
    c = report.ranked
    n, k = len(c.datasets), len(c.pools)
    if c.empty:
        return []
    if n == 1:
        return [
            "One dataset is one block: no test over datasets is possible, and nothing here says "
            "how the poolings do on other data."
        ]
    cd = c.critical_difference
    assert cd is not None
    least, corrected = smallest_signed_rank(n), smallest_signed_rank(n, k - 1)
    said = [
        f"With {n} datasets and {k} poolings, average ranks must lie {cd:.2f} apart to differ "
        f"(Nemenyi, α = {ALPHA:g}); the widest possible is {k - 1}."
        + (" So no two can." if cd > k - 1 else "")
    ]
    said.append(
        f"Wilcoxon's exact test of {n} datasets cannot give a p below {least:.4g}"
        + (
            f", nor, corrected for {count(k - 1, 'comparison')}, below {corrected:.4g}."
            if k > 2
            else "."
        )
    )
    if corrected >= ALPHA:
        said.append(
            f"So no single comparison can be significant at α = {ALPHA:g}, however large the "
            f"difference: that takes {datasets_needed(k - 1)} datasets."
        )
    return said


def _missing(report: Report) -> list[str]:
    """What is left out, and why."""
    c, said = report.ranked, []
    if c.absent:
        said.append(f"Not ranked, for lack of runs in most groups: {', '.join(c.absent)}.")
    if c.incomplete:
        said.append(
            f"{count(c.incomplete, 'group')} left out of the ranking, for a pooling has no result "
            "there."
        )
    if VARIANT in set(report.cells["pool"]) and VARIANT not in c.pools:
        said.append(f"{VARIANT}, a variant, is not ranked, as in the paper.")
    lost = int(report.cells["lost"].sum())
    if lost:
        said.append(
            f"{count(lost, 'run')} diverged before any epoch was chosen, and count nowhere."
        )
    late = int(report.runs["diverged"].notna().sum()) - lost
    if late > 0:
        said.append(f"{count(late, 'run')} diverged later; the epoch chosen until then counts.")
    if c.fewest_runs == 1:
        said.append("Some cells have a single run: no spread, no interval, no resampling.")
    return said


def provenance(report: Report) -> dict[str, str]:
    """Where the runs come from."""
    runs = report.runs
    protocols = pd.DataFrame([json.loads(config)["protocol"] for config in runs["config"]])
    spent = duration(float(runs["seconds"].sum()))
    splits = {
        "fresh": "fresh: a new one for each run, the same for every pooling",
        "shared": "shared: one for all runs",
    }
    return {
        "runs": f"{len(runs)} in {count(len(report.cells), 'cell')}, {spent} in all",
        "split": splits[report.split],
        "epoch": f"chosen by validation {report.rule}",
        "at most": f"{_distinct(protocols['max_epochs'])} epochs",
        "patience": f"{_distinct(protocols['patience'])} epochs",
        "learning rate": _distinct(protocols["lr"]),
        "batch size": _distinct(protocols["batch_size"]),
        "seed": _distinct(runs["seed"]),
        "device": _distinct(runs["device"]),
        **{name: _distinct(runs[name]) for name in ("lcpool", "torch", "pyg", "python", "commit")},
    }


def _distinct(column: pd.Series) -> str:
    return ", ".join(str(value) for value in sorted(set(column.dropna()) - {""})) or "unknown"


def _finite(f: float) -> str:
    return f"{f:.2f}" if math.isfinite(f) else "∞"
