"""``Report``: the runs of a sweep in, tables and a page out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd

from lcpool.report.cells import CELL, GROUP, Names, Reference, agreeing, choose, gather, select
from lcpool.report.comparison import Comparison
from lcpool.report.statistics import interval
from lcpool.sweep.results import Results

if TYPE_CHECKING:
    from lcpool.report.page import Difference
    from lcpool.report.tables import Ranking


@dataclass(frozen=True)
class Report:
    """What the runs of one split say by one selection rule.

    Attributes:
        results: all runs, and their curves.
        rule: "accuracy" or "loss", by which epochs were chosen.
        split: "shared" or "fresh".
        runs: the runs of that split.
        cells: their cells, beside published figures if there are any; ``best`` marks the highest
            of a group, ``low`` and ``high`` are the ends of the 95 % interval of the mean.
        ranked: the poolings that are ranked.
        reference: published figures that ours are compared with, if any.
        chosen: under "pools" and "datasets", the names that were chosen, if not all were.
    """

    results: Results
    rule: str
    split: str
    runs: pd.DataFrame
    cells: pd.DataFrame
    ranked: Comparison
    reference: Reference | None = None
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        results: Results,
        rule: str = "accuracy",
        split: str | None = None,
        pools: Names = None,
        datasets: Names = None,
        reference: Reference | None = None,
    ) -> Self:
        """Report on the runs of one split by one rule.

        Args:
            results: the runs of a sweep.
            rule: "accuracy" or "loss", by which the epoch was chosen.
            split: "shared" or "fresh"; by default fresh, if there are such runs.
            pools: the poolings to report on, as if there were no others; all by default. See
                :func:`lcpool.report.cells.choose`.
            datasets: the datasets, likewise.
            reference: published figures to compare with.
        """
        results, chosen = choose(results, pools, datasets)
        runs = select(results, rule, split)
        cells = gather(runs, reference)
        contenders = cells[~cells["pool"].isin(_aside(cells, reference))]
        highest = contenders.groupby(GROUP)["mean"].transform("max").reindex(cells.index)
        cells["best"] = cells["mean"] >= highest
        cells["low"], cells["high"] = _intervals(runs, cells)
        return cls(
            results=results,
            rule=rule,
            split=str(runs["split"].iloc[0]),
            runs=runs,
            cells=cells,
            ranked=Comparison.of(runs, list(dict.fromkeys(contenders["pool"]))),
            reference=reference,
            chosen=chosen,
        )

    @property
    def aside(self) -> set[str]:
        """The poolings that are not ranked, as variants of others."""
        return _aside(self.cells, self.reference)

    @property
    def agreeing(self) -> tuple[int, int]:
        """How many cells agree with the reference, of how many that can be judged."""
        return agreeing(self.cells)

    def findings(self) -> dict[str, list[str]]:
        """What the figures say: sentences, by what they are about."""
        from lcpool.report.findings import findings

        return findings(self)

    def not_ranked(self) -> list[str]:
        """A sentence for everything that is not ranked because cells are missing."""
        from lcpool.report.findings import not_ranked

        return not_ranked(self)

    def rankings(self) -> list[Ranking]:
        """Tables of average ranks."""
        from lcpool.report.tables import rankings

        return rankings(self.ranked)

    def differences(self) -> list[Difference]:
        """Tables of one pooling against the others, for the page."""
        from lcpool.report.page import first_against_others

        return first_against_others(self.ranked)

    def page(self) -> str:
        """The page as HTML."""
        from lcpool.report.page import page

        return page(self)

    def write(self, folder: str | Path) -> list[Path]:
        """Write ``report.html`` and the tables as Markdown, LaTeX and CSV; their paths."""
        from lcpool.report import tables

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "report.html": self.page(),
            "tables.md": tables.markdown(self),
            "tables.tex": tables.latex(self),
            "tables.csv": tables.csv(self),
            "ranks.csv": tables.ranks_csv(self),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        return [folder / name for name in texts]


def _aside(cells: pd.DataFrame, reference: Reference | None) -> set[str]:
    """Variants beside what they are variants of, where there are published figures."""
    if reference is None or cells["reference_mean"].isna().all():
        return set()
    names = set(cells["name"])
    variants = [variant for variant, of in reference.variants.items() if of in names]
    return set(cells["pool"][cells["name"].isin(variants)])


def _intervals(runs: pd.DataFrame, cells: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """The ends of each cell's interval; that of fresh splits is wider, for they overlap."""
    of_cell = dict(iter(runs.dropna(subset="accuracy").groupby(CELL)["accuracy"]))
    fresh = (runs["split"] == "fresh").all()
    halves = []
    for cell in cells.to_dict("records"):
        accuracies = of_cell.get(tuple(cell[name] for name in CELL), pd.Series(dtype=float))
        share = cell["num_test"] / cell["num_train"] if fresh else 0.0
        half = interval(accuracies.to_numpy(), share)
        halves.append(np.nan if half is None else half)
    return (cells["mean"] - halves).clip(0, 100), (cells["mean"] + halves).clip(0, 100)
