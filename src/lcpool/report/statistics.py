"""Is a difference real? Tests over datasets, tests over splits, and what they can show at all.

The dataset is the block: two networks on one dataset are not independent, so a test over datasets
gets one figure per dataset. A test over splits is about one dataset.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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


class Friedman(NamedTuple):
    """Whether poolings differ at all, by their ranks on the datasets."""

    statistic: float  # Friedman's χ²
    p: float  # of χ²'s distribution, too large for few datasets
    permuted_p: float  # by permutation of the ranks, right for any number of datasets


class Difference(NamedTuple):
    """A mean of paired differences, and whether it is distinguishable from zero."""

    mean: float
    error: float  # the mean's standard error; NaN if there is no interval
    p: float  # two-sided
    n: int  # the number of differences

    def half_width(self, tests: int = 1) -> float:
        """Of the confidence interval, corrected for so many tests.

        It is the smallest mean that a t-test would call significant, with this spread and n.
        """
        return float(stats.t.ppf(1 - ALPHA / tests / 2, self.n - 1) * self.error)

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.half_width()

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + self.half_width()


def rounded(means: Array) -> Array:
    """Means without the last bits, which depend on the order of summing: for comparing only.

    >>> bool(np.mean([0.1, 0.2, 0.3]) == 0.2), bool(rounded(np.mean([0.1, 0.2, 0.3])) == 0.2)
    (False, True)
    """
    return np.round(means, 9)


def ranks(accuracies: Array, ties: str = "average") -> Array:
    """The rank of each entry of the last axis, 1 the highest; NaN has no rank.

    By ``ties`` ("average", "min", "max") equals share the mean, lowest or highest of their ranks.

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
    q = stats.studentized_range.ppf(1 - alpha, k, np.inf)
    return float(q * math.sqrt(k * (k + 1) / (12 * n)))


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


def over_datasets(differences: Array) -> Difference | None:
    """Differences of datasets: Student's interval, Wilcoxon's p; None for fewer than two.

    Wilcoxon's test is exact for up to 13 datasets (50 without ties).
    """
    if len(differences) < 2:
        return None
    differences = rounded(differences)
    p = float(stats.wilcoxon(differences).pvalue) if differences.any() else 1.0
    return _difference(differences, 1 / len(differences))._replace(p=p)


def over_splits(differences: Array, test_share: float) -> Difference:
    """The corrected resampled t-test (Nadeau and Bengio) of differences on the same splits.

    Splits of one dataset overlap, so that the variance of a mean of n differences is not s²/n but
    about s²·(1/n + n_test/n_train), where ``test_share`` is n_test / n_train; of K folds 1/(K − 1),
    see :mod:`lcpool.report.schemes`. No p and no interval
    (NaN) for fewer than FEWEST_RUNS, or if they do not vary.
    """
    n = len(differences)
    if n < FEWEST_RUNS:
        return Difference(float(differences.mean()) if n else math.nan, math.nan, math.nan, n)
    return _difference(differences, 1 / n + test_share)


def _difference(values: Array, factor: float) -> Difference:
    """Student's t-test, if the variance of the mean is factor · s²."""
    mean, n = float(values.mean()), len(values)
    error = math.sqrt(factor * values.var(ddof=1)) if np.ptp(rounded(values)) > 0 else math.nan
    return Difference(mean, error, float(2 * stats.t.sf(abs(mean) / error, n - 1)), n)
