"""The chapters of the audit: the answer first, then the paper, then what helps to choose.

Every figure is computed. Where a file is missing, its chapter says which command makes it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lcpool.models import BACKBONES
from lcpool.report.cells import CELL, GROUP
from lcpool.report.comparison import Comparison, pairs_over_splits
from lcpool.report.statistics import ALPHA
from lcpool.report.tables import Markdown
from lcpool.settings import PAPER_CONVS, POOLS
from lcpool.words import count, figure
from paper import answer, choosing, shown
from paper.claims import Claim
from paper.datasets import paper_datasets
from paper.oddities import oddities, ranking
from paper.published import OURS, VARIANT
from paper.report import PaperReport, as_paper
from paper.shown import EARLIER
from paper.theory import theory

if TYPE_CHECKING:
    from paper.audit import Audit

STYLE = Markdown()

WHY = "../paper/results/paper/README.md#the-cells-that-do-not-agree"

# What may be missing from a folder of results, and the commands that make it.
COSTS, STRUCTURE, ABLATION = "costs.csv", "structure.csv", "ablation/runs.csv"
READINGS, EARLIER_RUNS = "readings/runs.csv", "earlier/runs.csv"
COMMANDS = {
    COSTS: "python benchmarks/training.py --device cuda --workers \\\n"
    f"    --datasets {shlex.join(paper_datasets())} \\\n"
    f"    --pools {shlex.join(POOLS)} \\\n"
    f"    --out paper/results/{COSTS}",
    STRUCTURE: f"python benchmarks/structure.py --out paper/results/{STRUCTURE}",
    ABLATION: "lcpool bench --file paper/results/ablation/grid.toml --store ablation.sqlite\n"
    f"lcpool bench export ablation.sqlite paper/results/{ABLATION}",
}


def opening(audit: Audit, image: str | None) -> list[str]:
    """What holds and which pooling to take, and the picture."""
    runs = as_paper(audit.report.runs)
    c = audit.report.paper
    devices = ", ".join(runs["device"].unique())
    when = f", {audit.measured}" if audit.measured else ""
    picture = [f"![The poolings at a glance]({image})", _caption(audit)] if image else []
    return [
        "# Which of the paper's claims hold?",
        f"{count(len(runs), 'run')} of the paper's networks, trained again: {len(c.datasets)} "
        f"datasets, {len(c.backbones)} networks, {runs['pool'].nunique()} poolings, "
        f"{runs['run'].nunique()} runs of each on {audit.report.split} splits (one {devices}"
        f"{when}). `make audit` writes this page from [the "
        "runs](../paper/results/paper/README.md); [the report](report.md#the-model) explains the "
        "model.",
        "## The answer",
        *(_prose(str(point)) for point in answer.points(audit)),
        *picture,
    ]


def _caption(audit: Audit) -> str:
    said = (
        "LCPool against each other pooling, above zero where LCPool is better. The bar: how "
        "probable it is that on the average dataset LCPool is worse, equal (within the shaded "
        "margin of one point) or better. A dot is a dataset, the diamond the average one, with 95 "
        "% intervals."
    )
    if audit.costs is not None:
        said += " Below, accuracy beside LCPool's against seconds of an epoch."
    return f"<sub>{said}</sub>"


def claims(audit: Audit) -> list[str]:
    """A row for each claim: the verdict that counts, its numbers, and the verdicts elsewhere."""
    (split, rule), *_others = audit.reports
    rows = [
        [_prose(claim.says), _prose(claim.of_its_figures) or "–", STYLE.bold(claim.verdict),
         _prose(claim.because), _elsewhere(audit, claim) or "–"]
        for claim in audit.report.claims
    ]  # fmt: skip
    header = ["claim", "the paper's own figures", "verdict", "our figures", "otherwise"]
    return [
        "## The claims",
        f"The verdict is that of {split} splits, with epochs chosen by validation {rule}; the last "
        "column has the verdicts of the other analyses. The paper's own figures are those of the "
        f"same {count(len(audit.report.paper.groups), 'group')}, a group being a backbone with a "
        "convolution on a dataset. [What supports and what refutes a "
        "claim](../paper/README.md#the-claims). A claim about accuracies in the tables is compared "
        "with our means, without a test: noise alone can make it true or not.",
        STYLE.grid(header, rows),
        *_variant(audit),
        _convergence(audit.report),
        _agreement(audit),
    ]


def _elsewhere(audit: Audit, claim: Claim) -> str:
    """In how many other analyses the verdict on a claim is the same, and where it is another."""
    verdicts = {
        f"{split}, by {rule}": other.verdict
        for (split, rule), report in list(audit.reports.items())[1:]
        for other in report.claims
        if split != EARLIER and other.says == claim.says
    }
    if not verdicts:
        return ""
    others = [f"{name}: {word}" for name, word in verdicts.items() if word != claim.verdict]
    same = len(verdicts) - len(others)
    return "<br>".join([f"the same in {same} of {len(verdicts)}", *others])


def analyses(audit: Audit) -> list[str]:
    """The verdicts by all splits and rules, by other priors, and by ranks."""
    compared = {
        which: report.verdicts for which, report in audit.reports.items() if report.verdicts.rivals
    }
    said = (
        "LCPool − pooling on the average dataset, in points, and the verdict; small below, the 95 "
        "% interval and the probabilities of worse, equal and better in percent. An analysis is a "
        "split and a rule that chooses the epoch. The last row: the true difference that the first "
        "analysis would have found, and how often it would call two equal poolings equal."
    )
    if any(runs == EARLIER for runs, _ in compared):
        said += (
            f" “{EARLIER.capitalize()}” is a training before this one, on the same fresh splits. "
            "Poolings whose runs came out the same to the bit are no second result ([which these "
            "are](../paper/results/earlier/README.md))."
        )
    found = audit.report.findings()
    lacking = _lacking(audit.report)
    return [
        "## All analyses",
        said,
        shown.analyses({f"{runs}, by {rule}": v for (runs, rule), v in compared.items()}),
        *map(_prose, (
            " ".join(found["sensitivity"]), " ".join(found["ranking"]),
            " ".join([*lacking, *found["missing"]]),
        )),
    ]  # fmt: skip


def _lacking(report: PaperReport) -> list[str]:
    """How many of the paper's cells have runs; nothing where all have."""
    cells = len(paper_datasets()) * len(BACKBONES) * len(PAPER_CONVS) * len(POOLS)
    there = int(report.cells["default"].sum())
    return [] if there == cells else [f"Only {there} of the paper's {cells} cells have runs."]


def _variant(audit: Audit) -> list[str]:
    """LCPool against LCPool*, cell by cell."""
    both = Comparison.of(as_paper(audit.report.runs), [OURS, VARIANT])
    if both.empty:
        return []
    pairs = pairs_over_splits(both, GROUP, OURS)
    return [_prose(f"LCPool against LCPool* in single cells: {choosing.how_often(pairs)}")]


def _convergence(report: PaperReport) -> str:
    """The paper says that every model converges, and that none stops at the first epoch."""
    runs = as_paper(report.runs)
    at_first, limit = int((runs["epoch"] == 1).sum()), int(runs["epochs"].max())
    where = runs["pool"][runs["epoch"] == 1].value_counts()
    text = (
        "The paper also says that every model converges and none stops at the first epoch. Of "
        f"{len(runs)} runs the chosen epoch is the first in {at_first}"
    )
    if at_first:
        text += f" ({', '.join(f'{pool} {n}' for pool, n in where.items())})"
    return _prose(f"{text}; the longest run ended after {limit} epochs.")


def _agreement(audit: Audit) -> str:
    texts = []
    for (split, rule), report in audit.reports.items():
        agree, judged = report.agreeing
        texts.append(f"{agree} of {judged} ({split}, epoch by validation {rule})")
    where = "[Which do not, and where the runs come from](../paper/results/paper/agreement.md)"
    if any(runs == EARLIER for runs, _ in audit.reports):
        where += f" ([those of the {EARLIER} training](../paper/results/earlier/README.md))"
    said = f"Cells that agree with the paper's: {', '.join(texts)}. {where}."
    cells = audit.report.cells
    for cell in cells[cells["default"] & cells["reference_mean"].isna()].to_dict("records"):
        names = " ".join(cell[name] for name in CELL)
        said += (
            f" The paper does not report {names}; here it is {figure(cell['mean'], cell['std'])} %."
        )
    return _prose(said)


def paper() -> list[str]:
    """What the paper proves, and what its own figures say."""
    return [
        "## The propositions",
        "What the paper states of graphs, and the tests that show it, most of them against the "
        "literal dense formula.",
        theory(),
        "## The paper's ranking",
        "As printed / as its own accuracies give it, equals sharing the mean of their ranks; bold "
        "where the two differ. [Ours](../paper/results/paper/fresh/tables.md).",
        ranking(),
        "## Oddities",
        _list(oddities()),
    ]


def accuracy(audit: Audit) -> list[str]:
    """Accuracy beside costs."""
    runs = as_paper(audit.report.runs).merge(audit.everyone.groups, on=GROUP)
    epochs = runs.groupby("pool")["epochs"].mean()
    parts = [
        "## Accuracy and cost",
        _prose(
            "Mean over the datasets, each its mean over the backbones, with Student's interval of "
            f"the difference from {choosing.BASE} over datasets, not corrected for the number of "
            "poolings. LCPool* is ranked like the others here. Epochs until a run stopped."
        ),
        choosing.accuracy_and_costs(audit.everyone, epochs, audit.costs),
    ]
    if audit.costs is None:
        return [*parts, *_missing("Seconds and memory", COSTS)]
    parts.insert(1, _prose(choosing.costs_in_short(audit.costs)))
    return [
        *parts,
        f"Seconds and memory are geometric means of what an epoch takes beside {choosing.BASE}, "
        "small below them the least and the most of a dataset. An epoch of ten runs trained as "
        f"one, each pooling alone on one {', '.join(sorted(set(audit.costs['device'])))} "
        "(hierarchical backbone, GCN):",
        choosing.costs_by_dataset(audit.costs),
        _shell(COSTS),
    ]


def wins(audit: Audit) -> list[str]:
    """LCPool against the others, group by group, and who can be the best on each dataset."""
    c = audit.report.paper
    table, often = choosing.where_ours_wins(c, audit.report.verdicts)
    times = {} if audit.costs is None else choosing.relative(audit.costs, "seconds_per_epoch")
    seconds = {pool: ratio.mean for pool, ratio in times.items()}
    return [
        "## Where LCPool wins, and where not",
        _prose(choosing.advice(c, seconds)),
        "LCPool − pooling in points; bold where the corrected resampled t-test over the splits, "
        f"corrected by Holm for all of them, has p < {ALPHA:g}. {often} In the last row, the mean "
        "of the posterior and the verdict.",
        table,
        *([] if audit.readings is None else [f"{audit.readings.fails()} ([why]({WHY}))."]),
        "On each dataset, by the mean over the backbones, corrected for all pairs of poolings:",
        choosing.contenders(c),
    ]


def connectivity(audit: Audit) -> list[str]:
    """Graphs before and after pooling."""
    heading = "## Do pooled graphs stay connected?"
    if audit.structure is None:
        return [heading, *_missing("Connectivity", STRUCTURE)]
    networks, epochs = (int(audit.structure[name].max()) for name in ("networks", "epochs"))
    return [
        heading,
        _prose(choosing.connected_in_short(audit.structure)),
        f"Of the graphs that are connected, how many are after pooling by a network (hierarchical "
        f"backbone, GCN) that was trained for {epochs} epochs, mean of {networks}"
        f"{f' ({audit.looked_at})' if audit.looked_at else ''}. Small below it, "
        "the least and the most of one network; and means over graphs of connected parts, density "
        "(edges over pairs of nodes, of graphs with two nodes or more) and diameter (of the part "
        "where it is longest). In the first row the graphs as they are: how many are connected. "
        f"{choosing.COMPLETE}",
        choosing.connectivity(audit.structure),
        _shell(STRUCTURE),
    ]


def ablation(audit: Audit) -> list[str]:
    """Other readings of the paper."""
    heading, found = "## Other readings of the paper", audit.ablation
    if found is None:
        return [heading, *_missing("Ablations", ABLATION)]
    return [heading, *found.said(), _shell(ABLATION)]


def _missing(what: str, name: str) -> list[str]:
    return [f"{what}: `paper/results/{name}` is not there. It comes from", _shell(name)]


def _shell(name: str) -> str:
    """The command that makes a file."""
    return f"```sh\n{COMMANDS[name]}\n```"


def _list(texts: Iterable[str]) -> str:
    return "\n".join(f"- {_prose(text)}" for text in texts)


def _prose(text: str) -> str:
    """Sentences with names in them, of which LCPool* would be markup."""
    return re.sub(r"(?<=[lL])\*|\|", r"\\\g<0>", text)
