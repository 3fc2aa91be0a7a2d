"""The first chapter of the audit: which pooling to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcpool.models import BACKBONES
from lcpool.settings import PAPER_CONVS, POOLS
from paper import choosing
from paper.datasets import paper_datasets
from paper.report import PaperReport
from paper.shown import EARLIER, analyses, words

if TYPE_CHECKING:
    from paper.audit import Audit

COMPLETE = "DiffPool and MinCut give complete weighted graphs by construction."
ALIKE = (
    "For the same kept nodes LCPool and ASAP have the same edges (lemma 5): between them it is a "
    "matter of which nodes are kept."
)


def points(audit: Audit) -> dict[str, list[str]]:
    """By heading, the sentences that answer; nothing where there is nothing to say."""
    report, found = audit.report, audit.report.findings()
    times = {} if audit.costs is None else choosing.relative(audit.costs, "seconds_per_epoch")
    seconds = {pool: ratio.mean for pool, ratio in times.items()}
    said = {
        "In short": [*found["answer"], *_elsewhere(audit)],
        "What could be found": found["power"],
        "Does it stand": found["sensitivity"],
        "On single datasets": [choosing.advice(report.paper, seconds)],
        "A pooling that fails": [] if audit.readings is None else [audit.readings.said()],
        "Cost": _cost(audit),
        "Connectivity": _connected(audit),
        "By ranks alone": found["ranking"],
        "Left out": [*_lacking(report), *found["missing"]],
    }
    return {heading: sentences for heading, sentences in said.items() if sentences}


def _elsewhere(audit: Audit) -> list[str]:
    """Whether the verdicts are the same by other splits and rules."""
    here, *others = (words(report.verdicts) for report in _compared(audit).values())
    if not others:
        return []
    counts = [
        f"{pool} ({word}) {sum(one.get(pool) == word for one in others)}"
        for pool, word in here.items()
    ]
    return [f"Of the {len(others)} other analyses below, this many agree: {', '.join(counts)}."]


def other_analyses(audit: Audit) -> list[str]:
    """The verdicts by all splits and rules, and of what was trained before."""
    compared = {which: report.verdicts for which, report in _compared(audit).items()}
    said = (
        "LCPool − pooling on the average dataset, in points, and the verdict; small below, the 95 "
        "% interval and the probabilities of worse, equal and better in percent. An analysis is a "
        "split and a rule that chooses the epoch."
    )
    if any(runs == EARLIER for runs, _ in compared):
        said += (
            f" “{EARLIER.capitalize()}” is a training before this one, on the same fresh splits, "
            "in which some poolings come out the same ([how it "
            "differs](../paper/results/earlier/README.md))."
        )
    return [said, analyses({f"{runs}, by {rule}": v for (runs, rule), v in compared.items()})]


def _compared(audit: Audit) -> dict[tuple[str, str], PaperReport]:
    return {which: report for which, report in audit.reports.items() if report.verdicts.rivals}


def caption(audit: Audit) -> str:
    """What the picture shows."""
    said = (
        "LCPool against each other pooling, above zero where LCPool is better. The bar: how "
        "probable it is that on the average dataset LCPool is worse, equal (within the shaded "
        "margin of one point) or better. A dot is a dataset, the diamond the average one, with 95 "
        "% intervals."
    )
    if audit.costs is not None:
        said += " Below, accuracy beside LCPool's against seconds of an epoch."
    return f"<sub>{said}</sub>"


def _lacking(report: PaperReport) -> list[str]:
    """How many of the paper's cells have runs; nothing where all have."""
    cells = len(paper_datasets()) * len(BACKBONES) * len(PAPER_CONVS) * len(POOLS)
    there = int(report.cells["default"].sum())
    return [] if there == cells else [f"Only {there} of the paper's {cells} cells have runs."]


def _cost(audit: Audit) -> list[str]:
    """Of every pooling, the fastest first."""
    if audit.costs is None:
        return []
    seconds, mib = (choosing.relative(audit.costs, name) for name in choosing.COSTS)
    order = sorted(seconds, key=lambda pool: seconds[pool].mean)
    known = [pool for pool in order if pool in mib and pool != choosing.BASE]
    texts = [f"{pool} {seconds[pool]} and {mib[pool].mean:.1f}" for pool in known]
    return [
        f"Seconds of an epoch (least to most of a dataset) and its memory, as multiples of "
        f"{choosing.BASE}'s: {', '.join(texts)}."
    ]


def _connected(audit: Audit) -> list[str]:
    """Of every pooling that has a choice, the one that keeps most first."""
    if audit.structure is None:
        return []
    shares = choosing.stay_connected(audit.structure)
    order = sorted(shares.keys() - choosing.DENSE, key=lambda pool: -shares[pool].mean)
    texts = [f"{pool} {shares[pool].percent()}" for pool in order]
    return [
        f"Connected graphs that stay connected, mean (least to most) over datasets: "
        f"{', '.join(texts)}. {ALIKE} {COMPLETE} How much it varies from one network to the next: "
        "see below."
    ]
