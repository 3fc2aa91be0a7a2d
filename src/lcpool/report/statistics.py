"""Is a difference real? Tests over datasets, tests over splits, and what they can show at all.

The dataset is the block: two networks on one dataset are not independent, so a test over datasets
gets one figure per dataset. A test over splits is about one dataset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]

# What counts as significant, and the confidence 1 − α of intervals.
ALPHA = 0.05
PERMUTATIONS = 9999
# With fewer runs, or runs without spread, there is no p and no interval: then a variance near zero
# is luck, and would make any difference significant.
FEWEST_RUNS = 5


@dataclass(frozen=True)
class Friedman:
    """Whether poolings differ at all, by their ranks on the datasets.

    Attributes:
        statistic: Friedman's χ².
        p: of χ²'s distribution, too large for few datasets.
        permuted_p: by permutation of the ranks, right for any number of datasets.
    """

    statistic: float
    p: float
    permuted_p: float


@dataclass(frozen=True)
class Difference:
    """A mean of paired differences, and whether it is distinguishable from zero.

    Attributes:
        mean: of the differences.
        low: lower end of the confidence interval; NaN if the differences do not vary.
        high: upper end; NaN likewise.
        p: two-sided.
        n: the number of differences.
    """

    mean: float
    low: float
    high: float
    p: float
    n: int

    @property
    def half_width(self) -> float:
        """The smallest mean that a t-test would call significant, with this spread and n."""
        return (self.high - self.low) / 2


def rounded(means: Array) -> Array:
    """Means without the last bits, which depend on the order of summing: for comparing only.

    >>> bool(np.mean([0.1, 0.2, 0.3]) == 0.2), bool(rounded(np.mean([0.1, 0.2, 0.3])) == 0.2)
    (False, True)
    """
    return np.round(means, 9)


def vary(values: Array) -> bool:
    """Whether there is any spread."""
    return len(values) > 1 and bool(np.ptp(rounded(values)) > 0)


def ranks(accuracies: Array, ties: str = "average") -> Array:
    """The rank of each entry of the last axis, 1 the highest; NaN has no rank.

    Args:
        accuracies: what is ranked.
        ties: "average", "min" or "max": equals share the mean, lowest or highest of their ranks.

    >>> ranks(np.array([[80.0, 70.0, 80.0]])).tolist()
    [[1.5, 3.0, 1.5]]
    """
    ranked = stats.rankdata(-rounded(accuracies), method=ties, axis=-1, nan_policy="omit")
    return np.asarray(ranked, dtype=np.float64)


def friedman(accuracies: Array) -> Friedman | None:
    """Friedman's test of blocks × poolings; None for fewer than two blocks or three poolings."""
    n, k = accuracies.shape
    if n < 2 or k < 3:
        return None
    if (accuracies == accuracies[:, :1]).all():
        return Friedman(0.0, 1.0, 1.0)
    statistic, p = stats.friedmanchisquare(*accuracies.T)
    return Friedman(float(statistic), float(p), _permuted(ranks(accuracies)))


def _permuted(each: Array) -> float:
    """How often ranks permuted within their blocks have sums at least as far apart."""
    random = np.random.default_rng(0)
    drawn = random.permuted(np.tile(each, (PERMUTATIONS, 1, 1)), axis=-1)
    spread, observed = drawn.sum(axis=1).var(axis=-1), each.sum(axis=0).var()
    return float((1 + (spread >= observed - 1e-9).sum()) / (1 + PERMUTATIONS))


def critical_difference(k: int, n: int, alpha: float = ALPHA) -> float:
    """Nemenyi's: average ranks of k poolings over n blocks differ if they are further apart.

    >>> round(critical_difference(k=7, n=6), 2)
    3.68
    """
    q = stats.studentized_range.ppf(1 - alpha, k, np.inf) / math.sqrt(2)
    return float(q * _rank_error(k, n))


def nemenyi(difference: float, k: int, n: int) -> float:
    """The p of a difference of average ranks, corrected for all pairs of k poolings."""
    q = abs(difference) / _rank_error(k, n) * math.sqrt(2)
    return float(stats.studentized_range.sf(q, k, np.inf))


def _rank_error(k: int, n: int) -> float:
    return math.sqrt(k * (k + 1) / (6 * n))


def signed_rank(differences: Array) -> float:
    """Wilcoxon's two-sided p, exact for up to 13 datasets (50 without ties); 1 if all are zero."""
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences).pvalue)


def smallest_signed_rank(n: int, comparisons: int = 1) -> float:
    """The smallest p that Wilcoxon's exact test of n differences can give, corrected by Holm.

    >>> smallest_signed_rank(6), smallest_signed_rank(6, comparisons=6)
    (0.03125, 0.1875)
    """
    return min(1.0, comparisons * 2.0 ** (1 - n))


def holm(p: Array) -> Array:
    """Holm's correction for the number of tests.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p)
    factors = np.arange(len(p), 0, -1)
    corrected = np.empty_like(p, dtype=np.float64)
    corrected[order] = np.minimum(1, np.maximum.accumulate(p[order] * factors))
    return corrected


def over_datasets(differences: Array, alpha: float = ALPHA) -> Difference | None:
    """Differences of datasets: Student's interval, Wilcoxon's p; None for fewer than two."""
    if len(differences) < 2:
        return None
    differences = rounded(differences)
    mean, half = _student(differences, 1 / len(differences), alpha)
    half = half if vary(differences) else math.nan
    return Difference(mean, mean - half, mean + half, signed_rank(differences), len(differences))


def over_splits(differences: Array, test_share: float, alpha: float = ALPHA) -> Difference | None:
    """The corrected resampled t-test (Nadeau and Bengio) of differences on the same splits.

    Splits of one dataset overlap, so that the variance of a mean of n differences is not s²/n but
    about s²·(1/n + n_test/n_train). None for fewer than FEWEST_RUNS, or if they do not vary.

    Args:
        differences: one per split.
        test_share: n_test / n_train.
        alpha: 1 − confidence of the interval.
    """
    n = len(differences)
    if n < FEWEST_RUNS or not vary(differences):
        return None
    mean, half = _student(differences, 1 / n + test_share, alpha)
    error = half / stats.t.ppf(1 - alpha / 2, n - 1)
    p = 2 * stats.t.sf(abs(mean) / error, n - 1)
    return Difference(mean, mean - half, mean + half, float(p), n)


def interval(accuracies: Array, test_share: float = 0.0, alpha: float = ALPHA) -> float | None:
    """Half the width of Student's interval of a mean over runs.

    None for fewer than FEWEST_RUNS, or if they do not vary.

    Args:
        accuracies: one per run.
        test_share: n_test / n_train for runs on fresh splits, 0 for runs that share a split.
        alpha: 1 − confidence.
    """
    n = len(accuracies)
    if n < FEWEST_RUNS or not vary(accuracies):
        return None
    return _student(accuracies, 1 / n + test_share, alpha)[1]


def _student(values: Array, factor: float, alpha: float) -> tuple[float, float]:
    """The mean, and half the width of its interval if the variance of the mean is factor · s²."""
    error = math.sqrt(factor * values.var(ddof=1))
    return float(values.mean()), float(stats.t.ppf(1 - alpha / 2, len(values) - 1) * error)
