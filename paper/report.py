"""``PaperReport``: a report that puts the paper's figures and claims beside the runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pandas as pd

from lcpool.models import BACKBONES, CONVS, POOLINGS
from lcpool.report import Comparison, Report
from lcpool.report.cells import CELL, GROUP, Names
from lcpool.report.comparison import RESAMPLES
from lcpool.report.findings import lacks
from lcpool.report.page import Difference, datasets_sheet, page, splits_sheet
from lcpool.report.statistics import FEWEST_RUNS
from lcpool.report.tables import Ranking
from lcpool.report.words import listed
from lcpool.sweep.results import Results
from paper.claims import Claim, claims
from paper.datasets import paper_datasets
from paper.published import OURS, VARIANT, reference
from paper.rankings import beside_paper

TEMPLATE = Path(__file__).with_name("page.html.j2")


@dataclass(frozen=True)
class PaperReport(Report):
    """A report beside the paper.

    Attributes:
        audit: the address of the audit, as seen from the page, which links to it.
    """

    audit: str | None = None

    @classmethod
    def of(  # type: ignore[override]  # The reference is the paper's.
        cls,
        results: Results,
        rule: str = "accuracy",
        split: str | None = None,
        pools: Names = None,
        datasets: Names = None,
        audit: str | None = None,
    ) -> Self:
        """As ``Report.of``, with the paper as the reference."""
        made = super().of(results, rule, split, pools, datasets, reference())
        return replace(made, audit=audit)

    @functools.cached_property
    def paper(self) -> Comparison:
        """The paper's ranking: its poolings on its datasets, trained as there with enough runs."""
        theirs = as_paper(self.runs)
        return Comparison.of(theirs, [pool for pool in _there(theirs) if pool != VARIANT])

    @functools.cached_property
    def claims(self) -> list[Claim]:
        """What became of the paper's claims, which are put to ``paper``."""
        theirs = as_paper(self.runs)
        both = [pool for pool in _there(theirs) if pool in (OURS, VARIANT)]
        return claims(self.paper, Comparison.of(theirs, both))

    def findings(self) -> dict[str, list[str]]:
        """Those of every report, and why claims or figures of the paper are left out."""
        found = super().findings()
        if found["agreement"] and not self.claims:
            found["agreement"].append(
                "Its claims are left out: they take LCPool beside another pooling, trained as in "
                f"the paper, with {FEWEST_RUNS} runs at least in each cell."
            )
        known = self.cells["dataset"].isin(list(paper_datasets()))
        if known.any() and self.cells["reference_mean"].isna().all():
            settings = listed(sorted(set(self.cells["settings"][known])))
            found["missing"].append(
                "The paper's figures and claims are left out: no cell was trained as there "
                f"({settings})."
                if settings
                else "The paper's figures are left out: it has none for these cells."
            )
        return found

    def not_ranked(self) -> list[str]:
        """And what the claims are not put to, where that is something else."""
        groups = set(self.cells[GROUP].itertuples(index=False, name=None))
        known = {(part.kind, part.name) for part in self.ranked.left_out}
        others = [part for part in self.paper.left_out if (part.kind, part.name) not in known]
        fewer = f"fewer than {FEWEST_RUNS} runs as the paper's"
        return [
            *super().not_ranked(),
            *(f"Not in the paper's ranking: {lacks(part, fewer, groups)}." for part in others),
        ]

    def rankings(self) -> list[Ranking]:
        """The paper's ranking first, and what is ranked here where that is not the same."""
        ours, paper, ranked = super().rankings(), self.paper, self.ranked
        if paper.empty or len(paper.groups) < 2:
            return ours
        same = (paper.pools, len(paper.groups)) == (ranked.pools, len(ranked.groups))
        return [beside_paper(paper), *([] if same else ours)]

    def differences(self) -> list[Difference]:
        """And LCPool, of which the paper speaks, against the others."""
        found, c = super().differences(), self.paper
        if not self.claims or OURS not in c.pools:
            return found
        title = f"{OURS}, of which the paper speaks, against the others"
        return [
            *found,
            (f"{title}, over the datasets", "ours-over-datasets", datasets_sheet(c, OURS, False)),
            (f"{title}, in each group over its splits", "ours-over-splits",
             splits_sheet(c, OURS, False, GROUP)),
        ]  # fmt: skip

    def page(self) -> str:
        """The page, with the claims and a link to the audit."""
        template = TEMPLATE.read_text("utf-8")
        return page(self, template, audit=self.audit, resamples=RESAMPLES)


def as_paper(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that the paper's claims are about, of cells that have enough of them."""
    known = {"dataset": paper_datasets(), "backbone": BACKBONES, "conv": CONVS, "name": POOLINGS}
    its = runs["default"]
    for column, names in known.items():
        its = its & runs[column].isin(list(names))
    enough = runs.groupby(CELL)["accuracy"].transform("count") >= FEWEST_RUNS
    return runs[its & enough]


def _there(runs: pd.DataFrame) -> list[str]:
    return [pool for pool in POOLINGS if pool in set(runs["pool"])]
