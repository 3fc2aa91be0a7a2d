"""What the figures say, in sentences; all of it computed."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING

import pandas as pd

from lcpool.report import heldout
from lcpool.report.answer import answer
from lcpool.report.cells import GROUP, RUN
from lcpool.report.comparison import Comparison
from lcpool.report.pairs import pairs_over_splits
from lcpool.report.reference import agreeing
from lcpool.report.statistics import ALPHA, FEWEST_RUNS, datasets_needed, smallest_signed_rank
from lcpool.report.words import count, duration, listed, p_value
from lcpool.sweep.events import in_short

if TYPE_CHECKING:
    from lcpool.report.api import Report


def findings(report: Report) -> dict[str, list[str]]:
    """Sentences, by what they are about."""
    return {
        "answer": answer(report),
        "constant": heldout.in_words(report.cells),
        "ranking": _ranking(report),
        "power": _power(report),
        "agreement": _agreement(report),
        "missing": _missing(report),
    }


def _agreement(report: Report) -> list[str]:
    """Nothing where there is no published figure for any cell."""
    if report.reference is None or report.cells["reference_mean"].isna().all():
        return []
    name, other = report.reference.name, int((~report.cells["default"]).sum())
    said = [f"No cell here can be judged against the {name}'s: that takes two runs."]
    if report.agreeing[1]:
        said = [agreement_in_words(report.cells, name)]
    if other:
        said.append(
            f"{count(other, 'cell')} of {len(report.cells)} were trained otherwise than the "
            f"{name}'s, and are not compared with it."
        )
    return said


def agreement_in_words(cells: pd.DataFrame, name: str) -> str:
    """How many cells agree with a reference; only where there is a cell that can be judged."""
    agree, judged = agreeing(cells)
    share = f"{100 * agree / judged:.1f} %"
    return f"{agree} of {count(judged, 'published cell')} agree with the {name} ({share})."


def _ranking(report: Report) -> list[str]:
    """Whether the poolings differ at all; nothing where there is too little to tell."""
    test = report.ranked.friedman
    if test is None:
        return []
    verdict = "differ" if test.permuted_p < ALPHA else "cannot be told apart"
    return [
        f"As a whole the poolings {verdict}: Friedman's χ² {test.statistic:.2f}, p "
        f"{p_value(test.p)}, by permutation {p_value(test.permuted_p)}; Iman and Davenport's F "
        f"{_finite(test.f)}, p {p_value(test.f_p)}."
    ]


def _power(report: Report) -> list[str]:
    """The smallest differences that this many datasets could show."""
    c = report.ranked
    n, k = len(c.datasets), len(c.pools)
    if c.empty:
        return []
    if n == 1:
        return [
            *_on_one_dataset(c),
            "One dataset is one block: no test over datasets is possible, and nothing here says "
            "how the poolings do on other data.",
        ]
    cd = c.critical_difference
    assert cd is not None
    pairs = k * (k - 1) // 2
    least, corrected = smallest_signed_rank(n), smallest_signed_rank(n, pairs)
    said = [
        f"With {n} datasets and {k} poolings, average ranks must lie {cd:.2f} apart to differ "
        f"(Nemenyi, α = {ALPHA:g}); the widest possible is {k - 1}."
        + (" So no two can." if cd > k - 1 else "")
    ]
    said.append(
        f"Wilcoxon's exact test of {n} datasets cannot give a p below {least:.4g}"
        + (
            f", nor, corrected for {count(pairs, 'comparison')}, below {corrected:.4g}."
            if k > 2
            else "."
        )
    )
    if corrected >= ALPHA:
        said.append(
            f"So by Wilcoxon's test no comparison can be significant at α = {ALPHA:g}, however "
            f"large the difference: that takes {datasets_needed(pairs)} datasets."
        )
    return said


def _on_one_dataset(c: Comparison) -> list[str]:
    pairs = pairs_over_splits(c, c.order[0], picked=True, by=["dataset"])
    if pairs.empty or pairs["p"].isna().all():
        return []
    low, high = pairs["smallest"].min(), pairs["smallest"].max()
    tests = count(int(pairs["tests"].iloc[0]), "comparison")
    return [
        f"With {count(int(pairs['splits'].min()), 'run')} and {tests}, a lead of {low:.1f} to "
        f"{high:.1f} points could be told from chance, depending on the pooling."
    ]


def _missing(report: Report) -> list[str]:
    """What is left out, and why."""
    said = report.not_ranked()
    if report.aside and report.reference is not None:
        variants, name = listed(sorted(report.aside)), report.reference.name
        said.append(f"{variants}, a variant, is not ranked, as in the {name}.")
    lost = int(report.cells["lost"].sum())
    if lost:
        said.append(
            f"{count(lost, 'run')} diverged before any epoch was chosen, and count nowhere."
        )
    late = int(report.runs["diverged"].notna().sum()) - lost
    if late > 0:
        said.append(f"{count(late, 'run')} diverged later; the epoch chosen until then counts.")
    few = int((report.cells["runs"] < FEWEST_RUNS).sum())
    if few:
        said.append(
            f"{count(few, 'cell')} of {len(report.cells)} {'has' if few == 1 else 'have'} fewer "
            f"than {FEWEST_RUNS} runs: no p and no interval there."
        )
    return [*said, *_same(report), *_set_aside(report)]


def _same(report: Report) -> list[str]:
    """Settings of one pooling that gave the same results, so that one of them is idle."""
    said = []
    for _, runs in report.runs.groupby("name", sort=False):
        table = runs.pivot(index=[*GROUP, *RUN], columns="pool", values="accuracy")
        for one, other in itertools.combinations(runs["pool"].unique(), 2):
            both = table[[one, other]].dropna()
            if len(both) and (both[one] == both[other]).all():
                said.append(f"{one} and {other} gave the same accuracy in every run.")
    return said


def _set_aside(report: Report) -> list[str]:
    """Cells that failed and have no run: the error, and where it was raised."""
    said = []
    for failure in report.results.failures:
        if failure.split == report.split:
            places = re.findall(r'File "(.*)", line (\d+)', failure.reason)
            where = f" ({places[-1][0]}:{places[-1][1]})" if places else ""
            names = " ".join(failure.names)
            said.append(f"Set aside: {names}: {in_short(failure.reason)}{where}")
    return said


def provenance(report: Report) -> dict[str, str]:
    """Where the runs come from."""
    runs = report.runs
    settings = pd.DataFrame([json.loads(config) for config in runs["config"]])
    spent = duration(float(runs["seconds"].sum()))
    splits = {
        "fresh": "fresh: a new one for each run, the same for every pooling",
        "shared": "shared: one for all runs",
    }
    return {
        "runs": f"{len(runs)} in {count(len(report.cells), 'cell')}, {spent} in all",
        **({"chosen": _chosen(report)} if report.chosen else {}),
        "split": splits[report.split],
        "epoch": f"chosen by validation {report.rule}",
        "at most": f"{_distinct(settings['epochs'])} epochs",
        "patience": f"{_distinct(settings['patience'])} epochs",
        "learning rate": _distinct(settings["lr"]),
        "batch size": _distinct(settings["batch_size"]),
        "seed": _distinct(runs["seed"]),
        "device": _distinct(runs["device"]),
        **{name: _distinct(runs[name]) for name in ("lcpool", "torch", "pyg", "python", "commit")},
    }


def _chosen(report: Report) -> str:
    """Which poolings and datasets the report is limited to."""
    words = {"pools": "poolings", "datasets": "datasets"}
    return "; ".join(f"{words[of]} {', '.join(names)}" for of, names in report.chosen.items())


def _distinct(column: pd.Series) -> str:
    return ", ".join(str(value) for value in sorted(set(column.dropna()) - {""})) or "unknown"


def _finite(f: float) -> str:
    return f"{f:.2f}" if math.isfinite(f) else "∞"
