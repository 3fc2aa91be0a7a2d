"""Average ranks, beside the paper's: as its table prints them, and as its accuracies give them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lcpool.data.published import published, published_ranks
from lcpool.data.table import paper_datasets
from lcpool.report.comparison import Comparison
from lcpool.report.statistics import Array, ranks

if TYPE_CHECKING:
    from lcpool.report.api import Report

Backbone = tuple[str, str]
# Half of the last digit that the paper prints, and a little for the arithmetic.
ROUNDING = 0.0051


class Rank(NamedTuple):
    """An average rank: ours, the paper's as printed, and as its accuracies give it."""

    ours: float
    printed: float | None = None
    recomputed: float | None = None


@dataclass(frozen=True)
class Ranking:
    """A table of average ranks.

    Attributes:
        title: what it is of.
        pools: the columns.
        rows: by backbone and convolution, the rank of each pooling; last, over all the datasets.
        beside_paper: whether the paper's ranks are there.
    """

    title: str
    pools: tuple[str, ...]
    rows: dict[Backbone, list[Rank]]
    beside_paper: bool = False


ALL: Backbone = ("all", "by dataset")


def rankings(report: Report) -> list[Ranking]:
    """What is ranked, and what the paper ranks too where that is not the same.

    None for a single group, where a rank says no more than the accuracy.
    """
    found, paper, ranked = [], report.paper, report.ranked
    if not paper.empty and len(paper.groups) > 1:
        found.append(_beside_paper(paper))
    same = (paper.pools, len(paper.groups)) == (ranked.pools, len(ranked.groups))
    if not ranked.empty and len(ranked.groups) > 1 and not (found and same):
        rows = {name: [Rank(rank) for rank in row] for name, row in _ours(ranked).items()}
        found.append(Ranking("Average rank", ranked.pools, rows))
    return found


def _beside_paper(c: Comparison) -> Ranking:
    printed, recomputed = published_ranks(), recomputed_ranks()
    rows = {
        name: [
            Rank(rank, printed.get(name, {}).get(pool), recomputed.get(name, {}).get(pool))
            for pool, rank in zip(c.pools, row, strict=True)
        ]
        for name, row in _ours(c).items()
    }
    return Ranking("Average rank beside the paper's", c.pools, rows, beside_paper=True)


def _ours(c: Comparison) -> dict[Backbone, list[float]]:
    rows = dict(zip(c.backbones, c.backbone_ranks(c.means).tolist(), strict=True))
    overall = {ALL: c.average_ranks(c.means).tolist()}
    return overall if len(rows) == 1 else {**rows, **overall}


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
