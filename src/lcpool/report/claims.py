"""The paper's claims one by one: supported, refuted or undecided by these runs.

A claim about the cells (who is best in most of them) is put to the bootstrap: it is supported if it
holds in at least 95 % of the resamples of the runs, and refuted if in at most 5 %. A claim about
poolings in general is put to a test with the dataset as the block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lcpool.report.comparison import OURS, VARIANT, Comparison
from lcpool.report.statistics import ALPHA, Array, Difference, over_datasets, ranks
from lcpool.report.words import count, p_value, signed

SUPPORTED, REFUTED, UNDECIDED = "supported", "refuted", "undecided"
# By how many points LCPool* may be better and still not be said to outperform LCPool.
MARGIN = 1.0

# Of one table of means, or of each of many.
Truth = NDArray[np.bool_]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and what became of it.

    Attributes:
        says: the claim.
        verdict: "supported", "refuted" or "undecided".
        because: the numbers behind the verdict.
        paper: what the same look at the paper's own figures gives, where it reports these cells.
    """

    says: str
    verdict: str
    because: str
    paper: str = ""


def claims(ranked: Comparison, variant: Comparison, paired: bool) -> list[Claim]:
    """All claims that the runs say something about.

    Args:
        ranked: the poolings of the ranking.
        variant: LCPool and LCPool*.
        paired: whether the runs of a group are on the same fresh splits.
    """
    found: list[Claim] = []
    if OURS in ranked.pools and not ranked.empty:
        found += [_competitive(ranked), *_about_cells(ranked, paired)]
    if not variant.empty:
        found.append(_proposition_7(variant))
    return found


def _competitive(c: Comparison) -> Claim:
    """LCPool against the mean of the others: one test, whatever their number."""
    at = c.pools.index(OURS)

    def lead(means: Array) -> Array:
        blocks = c.blocks(means)
        return np.asarray(blocks[:, at] - np.nanmean(np.delete(blocks, at, axis=1), axis=1))

    def verdict(tested: Difference) -> str:
        if tested.p >= ALPHA:
            return UNDECIDED
        return SUPPORTED if tested.mean > 0 else REFUTED

    says = "LCPool is more competitive and expressive in general."
    return _tested(says, f"LCPool − mean of the {len(c.pools) - 1} others", c, lead, verdict)


def _proposition_7(c: Comparison) -> Claim:
    """LCPool* − LCPool: refuted if above zero, supported if certainly below the margin."""

    def lead(means: Array) -> Array:
        blocks = c.blocks(means)
        return blocks[:, c.pools.index(VARIANT)] - blocks[:, c.pools.index(OURS)]

    def verdict(tested: Difference) -> str:
        if tested.mean > 0 and tested.p < ALPHA:
            return REFUTED
        return SUPPORTED if tested.high < MARGIN else UNDECIDED

    says = "LCPool* does not outperform LCPool: v can be left out (proposition 7)."
    claim = _tested(says, "LCPool* − LCPool", c, lead, verdict)
    rule = f"Supported where the interval ends below {MARGIN:g} point."
    return replace(claim, because=f"{claim.because} {rule}")


def _tested(
    says: str,
    what: str,
    c: Comparison,
    lead: Callable[[Array], Array],
    verdict: Callable[[Difference], str],
) -> Claim:
    """By a test over the datasets, of these runs and of the paper's figures."""
    ours, paper = lead(c.means), c.published()
    of_paper = "" if paper is None else _in_numbers(what, lead(paper))
    tested = over_datasets(ours)
    because = _in_numbers(what, ours)
    return Claim(says, UNDECIDED if tested is None else verdict(tested), because, of_paper)


def _in_numbers(what: str, differences: Array) -> str:
    tested, text = over_datasets(differences), f"{what}: {signed(differences.mean())} points"
    if tested is None:
        return f"{text}. One dataset says nothing about others."
    return (
        f"{text}, 95 % interval over {count(tested.n, 'dataset')} {signed(tested.low)} to "
        f"{signed(tested.high)}, Wilcoxon's p {p_value(tested.p)}."
    )


def _about_cells(c: Comparison, paired: bool) -> list[Claim]:
    """The claims that are true or false of given accuracies, put to the bootstrap."""
    at, half = c.pools.index(OURS), (len(c.pools) + 1) / 2
    others = np.arange(len(c.pools)) != at
    drawn = c.resampled(paired) if c.fewest_runs > 1 else None
    paper = c.published()

    def most(means: Array) -> Truth:
        wins = winners(means)
        return np.asarray(wins[..., at] > wins[..., others].max(axis=-1))

    def first(means: Array) -> Truth:
        average = c.backbone_ranks(means)
        return np.asarray((average[..., [at]] <= average + 1e-9).all(axis=(-2, -1)))

    def upper(means: Array) -> Truth:
        return np.asarray((ranks(means)[..., at] <= half).all(axis=-1))

    def varied(means: Array) -> Truth:
        return np.asarray(winners(means).max(axis=-1) <= means.shape[-2] / 2)

    def counts(means: Array) -> str:
        pairs = sorted(zip(-winners(means), c.pools, strict=True))
        return f"Best in: {', '.join(f'{pool} {-n}' for n, pool in pairs)} of {len(means)}."

    def by_backbone(means: Array) -> str:
        rows = zip(c.backbones, c.backbone_ranks(means), strict=True)
        best = (f"{backbone} {conv} {_lowest(c.pools, row)}" for (backbone, conv), row in rows)
        return f"Lowest average rank: {'; '.join(best)}."

    def places(means: Array) -> str:
        in_upper = int((ranks(means)[:, at] <= half).sum())
        return f"In the upper half in {in_upper} of {count(len(means), 'group')}."

    return [
        _decide(says, holds, numbers, c.means, drawn, paper)
        for says, holds, numbers in (
            ("LCPool achieves the highest accuracy most often.", most, counts),
            ("LCPool ranks highest for every backbone.", first, by_backbone),
            ("Where LCPool is not the best, it is among the top several.", upper, places),
            ("No single pooling is best systematically.", varied, counts),
        )
    ]


def _decide(
    says: str,
    holds: Callable[[Array], Truth],
    numbers: Callable[[Array], str],
    means: Array,
    drawn: Array | None,
    paper: Array | None,
) -> Claim:
    """By the share of resamples in which a statement holds."""
    of_paper = "" if paper is None else f"{_true(holds(paper))}. {numbers(paper)}"
    text = f"{_true(holds(means))} of these means. {numbers(means)}"
    if len(means) < 2:
        return Claim(says, UNDECIDED, f"{text} One group says nothing about others.", of_paper)
    if drawn is None:
        return Claim(says, UNDECIDED, f"{text} A single run shows no spread to judge by.", of_paper)
    share = float(holds(drawn).mean())
    verdict = SUPPORTED if share >= 1 - ALPHA else REFUTED if share <= ALPHA else UNDECIDED
    return Claim(
        says, verdict, f"{text} It holds in {100 * share:.0f} % of the resamples.", of_paper
    )


def winners(means: Array) -> Array:
    """In how many groups each pooling has the highest accuracy, ``[…, pools]``; equals all count.

    >>> winners(np.array([[80.0, 70.0], [60.0, 60.0]])).tolist()
    [2, 1]
    """
    best = means >= np.nanmax(means, axis=-1, keepdims=True) - 1e-9
    return np.asarray(best.sum(axis=-2))


def _lowest(pools: tuple[str, ...], average: Array) -> str:
    """Who has the lowest average rank, several where they share it, and LCPool's if it is not."""
    best = [pool for pool, rank in zip(pools, average, strict=True) if rank <= average.min() + 1e-9]
    text = f"{' and '.join(best)} {average.min():.2f}"
    return text if OURS in best else f"{text} (LCPool {average[pools.index(OURS)]:.2f})"


def _true(holds: Truth) -> str:
    return "True" if holds else "Not true"
