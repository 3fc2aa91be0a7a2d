"""``Report``: the runs of a sweep in, tables and a page out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from lcpool.data.table import paper_datasets
from lcpool.models import BACKBONES, CONVS, POOLINGS
from lcpool.report.agreement import agreeing
from lcpool.report.cells import CELL, GROUP, gather, select
from lcpool.report.claims import Claim, claims
from lcpool.report.comparison import OURS, VARIANT, Comparison
from lcpool.report.filters import Names, choose
from lcpool.report.statistics import FEWEST_RUNS, interval
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
            ``low`` and ``high`` are the ends of the 95 % interval of the mean.
        ranked: the poolings that are ranked.
        paper: those of the paper's ranking, on its datasets, trained as there and with
            FEWEST_RUNS at least; empty where there are none.
        claims: what became of the paper's claims, which are put to ``paper``.
        chosen: under "pools" and "datasets", the names that were chosen, if not all were.
    """

    results: Results
    rule: str
    split: str
    runs: pd.DataFrame
    cells: pd.DataFrame
    ranked: Comparison
    paper: Comparison
    claims: list[Claim]
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        results: Results,
        rule: str = "accuracy",
        split: str | None = None,
        pools: Names = None,
        datasets: Names = None,
    ) -> Report:
        """Look at the runs of one split by one rule.

        Args:
            results: the runs of a sweep.
            rule: "accuracy" or "loss", by which the epoch was chosen.
            split: "shared" or "fresh"; by default fresh, if there are such runs.
            pools: the poolings to look at, as if there were no others; all by default. See
                :func:`lcpool.report.filters.choose`.
            datasets: the datasets, likewise.
        """
        results, chosen = choose(results, pools, datasets)
        runs = select(results, rule, split)
        cells = gather(runs)
        aside = _aside(cells)
        contenders = cells[~cells["pool"].isin(aside)]
        highest = contenders.groupby(GROUP)["mean"].transform("max").reindex(cells.index)
        cells["best"] = cells["mean"] >= highest
        cells["low"], cells["high"] = _intervals(runs, cells)
        theirs = as_paper(runs)
        there = [pool for pool in POOLINGS if pool in set(theirs["pool"])]
        paper = Comparison.of(theirs, [pool for pool in there if pool != VARIANT])
        variant = Comparison.of(theirs, [pool for pool in there if pool in (OURS, VARIANT)])
        return cls(
            results=results,
            rule=rule,
            split=str(runs["split"].iloc[0]),
            runs=runs,
            cells=cells,
            ranked=Comparison.of(runs, list(dict.fromkeys(contenders["pool"]))),
            paper=paper,
            claims=claims(paper, variant),
            chosen=chosen,
        )

    @property
    def aside(self) -> set[str]:
        """The poolings that stand outside the ranking."""
        return _aside(self.cells)

    @property
    def agreeing(self) -> tuple[int, int]:
        """How many cells agree with the paper, of how many that can be judged."""
        return agreeing(self.cells)

    def write(self, folder: str | Path, audit: str | None = None) -> list[Path]:
        """Write ``report.html`` and the tables as Markdown, LaTeX and CSV; their paths.

        Args:
            folder: to write to.
            audit: the address, from there, of an audit that the page links to.
        """
        from lcpool.report import tables
        from lcpool.report.page import page

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "report.html": page(self, audit),
            "tables.md": tables.markdown(self),
            "tables.tex": tables.latex(self),
            "tables.csv": tables.csv(self),
            "ranks.csv": tables.ranks_csv(self),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        return [folder / name for name in texts]


def _aside(cells: pd.DataFrame) -> set[str]:
    """LCPool* beside LCPool where there are figures of the paper's, which ranks it nowhere."""
    as_there = cells["paper_mean"].notna().any() and OURS in set(cells["name"])
    return set(cells["pool"][cells["name"] == VARIANT]) if as_there else set()


def as_paper(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that the paper's claims are about, of cells that have enough of them."""
    known = {"dataset": paper_datasets(), "backbone": BACKBONES, "conv": CONVS, "name": POOLINGS}
    its = runs["as_paper"]
    for column, names in known.items():
        its = its & runs[column].isin(list(names))
    enough = runs.groupby(CELL)["accuracy"].transform("count") >= FEWEST_RUNS
    return runs[its & enough]


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
