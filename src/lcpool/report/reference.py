"""Published figures beside our own, and whether the two agree.

A cell agrees when the two means differ by at most 2·√(100²·p(1 − p)/n_test + s²/n + s'²/n') points,
with p our mean as a fraction, and s and s' the standard deviations over the n and n' runs of ours
and of theirs. The first term is the luck of the test graphs, the others that of the runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

# Of a cell: dataset, backbone, convolution and pooling.
Cell = tuple[str, str, str, str]
COLUMNS = ["reference_mean", "reference_std"]


@dataclass(frozen=True)
class Reference:
    """Published accuracies that a report shows beside its own.

    They stand beside cells that were trained with every setting at its default.

    Attributes:
        name: what has published them, as a word: "paper".
        figures: mean and standard deviation of the test accuracy in percent, by cell.
        runs: over how many runs they were taken.
        variants: poolings that it does not rank, each with the pooling that it is a variant of:
            where that one is there, the variant is not ranked here either.
    """

    name: str
    figures: Mapping[Cell, tuple[float, float]]
    runs: int
    variants: Mapping[str, str] = field(default_factory=dict)

    def beside(self, cells: pd.DataFrame) -> pd.DataFrame:
        """``reference_mean`` and ``reference_std`` of each cell, and the :func:`agreement`."""
        nothing = (None, None)
        names = cells[["dataset", "backbone", "conv", "name"]].itertuples(index=False, name=None)
        rows = [
            self.figures.get(cell, nothing) if default else nothing
            for cell, default in zip(names, cells["default"], strict=True)
        ]
        figures = pd.DataFrame(rows, index=cells.index, columns=COLUMNS)
        return figures.join(agreement(cells.join(figures), self.runs))


def agreement(cells: pd.DataFrame, runs: int) -> pd.DataFrame:
    """``difference`` and ``tolerance`` in points and ``agrees``, empty where nothing can be judged.

    That is, where there is no published figure, where a cell was not trained with the default
    settings, or where a single run shows no spread.

    Args:
        cells: with ``reference_mean`` and ``reference_std``.
        runs: over how many runs the published figures were taken.
    """
    p = cells["mean"] / 100
    sampling = 100**2 * p * (1 - p) / cells["num_test"]
    spread = cells["std"] ** 2 / cells["runs"] + cells["reference_std"].astype(float) ** 2 / runs
    judged = pd.DataFrame(index=cells.index)
    judged["difference"] = cells["mean"] - cells["reference_mean"].astype(float)
    judged["tolerance"] = 2 * np.sqrt(sampling + spread)  # NaN without a published figure.
    agrees = (judged["difference"].abs() <= judged["tolerance"]).astype("boolean")
    judged["agrees"] = agrees.mask(judged.isna().any(axis=1))
    return judged


def agreeing(cells: pd.DataFrame) -> tuple[int, int]:
    """How many cells agree with a published figure, of how many that can be judged."""
    judged = cells["agrees"].dropna()
    return int(judged.sum()), len(judged)
