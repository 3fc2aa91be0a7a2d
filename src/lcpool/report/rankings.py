"""Average ranks, beside the paper's: as its table prints them, and as its accuracies give them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lcpool.data.published import published, published_ranks
from lcpool.data.table import paper_datasets
from lcpool.report.comparison import Comparison
from lcpool.report.statistics import ranks

if TYPE_CHECKING:
    from lcpool.report.api import Report

Backbone = tuple[str, str]


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
def recomputed_ranks() -> dict[Backbone, dict[str, float]]:
    """The paper's ranking from its own accuracies, equals sharing the mean of their ranks."""
    found = {}
    for (backbone, conv), row in published_ranks().items():
        means = [
            [(published(dataset, backbone, conv, pool) or (np.nan,))[0] for pool in row]
            for dataset in paper_datasets()
        ]
        average = np.nanmean(ranks(np.array(means)), axis=0)
        found[backbone, conv] = dict(zip(row, average.tolist(), strict=True))
    return found


def misprints() -> str:
    """How many of the paper's printed ranks are not those of its accuracies."""
    pairs = [
        (printed, recomputed_ranks()[name][pool])
        for name, row in published_ranks().items()
        for pool, printed in row.items()
    ]
    wrong = sum(abs(printed - rank) > 0.0051 for printed, rank in pairs)
    return f"{wrong} of the paper's {len(pairs)} printed ranks are not what its accuracies give."
