"""The first chapter of the audit: which pooling to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcpool.models import BACKBONES
from lcpool.report.words import signed
from lcpool.settings import PAPER_CONVS, POOLS
from paper import choosing
from paper.datasets import paper_datasets
from paper.published import OURS
from paper.report import PaperReport
from paper.shown import EARLIER, NONE, analyses, named, shown, take

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
        "In short": [
            *take(report.paper, seconds),
            f"Shown over the datasets to be more accurate, on {report.split} splits with epochs "
            f"chosen by validation {report.rule}, by Nemenyi's test ([why that "
            f"one](report.md#the-claims)): {named(shown(report.paper)) or NONE}.",
            *_elsewhere(audit),
        ],
        "Accuracy": [*found["answer"], *_over_base(audit)],
        "On single datasets": [choosing.advice(report.paper, seconds)],
        "A pooling that fails": [] if audit.readings is None else [audit.readings.said()],
        "Cost": _cost(audit),
        "Connectivity": _connected(audit),
        "What the tests can tell": [*found["ranking"], *found["power"]],
        "Left out": [*_lacking(report), *found["missing"]],
    }
    return {heading: sentences for heading, sentences in said.items() if sentences}


def _elsewhere(audit: Audit) -> list[str]:
    """Whether what is shown is shown by other splits and rules too."""
    here, *others = (shown(report.paper) for report in _compared(audit).values())
    if not here or not others:
        return []
    counts = [f"{named([pair])} {sum(pair in pairs for pairs in others)}" for pair in here]
    return [f"Of the {len(others)} other analyses below, so many show it: {', '.join(counts)}."]


def other_analyses(audit: Audit) -> list[str]:
    """Average ranks by all splits and rules, and of what was trained before."""
    compared = {which: report.paper for which, report in _compared(audit).items()}
    said = (
        "Average ranks over the datasets and what Nemenyi's test shows by them. An analysis is a "
        "split and a rule that chooses the epoch. The test compares ranks: whether it tells two "
        "poolings apart depends on those that come between them."
    )
    if any(runs == EARLIER for runs, _ in compared):
        said += (
            f" “{EARLIER.capitalize()}” is a training before this one, on the same fresh splits, "
            "in which some poolings come out the same ([how it "
            "differs](../paper/results/earlier/README.md))."
        )
    return [said, analyses({f"{runs}, by {rule}": c for (runs, rule), c in compared.items()})]


def _compared(audit: Audit) -> dict[tuple[str, str], PaperReport]:
    return {which: report for which, report in audit.reports.items() if not report.paper.empty}


def caption(audit: Audit) -> str:
    """What the picture shows."""
    said = (
        f"Accuracy above {choosing.BASE}, mean over the backbones: each small dot a dataset, above "
        "them the mean and its 95 % interval over datasets; a diamond is the mean of the paper's "
        "figures."
    )
    if audit.costs is not None:
        said += f" Seconds and peak memory of an epoch, in multiples of {choosing.BASE}'s."
    if audit.structure is not None:
        said += " Share of the connected graphs that are connected after pooling."
    return f"<sub>{said}</sub>"


def _lacking(report: PaperReport) -> list[str]:
    """How many of the paper's cells have runs; nothing where all have."""
    cells = len(paper_datasets()) * len(BACKBONES) * len(PAPER_CONVS) * len(POOLS)
    there = int(report.cells["default"].sum())
    return [] if there == cells else [f"Only {there} of the paper's {cells} cells have runs."]


def _over_base(audit: Audit) -> list[str]:
    lead = choosing.leads(audit.everyone)
    if OURS not in lead:
        return []
    over = lead[OURS][1]
    return [
        f"LCPool − {choosing.BASE} is {signed(over.mean)} points over the datasets (95 % interval "
        f"{signed(over.low)} to {signed(over.high)})."
    ]


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
