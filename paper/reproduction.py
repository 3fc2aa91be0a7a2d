"""Both splits and both rules beside the paper: how many cells agree, and which do not.

A report is of one split and one rule, which change what is measured. Whether the paper was
reproduced is asked of all of them, side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lcpool.report.cells import CELL, GROUP, Names, agreeing, choose, gather, select
from lcpool.report.findings import agreement_in_words, provenance
from lcpool.report.tables import Markdown
from lcpool.sweep.results import Results
from lcpool.train import RULES
from lcpool.words import count, figure, signed
from paper.published import in_paper_order, reference
from paper.report import PaperReport

SPLITS = ("fresh", "shared")
STYLE = Markdown()
SHUFFLES = 200  # Enough for their mean.

RULE = """\
A cell agrees when |ours − paper| ≤ 2·√(100²·p(1 − p)/n_test + s²_ours/runs + s²_paper/10), with p
our mean as a fraction, and s standard deviations over runs, in percent."""

MEANING = """\
That cells agree says that accuracies are as high as the paper's. It does not say that the same
poolings are ahead: where test sets are small the rule allows much. So the table has, too, how many
cells would agree if all cells of a dataset were equal, or if the paper's poolings changed places
within a group (mean of shuffles). Leads are over the mean of a group, a backbone with a convolution
on a dataset."""

SECONDS = """\
Seconds are the sum of that column: a run has its share of the time that the runs trained as one
with it took. Where several processes shared a device, the time of each counts in full."""


@dataclass(frozen=True)
class Analysis:
    """The cells of one split by one rule.

    Attributes:
        split: "shared" or "fresh".
        rule: "accuracy" or "loss", by which epochs were chosen.
        cells: as :func:`lcpool.report.cells.gather` makes them.
    """

    split: str
    rule: str
    cells: pd.DataFrame

    def __str__(self) -> str:
        said = agreement_in_words(self.cells, "paper")
        return f"{self.split} split, epoch by validation {self.rule}: {said}"


@dataclass(frozen=True)
class Reproduction:
    """What the runs of both splits say.

    Attributes:
        reports: of each split, by one rule.
        analyses: of each split by both rules, where there is a cell that can be judged.
    """

    reports: list[PaperReport]
    analyses: list[Analysis]

    @classmethod
    def of(
        cls,
        results: Results,
        rule: str = "accuracy",
        pools: Names = None,
        datasets: Names = None,
        audit: str | None = None,
    ) -> Reproduction:
        """Analyse runs of both splits; ``rule`` is that of the reports, the rest as there."""
        chosen, _ = choose(in_paper_order(results), pools, datasets)
        analyses = [
            Analysis(split, each, gather(select(chosen, each, split), reference()))
            for split in SPLITS
            for each in RULES
        ]
        judged = [analysis for analysis in analyses if agreeing(analysis.cells)[1]]
        reports = [PaperReport.of(results, rule, split, pools, datasets, audit) for split in SPLITS]
        return cls(reports, judged)

    def write(self, folder: str | Path) -> list[Path]:
        """Write the reports, each to a folder of its split's name, and ``agreement.md``."""
        folder = Path(folder)
        written = [path for report in self.reports for path in report.write(folder / report.split)]
        if not self.analyses:
            return written
        path = folder / "agreement.md"
        path.write_text(self.markdown(), encoding="utf-8", newline="\n")
        return [*written, path]

    def markdown(self) -> str:
        """How many cells agree, which do not, and where the runs come from."""
        tables = (
            _counts(self.analyses), _meaning(self.analyses), _disagreeing(self.analyses),
            _origin(self.reports),
        )  # fmt: skip
        return "\n\n".join(["# Agreement with the paper", RULE, *tables, SECONDS]) + "\n"


class Power(NamedTuple):
    """What the rule would also have let pass, and what it does not check.

    Attributes:
        level: how many cells would agree, had each cell its dataset's mean over all of them.
        shuffled: how many, had the paper its poolings' figures in another order within a group.
        tolerance: the median difference that counts as agreement, in points.
        correlation: of leads over the group's mean, ours with the paper's.
    """

    level: int
    shuffled: float
    tolerance: float
    correlation: float


def power(cells: pd.DataFrame) -> Power:
    """What agreement of these cells shows; only where there is a cell that can be judged."""
    judged = cells[cells["agrees"].notna()]
    ours, paper = judged["mean"], judged["reference_mean"].astype(float)
    allowed = judged["tolerance"]
    level = ours.groupby(judged["dataset"]).transform("mean")
    random = np.random.default_rng(0)
    groups = judged.groupby(GROUP).indices.values()
    agree = []
    for _ in range(SHUFFLES):
        moved = paper.to_numpy(copy=True)
        for group in groups:
            moved[group] = random.permutation(moved[group])
        agree.append(((ours - moved).abs() <= allowed).sum())
    leads = [
        m - m.groupby([judged[name] for name in GROUP]).transform("mean") for m in (ours, paper)
    ]
    return Power(
        int(((level - paper).abs() <= allowed).sum()), float(np.mean(agree)),
        float(allowed.median()), float(leads[0].corr(leads[1])),
    )  # fmt: skip


def _counts(analyses: Sequence[Analysis]) -> str:
    rows = []
    for analysis in analyses:
        agree, judged = agreeing(analysis.cells)
        rows.append(
            [analysis.split, analysis.rule, f"{agree} of {judged}", f"{100 * agree / judged:.1f} %"]
        )
    return STYLE.table("How many agree", ["split", "epoch by validation", "cells", "share"], rows)


def _meaning(analyses: Sequence[Analysis]) -> str:
    """What so much agreement shows, and what it does not."""
    rows = []
    for analysis in analyses:
        found, (agree, judged) = power(analysis.cells), agreeing(analysis.cells)
        rows.append([
            analysis.split, analysis.rule, f"{agree} of {judged}", str(found.level),
            f"{found.shuffled:.1f}", f"{found.tolerance:.1f}", f"{found.correlation:.2f}",
        ])  # fmt: skip
    header = ["split", "epoch by validation", "cells that agree",
              "if ours were the mean of their dataset", "if the paper's poolings were shuffled",
              "median difference allowed, points", "correlation of poolings' leads"]  # fmt: skip
    return f"{STYLE.table('What that says', header, rows)}\n\n{MEANING}"


def _disagreeing(analyses: Sequence[Analysis]) -> str:
    """The cells that do not agree in one analysis or another, in the paper's order."""
    by_analysis = [
        {_cell_names(cell): cell for cell in analysis.cells.to_dict("records")}
        for analysis in analyses
    ]
    rows = []
    for name in dict.fromkeys(name for cells in by_analysis for name in cells):
        seen = [cells.get(name) for cells in by_analysis]
        judged = [cell for cell in seen if cell is not None and pd.notna(cell["agrees"])]
        if not all(cell["agrees"] for cell in judged):
            paper = figure(judged[0]["reference_mean"], judged[0]["reference_std"])
            rows.append([*map(STYLE.escape, name), paper, *map(_beside_paper, seen)])
    header = ["dataset", "backbone", "conv", "pooling", "paper"]
    header += [f"{analysis.split}, by {analysis.rule}" for analysis in analyses]
    table = STYLE.table("Which do not", header, rows)
    return (
        f"{table}\n\n{count(len(rows), 'cell')}. Below our mean ± standard deviation stands ours − "
        "paper / the largest difference that counts as agreement, in points."
    )


def _cell_names(cell: dict[str, Any]) -> tuple[str, ...]:
    return tuple(cell[name] for name in CELL)


def _beside_paper(cell: dict[str, Any] | None) -> str:
    """Our figure above its distance from the paper's."""
    if cell is None:
        return "–"
    ours = figure(cell["mean"], cell["std"])
    if pd.isna(cell["agrees"]):
        return ours
    mark = STYLE.agree if cell["agrees"] else STYLE.differ
    allowed = f"{cell['tolerance']:.2f}"
    if f"{abs(cell['difference']):.2f}" == allowed:  # Too close for two decimals.
        allowed = f"{cell['tolerance']:.4f}, off by {abs(cell['difference']):.4f}"
    return STYLE.above(ours, f"{signed(cell['difference'])} / {allowed}{mark}")


def _origin(reports: Sequence[PaperReport]) -> str:
    """What the runs are and were made with, a column a split."""
    columns = [
        {**provenance(report), "seconds": f"{report.runs['seconds'].sum():.0f}"}
        for report in reports
    ]
    # The heading says the split; and the figures above are by both rules.
    names = [name for name in columns[0] if name not in ("split", "epoch")]
    rows = [[name, *(STYLE.escape(column[name]) for column in columns)] for name in names]
    return STYLE.table("The runs", ["", *(report.split for report in reports)], rows)
