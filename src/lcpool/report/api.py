"""``Report``: the runs of a sweep in, tables and a page out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pandas as pd

from lcpool.atomic import whole_file
from lcpool.report import tables
from lcpool.report.cells import GROUP, Names, Reference, agreeing, choose, gather, select
from lcpool.report.comparison import Comparison
from lcpool.report.findings import findings, left_out_in_words
from lcpool.report.measure import Measure, choose_measure
from lcpool.report.page import DifferenceTable, first_against_others, page
from lcpool.sweep.results import Results


@dataclass(frozen=True)
class Report:
    """What the runs of one split say by one selection rule; made by :meth:`of`.

    Attributes:
        runs: the runs of that split.
        cells: their cells, see :func:`lcpool.report.cells.gather`; ``best`` marks the highest of a
            group.
        ranked: the poolings that are ranked.
        aside: poolings that are shown, but not ranked.
        chosen: under "pools" and "datasets", the names that were chosen, if not all were.
    """

    results: Results
    rule: str
    split: str
    runs: pd.DataFrame
    cells: pd.DataFrame
    ranked: Comparison
    aside: frozenset[str] = frozenset()
    reference: Reference = field(default_factory=Reference)
    measure: Measure = field(default_factory=Measure)
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        results: Results,
        rule: str | None = None,
        split: str | None = None,
        pools: Names = None,
        datasets: Names = None,
        reference: Reference | None = None,
        unranked: Collection[str] = (),
        metric: str | None = None,
    ) -> Self:
        """Report on the runs of one split by one rule.

        Args:
            results: the runs of a sweep.
            rule: by what the epoch was chosen: the metric ("accuracy"), which is the default, or
                "loss".
            split: "shared" or "fresh"; by default fresh, if there are such runs.
            pools: the poolings to report on, as if there were no others; all by default. See
                :func:`lcpool.report.cells.choose`.
            datasets: the datasets to report on; all by default.
            reference: published figures to compare with.
            unranked: poolings to show without a rank.
            metric: the metric to report on; by default the one that chose the epochs. Runs whose
                epochs were chosen by different metrics are refused, unless one of these is named.
        """
        results, chosen = choose(results, pools, datasets)
        results, measure = choose_measure(results, metric)
        reference = reference or Reference()
        if reference.figures and measure.title != "accuracy":
            raise ValueError(f"published figures are accuracies, which these are not: {metric}.")
        runs = select(results, rule, split, measure)
        cells = gather(runs, reference, measure)
        aside, value = cells["name"].isin(list(unranked)), measure.sign * cells["mean"]
        best = value[~aside].groupby([cells[name] for name in GROUP]).transform("max")
        cells["best"] = value >= best.reindex(cells.index)
        return cls(
            results=results,
            rule=measure.rule(rule),
            split=str(runs["split"].iloc[0]),
            runs=runs,
            cells=cells,
            ranked=Comparison.of(runs, list(cells["pool"][~aside].unique()), measure),
            aside=frozenset(cells["pool"][aside]),
            reference=reference,
            measure=measure,
            chosen=chosen,
        )

    @property
    def rule_title(self) -> str:
        """By what the epochs were chosen, in words."""
        return self.measure.rule_title(self.rule)

    @property
    def agreeing(self) -> tuple[int, int]:
        """How many cells agree with the reference, of how many that can be judged."""
        return agreeing(self.cells)

    def findings(self) -> dict[str, list[str]]:
        """What the figures say: sentences, by topic."""
        return findings(self)

    def not_ranked(self) -> list[str]:
        """Sentences about what is not ranked because results are missing."""
        return left_out_in_words(self.ranked)

    def differences(self) -> list[DifferenceTable]:
        """Tables of one pooling against the others, for the page."""
        return first_against_others(self.ranked)

    def page(self) -> str:
        """The page as HTML."""
        return page(self)

    def write(self, folder: str | Path) -> list[Path]:
        """Write tables as CSV, Markdown and LaTeX, and last ``report.html``; returns their paths.

        Each file is written whole or not at all, and only after all of them are made.
        """
        texts = {
            Path(folder, "tables.csv"): tables.csv(self),
            Path(folder, "ranks.csv"): tables.ranks_csv(self),
            Path(folder, "tables.md"): tables.markdown(self),
            Path(folder, "tables.tex"): tables.latex(self),
            Path(folder, "report.html"): self.page(),
        }
        for path, text in texts.items():
            with whole_file(path) as file:
                file.write(text.encode())
        return list(texts)
