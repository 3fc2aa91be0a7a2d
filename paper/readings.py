"""Cells of the paper's in which a pooling does not learn, with another setting in its place."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from lcpool.report.cells import CELL, GROUP, select
from lcpool.report.comparison import Comparison
from lcpool.report.verdict import Verdicts
from lcpool.sweep.results import Results
from lcpool.words import listed, signed
from paper.names import named
from paper.published import OURS, in_paper_order
from paper.report import PaperReport, as_paper


@dataclass(frozen=True)
class Readings:
    """What other settings in some cells of a pooling change.

    Attributes:
        pool: the pooling.
        groups: where it has another setting.
        usual: the paper's poolings as they are read here.
        instead: by setting, the same with its runs in these cells.
    """

    pool: str
    groups: list[str]
    usual: Comparison
    instead: dict[str, Comparison]

    @classmethod
    def of(cls, report: PaperReport, others: Results) -> Readings:
        """Put the runs of ``others`` into their cells, one setting at a time."""
        others, theirs = in_paper_order(others), as_paper(report.runs)
        chosen = select(others, report.rule, report.split)
        if chosen["name"].nunique() != 1:
            names = listed(sorted(set(chosen["name"])))
            raise ValueError(f"the runs must be of one pooling, not of {names}.")
        pool, pools = str(chosen["name"].iloc[0]), report.paper.pools
        instead = {}
        for option, runs in chosen.groupby("settings", sort=False):
            runs = runs.assign(pool=pool)
            swapped = set(runs[CELL].itertuples(index=False, name=None))
            kept = theirs[[cell not in swapped for cell in theirs[CELL].itertuples(index=False)]]
            instead[str(option)] = Comparison.of(pd.concat([kept, runs]), pools)
        groups = [" ".join(group) for group in chosen[GROUP].drop_duplicates().to_numpy()]
        return cls(pool, groups, report.paper, instead)

    def fails(self) -> str:
        """Where the pooling does not learn."""
        return f"{named(self.pool)} does not learn in some runs of {listed(self.groups)}"

    def said(self) -> str:
        """How far LCPool is ahead with the settings there."""
        texts = [f"with `{o}` {_standing(c, self.pool)}" for o, c in self.instead.items()]
        return (
            f"{self.fails()}. {named(OURS)}'s lead over it is {_standing(self.usual, self.pool)}; "
            f"were it trained with another norm there, the lead would be {listed(texts)}."
        )


def _standing(c: Comparison, pool: str) -> str:
    """How far LCPool is ahead of a pooling on the average dataset, and the verdict."""
    for rival in Verdicts.of(c, OURS).rivals:
        if rival.pool == pool:
            return f"{signed(rival.mean, 1)} points ({rival.word})"
    return "–"
