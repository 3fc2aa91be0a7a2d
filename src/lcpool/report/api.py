"""``Report``: the runs of a sweep in, tables and a page out."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pandas as pd

from lcpool.atomic import write_together
from lcpool.data.splits import Scheme
from lcpool.notebook import card
from lcpool.report import tables
from lcpool.report.cells import GROUP, Names, Reference, agreeing, choose, gather, select
from lcpool.report.comparison import Comparison
from lcpool.report.findings import answer, findings, left_out_in_words, provenance
from lcpool.report.measure import Measure, choose_measure
from lcpool.report.page import DifferenceTable, page, splits_sheet
from lcpool.report.verdict import Verdicts, uninformative
from lcpool.sweep.results import Results
from lcpool.train.tasks import LOSS

# Of the origin of the runs, what is told beside the answer.
SHOWN = ("runs", "chosen", "split", "epoch")


@dataclass(frozen=True)
class Report:
    """What the runs of one split say by one selection rule; made by ``Report.of``.

    Attributes:
        runs: the runs of that split.
        cells: their cells, see ``lcpool.report.cells.gather``; ``best`` marks the highest of a
            group.
        ranked: the poolings that are ranked.
        aside: poolings that are shown, but not ranked.
        chosen: under "pools" and "datasets", the names that were chosen, if not all were.
        verdicts: a reference against each other pooling: better, equal or worse.
    """

    results: Results
    rule: str
    split: str
    runs: pd.DataFrame
    cells: pd.DataFrame
    ranked: Comparison
    verdicts: Verdicts
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
        against: str | None = None,
        margin: float | None = None,
        families: Mapping[str, str] | None = None,
    ) -> Self:
        """Report on the runs of one split by one rule.

        Args:
            results: the runs of a sweep.
            rule: by what the epoch was chosen: the metric ("accuracy"), which is the default, or
                "loss".
            split: "fresh", "10-fold" or another scheme of splits, "predefined" for those of every
                dataset; by default fresh, if there are such runs.
            pools: the poolings to report on, as if there were no others; all by default. See
                ``lcpool.report.cells.choose``.
            datasets: the datasets to report on; all by default.
            reference: published figures to compare with.
            unranked: poolings to show without a rank.
            metric: the metric to report on; by default the one that chose the epochs. Runs whose
                epochs were chosen by different metrics are refused, unless one of these is named.
            against: the pooling that each other one is judged against; by default the one with the
                highest mean.
            margin: poolings that differ by no more are equal, in points (hundredths where the
                metric is not in percent, percent of an error); 1 by default.
            families: datasets that are no independent evidence, each with the name of its family;
                by default ``lcpool.report.verdict.FAMILIES``.
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
        ranked = Comparison.of(runs, list(cells["pool"][~aside].unique()), measure)
        return cls(
            results=results,
            rule=measure.rule(rule),
            split=Scheme.of(runs["split"].iloc[0]).family,
            runs=runs,
            cells=cells,
            ranked=ranked,
            verdicts=Verdicts.of(ranked, against, margin, families),
            aside=frozenset(cells["pool"][aside]),
            reference=reference,
            measure=measure,
            chosen=chosen,
        )

    def __repr__(self) -> str:
        return f"Report({self.results}, {self.split} splits, epochs by {self.rule_title})"

    def _repr_html_(self) -> str:
        source = provenance(self)
        shown = {name: source[name] for name in SHOWN if name in source}
        facts = {"answer": " ".join(answer(self)), **shown}
        return card("Report", facts, *tables.verdict_rows(self))

    @property
    def rule_title(self) -> str:
        """By what the epochs were chosen, in words."""
        return self.measure.rule_title(self.rule)

    @property
    def agreeing(self) -> tuple[int, int]:
        """How many cells agree with the reference, of how many that can be judged."""
        return agreeing(self.cells)

    @functools.cached_property
    def uninformative(self) -> list[str] | None:
        """Datasets on which poolings can hardly differ; None where that cannot be said."""
        largest = self.cells.groupby("dataset")["largest_class"].mean()
        return uninformative(self.ranked, largest.to_dict())

    @functools.cached_property
    def sensitivity(self) -> pd.DataFrame:
        """Other analyses: the verdicts by other priors, the other rule, fewer datasets.

        A row per analysis and pooling: the three probabilities, ``difference`` and ``verdict``.
        """
        other = LOSS if self.rule != LOSS else self.measure.selected_by.name
        value = self.runs[self.measure.column(other)]
        runs, pools = self.runs.assign(value=value), self.ranked.trained_pools
        c = Comparison.of(runs, pools, self.measure)
        rule = f"epoch by validation {self.measure.rule_title(other)}"
        informative = None
        if without := self.uninformative:
            informative = [name for name in self.ranked.trained_datasets if name not in without]
        return self.verdicts.sensitivity((rule, c), informative)

    def findings(self) -> dict[str, list[str]]:
        """What the figures say: sentences, by topic."""
        return findings(self)

    def not_ranked(self) -> list[str]:
        """Sentences about what is not ranked because results are missing."""
        return left_out_in_words(self.ranked)

    def differences(self) -> list[DifferenceTable]:
        """Tables of one pooling against the others, for the page."""
        c = self.ranked
        if c.empty:
            return []
        title = f"{c.order[0]}, which ranks first, against the others, on each dataset over its"
        return [(f"{title} splits", "over-splits", splits_sheet(c, ["dataset"]))]

    def page(self) -> str:
        """The page as HTML."""
        return page(self)

    def write(self, folder: str | Path) -> list[Path]:
        """Write tables as CSV, Markdown and LaTeX, and ``report.html``; returns their paths.

        None of them takes the place of an older file before all are written.
        """
        texts = {
            Path(folder, "tables.csv"): tables.csv(self),
            Path(folder, "verdicts.csv"): tables.verdicts_csv(self),
            Path(folder, "sensitivity.csv"): tables.sensitivity_csv(self),
            Path(folder, "ranks.csv"): tables.ranks_csv(self),
            Path(folder, "tables.md"): tables.markdown(self),
            Path(folder, "tables.tex"): tables.latex(self),
            Path(folder, "report.html"): self.page(),
        }
        write_together({path: text.encode() for path, text in texts.items()})
        return list(texts)
