"""The paper's claims one by one, and whether these runs support them.

A claim about the accuracies in its tables (who is best in most of them) is true or false of ours,
see :mod:`paper.statements`. A claim about poolings in general is tested with the dataset as the
block, by criteria that were fixed before the paper's runs were made:

- more competitive in general: LCPool against the mean of the others by Wilcoxon's signed ranks,
  one test for all of them; its sign decides if p < α;
- proposition 7: refuted if LCPool* is better with p < α, supported if the interval of its lead ends
  below ``MARGIN``.

Such a claim is supported on evidence for it, refuted on evidence against it, else undecided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from lcpool.report.comparison import Comparison
from lcpool.report.statistics import ALPHA, Array, Difference, over_datasets
from lcpool.report.verdict import POWER
from lcpool.words import count, p_value, signed
from paper.published import OURS, VARIANT, published_beside
from paper.statements import about_cells

SUPPORTED, REFUTED, UNDECIDED = "supported", "refuted", "undecided"
# By how many points LCPool* may be better and still not be said to outperform LCPool.
MARGIN = 1.0


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and what became of it.

    Attributes:
        says: the claim.
        verdict: "supported", "refuted" or "undecided" by a test, or whether our means agree.
        because: the numbers behind the verdict.
        paper: the same from the paper's own figures, where it reports these cells.
        of_paper: whether it is true of these, where that needs no test.
    """

    says: str
    verdict: str
    because: str
    paper: str = ""
    of_paper: bool | None = None

    @property
    def of_its_figures(self) -> str:
        """Whether the claim is true of the paper's own figures, and these."""
        if self.of_paper is None:
            return self.paper
        return f"{'True' if self.of_paper else 'Not true'}. {self.paper}"


def claims(ranked: Comparison, variant: Comparison) -> list[Claim]:
    """All claims that the runs say something about.

    Args:
        ranked: the poolings of the paper's ranking, trained as there.
        variant: LCPool and LCPool*, likewise.
    """
    found: list[Claim] = []
    if OURS in ranked.pools and not ranked.empty:
        found.append(_competitive(ranked))
        found += [Claim(*parts) for parts in about_cells(ranked)]
    if not variant.empty:
        found.append(_proposition_7(variant))
    return found


def _competitive(c: Comparison) -> Claim:
    """LCPool against the mean of the others: one test, whatever their number."""
    at = c.pools.index(OURS)

    def lead(means: Array) -> Array:
        return np.asarray(means[:, at] - np.nanmean(np.delete(means, at, axis=1), axis=1))

    def verdict(tested: Difference) -> str:
        if tested.p >= ALPHA:
            return UNDECIDED
        return SUPPORTED if tested.mean > 0 else REFUTED

    says = "LCPool is more competitive and expressive in general."
    claim = _tested(says, f"LCPool − mean of the {len(c.pools) - 1} others", c, lead, verdict)
    mean = c.blocks(c.means).mean(axis=0)
    higher = int((mean > mean[at]).sum())
    return replace(claim, because=f"{claim.because} Higher than LCPool: {higher} of them.")


def _proposition_7(c: Comparison) -> Claim:
    """LCPool* − LCPool: refuted if above zero, supported if certainly below the margin."""

    def lead(means: Array) -> Array:
        return means[:, c.pools.index(VARIANT)] - means[:, c.pools.index(OURS)]

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
    """By a test over the datasets, of these runs and of the paper's figures.

    A lead is taken group by group and then averaged, so that a cell which the paper does not report
    changes nobody's average.
    """

    def by_dataset(means: Array) -> Array:
        return c.blocks(lead(means)[:, None])[:, 0]

    ours, paper = by_dataset(c.means), published_beside(c)
    of_paper = "" if paper is None else _in_numbers(what, by_dataset(paper))
    tested = over_datasets(ours)
    because = _in_numbers(what, ours)
    if tested is not None and np.isfinite(seen := detectable(tested)):
        because += f" A true lead of {seen:.1f} points would be found with probability {POWER:g}."
    return Claim(says, UNDECIDED if tested is None else verdict(tested), because, of_paper)


def detectable(tested: Difference) -> float:
    """The true mean that a test of this error would find with probability ``POWER``, in points.

    By Student's t with as many datasets: (t(1 − α/2) + t(POWER)) errors of the mean.
    """
    if tested.n < 2 or not np.isfinite(tested.high):
        return np.nan
    at, wanted = stats.t.ppf([1 - ALPHA / 2, POWER], tested.n - 1)
    return float((tested.high - tested.low) / 2 / at * (at + wanted))


def _in_numbers(what: str, differences: Array) -> str:
    tested, text = over_datasets(differences), f"{what}: {signed(differences.mean())} points"
    if tested is None:
        return f"{text}. One dataset says nothing about others."
    if np.isfinite(tested.low):
        text += (
            f", 95 % interval over {count(tested.n, 'dataset')} {signed(tested.low)} to "
            f"{signed(tested.high)}"
        )
    return f"{text}, Wilcoxon's p {p_value(tested.p)}."
