"""``Report``: the runs of a sweep in, tables and a page out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from lcpool.report.agreement import agreement
from lcpool.report.cells import GROUP, gather, select
from lcpool.report.claims import Claim, claims
from lcpool.report.comparison import OURS, VARIANT, Comparison
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
        cells: their cells, beside the paper's figures; ``best`` marks the highest of a group,
            ``half`` is half of the 95 % interval of the mean.
        ranked: the poolings that are ranked.
        variant: LCPool and LCPool*, which the ranking leaves out.
        claims: what became of the paper's claims.
    """

    results: Results
    rule: str
    split: str
    runs: pd.DataFrame
    cells: pd.DataFrame
    ranked: Comparison
    variant: Comparison
    claims: list[Claim]

    @classmethod
    def of(cls, results: Results, rule: str = "accuracy", split: str | None = None) -> Report:
        """Look at the runs of one split by one rule; see :func:`lcpool.report.cells.select`."""
        runs = select(results, rule, split)
        chosen = str(runs["split"].iloc[0])
        cells = gather(runs)
        cells = cells.join(agreement(cells))
        pools = list(dict.fromkeys(cells["pool"]))
        outside = {VARIANT} if OURS in pools else set()
        ranked = Comparison.of(runs, [pool for pool in pools if pool not in outside])
        variant = Comparison.of(runs, [pool for pool in (OURS, VARIANT) if pool in pools])
        contenders = cells[~cells["pool"].isin(outside)]
        highest = contenders.groupby(GROUP)["mean"].transform("max").reindex(cells.index)
        cells["best"] = cells["mean"] >= highest - 1e-9
        cells["half"] = _intervals(runs, cells, chosen)
        return cls(
            results, rule, chosen, runs, cells, ranked, variant,
            claims(ranked, variant, paired=chosen == "fresh"),
        )  # fmt: skip

    @property
    def agreeing(self) -> tuple[int, int]:
        """How many cells agree with the paper, of how many that can be judged."""
        judged = self.cells["agrees"].dropna()
        return int(judged.sum()), len(judged)

    def write(self, folder: str | Path) -> list[Path]:
        """Write ``report.html`` and the tables as Markdown, LaTeX and CSV; their paths."""
        from lcpool.report import tables
        from lcpool.report.page import page

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "report.html": page(self),
            "tables.md": tables.markdown(self),
            "tables.tex": tables.latex(self),
            "tables.csv": tables.csv(self),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        return [folder / name for name in texts]


def _intervals(runs: pd.DataFrame, cells: pd.DataFrame, split: str) -> list[float]:
    """Half of each cell's interval; that of fresh splits is wider, for they overlap."""
    of_cell = runs.dropna(subset="accuracy").groupby([*GROUP, "pool"])["accuracy"]
    values = {name: accuracies.to_numpy() for name, accuracies in of_cell}
    halves = []
    for cell in cells.to_dict("records"):
        accuracies = values.get((*(cell[name] for name in GROUP), cell["pool"]), np.array([]))
        share = cell["num_test"] / cell["num_train"] if split == "fresh" else 0.0
        half = interval(accuracies, share)
        halves.append(np.nan if half is None else half)
    return halves
