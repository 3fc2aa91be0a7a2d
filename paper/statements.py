"""Claims about the accuracies in the paper's tables: true or false of ours, and of the paper's own.

These compare means and test nothing. "Among the top several" is taken as: in the upper half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from lcpool.report.comparison import Comparison
from lcpool.report.statistics import Array, ranks, rounded
from lcpool.words import count, listed
from paper.names import named
from paper.published import OURS, published_beside

TRUE, FALSE = "true of our means", "not true of our means"
# Claim, verdict, our numbers, the paper's, and whether it is true of these.
Parts = tuple[str, str, str, str, bool | None]
# Whether a claim is true of accuracies ``[groups, pools]``, and the numbers that it is about.
Check = Callable[[Comparison, Array], tuple[bool, str]]


def about_cells(c: Comparison) -> Iterator[Parts]:
    """All such claims."""
    paper = published_beside(c)
    for says, check in CLAIMS.items():
        holds, numbers = check(c, c.means)
        of_paper, its = ("", None) if paper is None else check(c, paper)[::-1]
        yield says, TRUE if holds else FALSE, numbers, of_paper, its


def _most(c: Comparison, means: Array) -> tuple[bool, str]:
    wins, at = winners(means), c.pools.index(OURS)
    return bool(wins[at] > np.delete(wins, at).max()), _best_in(c, means)


def _first(c: Comparison, means: Array) -> tuple[bool, str]:
    average, at = c.backbone_ranks(means), c.pools.index(OURS)
    rows = zip(c.backbones, average, strict=True)
    best = (f"{backbone} {conv}: {_lowest(c.pools, row)}" for (backbone, conv), row in rows)
    return bool((average[:, [at]] <= average).all()), f"Lowest average rank: {'; '.join(best)}."


def _upper(c: Comparison, means: Array) -> tuple[bool, str]:
    within = ranks(means)[:, c.pools.index(OURS)] <= (len(c.pools) + 1) / 2
    numbers = (
        f"Below the upper half in {(~within).sum()} of {count(len(means), 'group')} (rank "
        f"{(len(c.pools) + 1) // 2} of {len(c.pools)} still counts as upper)."
    )
    return bool(within.all()), numbers


def _varied(c: Comparison, means: Array) -> tuple[bool, str]:
    return bool((winners(means) <= len(means) / 2).all()), _best_in(c, means)


def _depends(c: Comparison, means: Array) -> tuple[bool, str]:
    """Not if each dataset has one winner with all networks, or each network one on all datasets."""
    best = highest(means)
    datasets = [c.where(dataset=dataset) for dataset in c.datasets]
    networks = [c.where(backbone=backbone, conv=conv) for backbone, conv in c.backbones]
    one_each = (
        all(best[member].all(axis=0).any() for member in members)
        for members in (datasets, networks)
    )
    return not any(one_each), _best_in(c, means)


CLAIMS: dict[str, Check] = {
    "LCPool achieves the highest accuracy most often.": _most,
    "LCPool ranks highest for every backbone.": _first,
    "Where LCPool is not the best, it is among the top several.": _upper,
    "No single pooling is best systematically.": _varied,
    "The best pooling depends on the combination of backbone and task.": _depends,
}


def highest(means: Array) -> NDArray[np.bool_]:
    """Which poolings have the highest accuracy of their group; equals all have it."""
    means = rounded(means)
    return np.asarray(means >= np.nanmax(means, axis=-1, keepdims=True))


def winners(means: Array) -> Array:
    """In how many groups each pooling has the highest accuracy, ``[…, pools]``; equals all count.

    >>> winners(np.array([[80.0, 70.0], [60.0, 60.0]])).tolist()
    [2, 1]
    """
    return np.asarray(highest(means).sum(axis=-2))


def _best_in(c: Comparison, means: Array) -> str:
    pairs = sorted(zip(-winners(means), c.pools, strict=True))
    best = ", ".join(f"{named(pool)} {-n}" for n, pool in pairs)
    return f"Of {count(len(means), 'group')}, highest in (equals all count): {best}."


def _lowest(pools: tuple[str, ...], average: Array) -> str:
    """Who has the lowest average rank, several where they share it, and LCPool's if it is not."""
    best = [pool for pool, rank in zip(pools, average, strict=True) if rank == average.min()]
    text = f"{listed([named(pool) for pool in best])} {average.min():.2f}"
    return text if OURS in best else f"{text} (LCPool {average[pools.index(OURS)]:.2f})"
