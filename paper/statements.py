"""Claims that are true or false of given accuracies, put to the bootstrap.

Fixed before the paper's runs were made, with α = 0.05 and "upper half" for "the top several". What
supports "no single best" was made stricter afterwards: none being highest in more than half of the
groups, the criterion before, is what noise gives even where one pooling leads by a point.

- highest most often: supported if LCPool is highest in more groups than any other in ≥ 1 − α of the
  resamples; refuted if a rival is in more groups than LCPool in ≥ 1 − α/m of them (m rivals);
- highest for every backbone: supported if LCPool's average rank is the lowest for all in ≥ 1 − α;
  refuted if for a backbone a rival's is lower than LCPool's in ≥ 1 − α/m (m rivals × backbones);
- among the top several: supported if LCPool is in the upper half of all groups in ≥ 1 − α; refuted
  if it is in the lower half of a group in ≥ 1 − α/m (m groups);
- no single best: supported if every pooling is below a named rival in a named group in ≥ 1 − α/m
  (m rivals × groups); refuted if one is highest in more than half of the groups in ≥ 1 − α/m (m
  poolings);
- the best depends on backbone and task: supported if two groups on one dataset, and two with one
  backbone, have different winners, each alone highest in ≥ 1 − α/m (m groups); refuted if every
  dataset has one winner with all backbones, or every backbone one on all datasets, in ≥ 1 − α/2.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lcpool.report.comparison import Comparison
from lcpool.report.statistics import ALPHA, Array, ranks, rounded
from lcpool.report.words import count
from paper.published import OURS, published_beside

SUPPORTED, REFUTED, UNDECIDED = "supported", "refuted", "undecided"
ONE_GROUP = "One group says nothing about others."

# Of one table of means, or of each of many.
Truth = NDArray[np.bool_]
# Claim, verdict, the numbers behind it, and the paper's.
Parts = tuple[str, str, str, str]


@dataclass(frozen=True)
class Statement:
    """Something that is true or false of accuracies ``[…, groups, pools]``.

    Attributes:
        says: the claim.
        holds: whether it is true.
        against: by name, what would be evidence against it.
        numbers: what it is about, in words.
    """

    says: str
    holds: Callable[[Array], Truth]
    against: Callable[[Array], dict[str, Truth]]
    numbers: Callable[[Array], str]


def about_cells(c: Comparison) -> Iterator[Parts]:
    """The verdicts on all such claims."""
    drawn, paper = c.resampled(), published_beside(c)
    for statement in (_most(c), _first(c), _upper(c)):
        yield _judge(statement, c.means, drawn, paper)
    yield _varied(c, drawn, paper)
    yield _depends(c, drawn, paper)


def _judge(of: Statement, means: Array, drawn: Array, paper: Array | None) -> Parts:
    """By the shares of resamples that are for and against a statement."""
    of_paper = "" if paper is None else f"{_true(of.holds(paper))}. {of.numbers(paper)}"
    text = f"{_true(of.holds(means))} of these means. {of.numbers(means)}"
    if len(means) < 2:
        return of.says, UNDECIDED, f"{text} {ONE_GROUP}", of_paper
    share = float(of.holds(drawn).mean())
    shares = {name: float(truth.mean()) for name, truth in of.against(drawn).items()}
    worst = max(shares, key=lambda name: shares[name])
    needed = 1 - ALPHA / len(shares)
    text += (
        f" It holds in {percent(share)} of the resamples. Most against it: {worst}, in "
        f"{percent(shares[worst])} (it takes {percent(needed)} to refute it)."
    )
    if share >= 1 - ALPHA:
        return of.says, SUPPORTED, text, of_paper
    return of.says, REFUTED if shares[worst] >= needed else UNDECIDED, text, of_paper


def _most(c: Comparison) -> Statement:
    at, others = _ours_and_others(c)

    def holds(means: Array) -> Truth:
        wins = winners(means)
        return np.asarray(wins[..., at] > wins[..., others].max(axis=-1))

    def against(means: Array) -> dict[str, Truth]:
        wins = winners(means)
        return {f"{c.pools[r]} is highest more often": wins[..., r] > wins[..., at] for r in others}

    says = "LCPool achieves the highest accuracy most often."
    return Statement(says, holds, against, lambda means: _best_in(c, means))


def _first(c: Comparison) -> Statement:
    at, others = _ours_and_others(c)

    def holds(means: Array) -> Truth:
        average = c.backbone_ranks(means)
        return np.asarray((average[..., [at]] <= average).all(axis=(-2, -1)))

    def against(means: Array) -> dict[str, Truth]:
        average = c.backbone_ranks(means)
        return {
            f"{c.pools[r]} ranks before LCPool for {' '.join(backbone)}": average[..., b, r]
            < average[..., b, at]
            for b, backbone in enumerate(c.backbones)
            for r in others
        }

    def numbers(means: Array) -> str:
        rows = zip(c.backbones, c.backbone_ranks(means), strict=True)
        best = (f"{backbone} {conv} {_lowest(c.pools, row)}" for (backbone, conv), row in rows)
        return f"Lowest average rank: {'; '.join(best)}."

    return Statement("LCPool ranks highest for every backbone.", holds, against, numbers)


def _upper(c: Comparison) -> Statement:
    at, half = c.pools.index(OURS), (len(c.pools) + 1) / 2

    def within(means: Array) -> Truth:
        return np.asarray(ranks(means)[..., at] <= half)

    def against(means: Array) -> dict[str, Truth]:
        places = within(means)
        return {
            f"LCPool is in the lower half on {' '.join(names)}": ~places[..., g]
            for g, names in enumerate(c.groups.itertuples(index=False))
        }

    def numbers(means: Array) -> str:
        return f"In the upper half in {within(means).sum()} of {count(len(means), 'group')}."

    says = "Where LCPool is not the best, it is among the top several."
    return Statement(says, lambda means: np.asarray(within(means).all(-1)), against, numbers)


def _varied(c: Comparison, drawn: Array, paper: Array | None) -> Parts:
    """Unlike the others it needs names: by noise alone, no pooling is highest everywhere."""
    says = "No single pooling is best systematically."
    half = len(c.means) / 2
    texts = [
        f"{_true((winners(means) <= half).all())} of {whose}. {_best_in(c, means)}"
        for means, whose in ((c.means, "these means"), (paper, "its figures"))
        if means is not None
    ]
    beaten = [pool for p, pool in enumerate(c.pools) if _beaten(drawn, p)]
    often = (winners(drawn) > half).mean(axis=0)
    text = (
        f"{texts[0]} Surely below a rival in some group: {len(beaten)} of "
        f"{count(len(c.pools), 'pooling')}. Most against it: "
        f"{c.pools[often.argmax()]} is highest in more than half of the groups, in "
        f"{percent(float(often.max()))} of the resamples (it takes "
        f"{percent(1 - ALPHA / len(often))} to refute it)."
    )
    if len(c.means) < 2:
        return says, UNDECIDED, f"{texts[0]} {ONE_GROUP}", "".join(texts[1:])
    refuted = REFUTED if often.max() >= 1 - ALPHA / len(often) else UNDECIDED
    verdict = SUPPORTED if len(beaten) == len(c.pools) else refuted
    return says, verdict, text, "".join(texts[1:])


def _beaten(drawn: Array, pool: int) -> bool:
    """Whether in some group some rival is above a pooling in all but a few of the resamples."""
    above = (rounded(drawn) > rounded(drawn[..., [pool]])).mean(axis=0)
    rivals = above.shape[0] * (above.shape[1] - 1)
    return bool(above.max() >= 1 - ALPHA / rivals)


def _depends(c: Comparison, drawn: Array, paper: Array | None) -> Parts:
    """Unlike the others it needs names: by noise alone, winners differ from group to group."""
    says = "The best pooling depends on the combination of backbone and task."
    alone = highest(drawn) & (highest(drawn).sum(axis=-1, keepdims=True) == 1)
    shares = alone.mean(axis=0)
    sure = shares.max(axis=-1) >= 1 - ALPHA / len(shares)
    winner = {int(g): c.pools[shares[g].argmax()] for g in np.flatnonzero(sure)}
    texts = [
        f"{_true(_differ(c, means).all())} of {whose}. {_best_in(c, means)}"
        for means, whose in ((c.means, "these means"), (paper, "its figures"))
        if means is not None
    ]
    same = [float((~truth).mean()) for truth in _differ(c, drawn)]
    found = [_two_winners(c, winner, kind) for kind in (["dataset"], ["backbone", "conv"])]
    text = (
        f"{texts[0]} {len(winner)} of {count(len(shares), 'group')} have a sure winner, one in "
        f"{percent(1 - ALPHA / len(shares))} of the resamples. {' '.join(filter(None, found))} "
        f"In {percent(same[0])} of them every dataset has one winner with all backbones, in "
        f"{percent(same[1])} every backbone one on all datasets."
    )
    if len(c.datasets) < 2 or len(c.backbones) < 2:
        text = f"{texts[0]} That takes two datasets and two backbones."
        return says, UNDECIDED, text, "".join(texts[1:])
    refuted = REFUTED if max(same) >= 1 - ALPHA / 2 else UNDECIDED
    return says, SUPPORTED if all(found) else refuted, " ".join(text.split()), "".join(texts[1:])


def _differ(c: Comparison, means: Array) -> NDArray[np.bool_]:
    """Whether a dataset has no one winner with all backbones; a backbone, none on all datasets."""
    best = highest(means)
    one_each = [
        np.stack([best[..., member, :].all(axis=-2).any(axis=-1) for member in members]).all(axis=0)
        for members in (
            [c.where(dataset=dataset) for dataset in c.datasets],
            [c.where(backbone=backbone, conv=conv) for backbone, conv in c.backbones],
        )
    ]
    return ~np.stack(one_each)


def _two_winners(c: Comparison, winner: dict[int, str], alike: list[str]) -> str:
    """Two groups that share these names and have different winners, in words; or nothing."""
    names = c.groups.to_dict("records")
    for g, h in itertools.combinations(winner, 2):
        if winner[g] != winner[h] and all(names[g][n] == names[h][n] for n in alike):
            where = (f"{winner[i]} on {' '.join(names[i].values())}" for i in (g, h))
            return f"Different: {', '.join(where)}."
    return ""


def highest(means: Array) -> Truth:
    """Which poolings have the highest accuracy of their group; equals all have it."""
    means = rounded(means)
    return np.asarray(means >= np.nanmax(means, axis=-1, keepdims=True))


def winners(means: Array) -> Array:
    """In how many groups each pooling has the highest accuracy, ``[…, pools]``; equals all count.

    >>> winners(np.array([[80.0, 70.0], [60.0, 60.0]])).tolist()
    [2, 1]
    """
    return np.asarray(highest(means).sum(axis=-2))


def _ours_and_others(c: Comparison) -> tuple[int, list[int]]:
    at = c.pools.index(OURS)
    return at, [p for p in range(len(c.pools)) if p != at]


def _best_in(c: Comparison, means: Array) -> str:
    pairs = sorted(zip(-winners(means), c.pools, strict=True))
    return f"Best in: {', '.join(f'{pool} {-n}' for n, pool in pairs)} of {len(means)}."


def _lowest(pools: tuple[str, ...], average: Array) -> str:
    """Who has the lowest average rank, several where they share it, and LCPool's if it is not."""
    best = [pool for pool, rank in zip(pools, average, strict=True) if rank == average.min()]
    text = f"{' and '.join(best)} {average.min():.2f}"
    return text if OURS in best else f"{text} (LCPool {average[pools.index(OURS)]:.2f})"


def _true(holds: Truth | np.bool_) -> str:
    return "True" if holds else "Not true"


def percent(share: float) -> str:
    """A share, with decimals where they decide.

    >>> percent(1.0), percent(0.423), percent(0.99791)
    ('100 %', '42 %', '99.79 %')
    """
    text = f"{100 * share:.0f}" if 0.01 <= share <= 0.94 else f"{100 * share:.4g}"
    return f"{text} %"
