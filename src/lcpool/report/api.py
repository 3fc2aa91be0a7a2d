"""``Report``: the runs of a sweep in, tables and a page out."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from lcpool.atomic import whole_file
from lcpool.report import tables
from lcpool.report.cells import CELL, GROUP, Names, Reference, agreeing, choose, gather, select
from lcpool.report.comparison import Comparison
from lcpool.report.findings import findings, left_out_in_words
from lcpool.report.page import DifferenceTable, first_against_others, page
from lcpool.report.statistics import interval
from lcpool.sweep.results import Results


@dataclass(frozen=True)
class Report:
    """What the runs of one split say by one selection rule.

    Attributes:
        results: all runs, and their curves.
        rule: "accuracy" or "loss", by which epochs were chosen.
        split: "shared" or "fresh".
        runs: the runs of that split.
        cells: their cells, see :func:`lcpool.report.cells.gather`; ``best`` marks the highest of a
            group, ``low`` and ``high`` are the ends of the 95 % interval of the mean.
        ranked: the poolings that are ranked.
        aside: poolings that are shown, but not ranked.
        reference: published figures that ours are compared with, if any.
        chosen: under "pools" and "datasets", the names that were chosen, if not all were.
    """

    results: Results
    rule: str
    split: str
    runs: pd.DataFrame
    cells: pd.DataFrame
    ranked: Comparison
    aside: frozenset[str] = frozenset()
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
        unranked: Collection[str] = (),
    ) -> Self:
        """Report on the runs of one split by one rule.

        Args:
            results: the runs of a sweep.
            rule: "accuracy" or "loss", by which the epoch was chosen.
            split: "shared" or "fresh"; by default fresh, if there are such runs.
            pools: the poolings to report on, as if there were no others; all by default. See
                :func:`lcpool.report.cells.choose`.
            datasets: the datasets to report on; all by default.
            reference: published figures to compare with.
            unranked: poolings to show without a rank.
        """
        results, chosen = choose(results, pools, datasets)
        runs = select(results, rule, split)
        cells = gather(runs, reference)
        aside = cells["name"].isin(list(unranked))
        contenders = cells[~aside]
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
            aside=frozenset(cells["pool"][aside]),
            reference=reference,
            chosen=chosen,
        )

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
        """Write tables as CSV, Markdown and LaTeX, and ``report.html``; returns their paths.

        None of them takes the place of an older file before all are written.
        """
        texts = {
            "tables.csv": tables.csv(self),
            "ranks.csv": tables.ranks_csv(self),
            "tables.md": tables.markdown(self),
            "tables.tex": tables.latex(self),
            "report.html": self.page(),
        }
        paths = [Path(folder) / name for name in texts]
        with ExitStack() as files:
            for path, text in zip(paths, texts.values(), strict=True):
                file = files.enter_context(whole_file(path))
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        return paths


def _intervals(runs: pd.DataFrame, cells: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """The ends of each cell's interval; wider for fresh splits, which overlap."""
    of_cell = dict(iter(runs.dropna(subset="accuracy").groupby(CELL)["accuracy"]))
    fresh = (runs["split"] == "fresh").all()
    halves = []
    for cell in cells.to_dict("records"):
        accuracies = of_cell.get(tuple(cell[name] for name in CELL), pd.Series(dtype=float))
        share = cell["num_test"] / cell["num_train"] if fresh else 0.0
        half = interval(accuracies.to_numpy(), share)
        halves.append(np.nan if half is None else half)
    return (cells["mean"] - halves).clip(0, 100), (cells["mean"] + halves).clip(0, 100)
