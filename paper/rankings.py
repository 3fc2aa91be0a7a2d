"""The paper's average ranks: as its table prints them, and as its accuracies give them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from lcpool.report.statistics import Array, ranks
from lcpool.report.tables import Backbone
from paper.datasets import paper_datasets
from paper.published import published, published_ranks

# Half of the last digit that the paper prints, and a little for the arithmetic.
ROUNDING = 0.0051


@functools.cache
def recomputed_ranks(ties: str = "average") -> dict[Backbone, dict[str, float]]:
    """The paper's ranking from its own accuracies; by default equals share the mean of their ranks.

    Args:
        ties: how equals are ranked, see :func:`lcpool.report.statistics.ranks`.
    """
    found = {}
    for backbone, row in published_ranks().items():
        average = np.nanmean(ranks(published_means(backbone, list(row)), ties), axis=0)
        found[backbone] = dict(zip(row, average.tolist(), strict=True))
    return found


def published_means(backbone: Backbone, pools: Sequence[str]) -> Array:
    """The paper's accuracies with one backbone, ``[datasets, pools]``; NaN where it has none."""
    return np.array([
        [(published(dataset, *backbone, pool) or (np.nan,))[0] for pool in pools]
        for dataset in paper_datasets()
    ])  # fmt: skip


def misprinted(ties: str = "average") -> list[float]:
    """By how much the paper's ranks are off that are not what its accuracies give."""
    off = (
        abs(printed - recomputed_ranks(ties)[backbone][pool])
        for backbone, row in published_ranks().items()
        for pool, printed in row.items()
    )
    return [by for by in off if by > ROUNDING]
