"""Average ranks, beside the paper's: as its table prints them, and as its accuracies give them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from lcpool.report.comparison import Comparison
from lcpool.report.statistics import Array, ranks
from lcpool.report.tables import Backbone, Rank, Ranking, rank_rows
from paper.datasets import paper_datasets
from paper.published import published, published_ranks

# Half of the last digit that the paper prints, and a little for the arithmetic.
ROUNDING = 0.0051


def beside_paper(c: Comparison) -> Ranking:
    """Our ranks beside the paper's."""
    printed, recomputed = published_ranks(), recomputed_ranks()
    rows = {}
    for name, row in rank_rows(c).items():
        rows[name] = [
            Rank(rank, (printed[name][pool], recomputed[name][pool]))
            if pool in printed.get(name, {})
            else Rank(rank)
            for pool, rank in zip(c.pools, row, strict=True)
        ]
    return Ranking(
        "Average rank beside the paper's",
        c.pools,
        rows,
        others=("paper_printed", "paper_recomputed"),
        note=f"the paper's rank as printed / as its accuracies give it. {misprints()}",
    )


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


def misprints() -> str:
    """How many of the paper's printed ranks are not those of its accuracies."""
    total = sum(map(len, published_ranks().values()))
    return (
        f"{len(misprinted())} of the paper's {total} printed ranks are not what its accuracies "
        "give."
    )
