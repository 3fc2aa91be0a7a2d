"""``PaperReport``: a report that puts the paper's figures and claims beside the runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pandas as pd

from lcpool.models import BACKBONES, POOLINGS
from lcpool.report import Comparison, Report
from lcpool.report.cells import CELL, GROUP, Names, choose
from lcpool.report.findings import left_out_in_words
from lcpool.report.page import DifferenceTable, page, splits_sheet
from lcpool.report.statistics import FEWEST_RUNS
from lcpool.report.verdict import Verdicts
from lcpool.settings import PAPER_CONVS
from lcpool.sweep.results import Results
from lcpool.words import listed
from paper.claims import Claim, claims
from paper.datasets import paper_datasets
from paper.published import OURS, VARIANT, in_paper_order, reference

TEMPLATE, STYLE = (Path(__file__).with_name(f"page.{end}") for end in ("html.j2", "css"))


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
        """As ``Report.of``, with the paper as the reference; as there, the variant has no rank.

        Poolings are judged against LCPool, where it is among them.
        """
        results = in_paper_order(results)
        runs = choose(results, pools, datasets)[0].runs
        its = OURS in set(runs["pool"]) and runs["dataset"].isin(list(paper_datasets())).any()
        unranked = (VARIANT,) if its else ()
        made = super().of(results, rule, split, pools, datasets, reference(), unranked)
        ours = OURS in made.ranked.trained_pools
        verdicts = Verdicts.of(made.ranked, OURS) if ours else made.verdicts
        return replace(made, audit=audit, verdicts=verdicts)

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
        """Also what is missing in the paper's ranking, if that is something else."""
        said = super().not_ranked()
        if self.paper.left_out != self.ranked.left_out:
            fewer = f"fewer than {FEWEST_RUNS} runs trained as the paper's"
            said += [f"In the paper's ranking: {s}" for s in left_out_in_words(self.paper, fewer)]
        return said

    def differences(self) -> list[DifferenceTable]:
        """And LCPool, of which the paper speaks, against the others in every group."""
        found, c = super().differences(), self.paper
        if not self.claims or OURS not in c.pools:
            return found
        title = f"{OURS}, of which the paper speaks, against the others"
        return [
            *found,
            (f"{title}, in each group over its splits", "ours-over-splits",
             splits_sheet(c, GROUP, OURS)),
        ]  # fmt: skip

    def page(self) -> str:
        """The page, with the claims and a link to the audit."""
        template = TEMPLATE.read_text("utf-8")
        return page(self, template, STYLE.read_text("utf-8"), audit=self.audit)


def as_paper(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that the paper's claims are about, of cells that have enough of them."""
    known = {
        "dataset": paper_datasets(),
        "backbone": BACKBONES,
        "conv": PAPER_CONVS,
        "name": POOLINGS,
    }
    its = runs["default"]
    for column, names in known.items():
        its = its & runs[column].isin(list(names))
    enough = runs.groupby(CELL)["value"].transform("count") >= FEWEST_RUNS
    return runs[its & enough]


def _there(runs: pd.DataFrame) -> list[str]:
    return [pool for pool in POOLINGS if pool in set(runs["pool"])]
