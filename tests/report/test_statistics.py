import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from lcpool.report.statistics import (
    ALPHA,
    FEWEST_RUNS,
    critical_difference,
    friedman,
    holm,
    over_datasets,
    over_splits,
    ranks,
)

# What tables of Nemenyi's test print for 2 to 10 classifiers.
Q_05 = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
Q_10 = [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920]


@pytest.mark.parametrize(("alpha", "table"), [(0.05, Q_05), (0.10, Q_10)])
def test_critical_differences_are_those_of_the_tables(alpha: float, table: list[float]):
    for k, q in enumerate(table, 2):
        expected = q * math.sqrt(k * (k + 1) / (6 * 14))
        assert critical_difference(k, 14, alpha) == pytest.approx(expected, rel=1e-3)


def test_equals_share_their_ranks_and_what_is_missing_has_none():
    values = np.array([[80.0, 70.0, 80.0, 60.0], [1.0, np.nan, 3.0, 2.0]])
    found = ranks(values)
    assert found[0].tolist() == [1.5, 3.0, 1.5, 4.0]
    assert found[1, [0, 2, 3]].tolist() == [3.0, 1.0, 2.0]
    assert np.isnan(found[1, 1])


def test_friedman_by_its_formula():
    """Without ties χ² is 12n/(k(k+1))·(Σ R² − k(k+1)²/4)."""
    values = np.random.default_rng(0).normal(size=(6, 7))
    n, k = values.shape
    average = ranks(values).mean(axis=0)
    statistic = 12 * n / (k * (k + 1)) * ((average**2).sum() - k * (k + 1) ** 2 / 4)
    found = friedman(values)
    assert found.statistic == pytest.approx(statistic)
    assert found.p == pytest.approx(stats.chi2.sf(statistic, k - 1))


def test_friedman_by_permutation():
    """Against all (k!)ⁿ ways to rank three poolings on three datasets."""
    orders = np.array(list(itertools.permutations([1.0, 2.0, 3.0])))
    tables = np.array(list(itertools.product(orders, repeat=3)))
    spread = tables.sum(axis=1).var(axis=-1)
    for table in tables[[0, 1, 8, 50, 150]]:
        expected = (spread >= table.sum(axis=0).var() - 1e-9).mean()
        assert friedman(table).permuted_p == pytest.approx(expected, abs=0.02)


def test_friedman_at_its_ends():
    same = np.tile([3.0, 2.0, 1.0], (4, 1))
    assert friedman(same).permuted_p < 0.01
    assert friedman(np.ones((4, 3))).permuted_p == 1
    assert friedman(same[:1]) is None
    assert friedman(same[:, :2]) is None


@pytest.mark.parametrize(("k", "n", "q"), [(2, 6, 1.960), (7, 6, 2.949), (10, 5, 3.164)])
def test_the_critical_difference(k: int, n: int, q: float):
    """With Demšar's table of q at 0.05 (2006)."""
    expected = q * np.sqrt(k * (k + 1) / (6 * n))
    assert critical_difference(k, n) == pytest.approx(expected, rel=1e-3)


@given(hnp.arrays(int, st.integers(2, 8), elements=st.integers(-6, 6).filter(bool)))
def test_signed_rank_is_exact_with_ties_too(differences: np.ndarray):
    """Against all 2ⁿ ways to give signs to the ranks."""
    sizes = stats.rankdata(abs(differences))
    middle = sizes.sum() / 2
    observed = abs(sizes[differences > 0].sum() - middle)
    signs = np.array(list(itertools.product([0, 1], repeat=len(sizes))))
    expected = (abs(signs @ sizes - middle) >= observed - 1e-9).mean()
    assert over_datasets(differences.astype(float)).p == pytest.approx(expected)


def test_signed_rank_of_nothing_but_zeros():
    assert over_datasets(np.zeros(5)).p == 1


@given(hnp.arrays(float, st.integers(1, 9), elements=st.floats(0, 1)))
def test_holm_steps_down(p: np.ndarray):
    """A hypothesis is rejected while p₍ᵢ₎ ≤ α/(m − i + 1), and none after the first that is not."""
    corrected, order = holm(p), np.argsort(p, kind="stable")
    for alpha in (0.01, 0.05, 0.3):
        limits = alpha / np.arange(len(p), 0, -1)
        rejected = np.logical_and.accumulate(p[order] <= limits)
        close = np.isclose(corrected[order], alpha)  # Rounding decides at the limit itself.
        assert ((corrected[order] <= alpha) == rejected)[~close].all()


@given(hnp.arrays(float, 10, elements=st.floats(-5, 5), unique=True))
def test_without_correction_the_test_over_splits_is_students(differences: np.ndarray):
    found, usual = over_splits(differences, 0.0), stats.ttest_1samp(differences, 0)
    assert found.p == pytest.approx(usual.pvalue, rel=1e-6, abs=1e-12)
    assert (found.low, found.high) == pytest.approx(tuple(usual.confidence_interval(0.95)))


def test_the_correction_of_nadeau_and_bengio():
    d = np.random.default_rng(1).normal(0.5, 1, 10)
    t = d.mean() / math.sqrt((1 / 10 + 1 / 8) * d.var(ddof=1))
    found = over_splits(d, test_share=1 / 8)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(t), 9))
    wider = found.half_width() / over_splits(d, test_share=0).half_width()
    assert wider == pytest.approx(math.sqrt((1 / 10 + 1 / 8) * 10))
    assert found.half_width(6) == pytest.approx(stats.t.ppf(1 - ALPHA / 12, 9) * found.error)


def test_the_corrected_test_keeps_its_word_where_students_does_not():
    """Mean accuracies of two equal classifiers over overlapping test sets: Student's errs often."""
    random, n, size = np.random.default_rng(0), 200, 100
    corrected = plain = 0
    for _ in range(n):
        # A difference on each graph of a small population; splits test on random halves of it.
        population = random.normal(size=size)
        splits = np.array([random.permutation(size)[: size // 2] for _ in range(10)])
        d = population[splits].mean(axis=1)
        corrected += over_splits(d, test_share=1.0).p < ALPHA
        plain += stats.ttest_1samp(d, 0).pvalue < ALPHA
    assert plain > 5 * ALPHA * n
    assert corrected < 3 * ALPHA * n


def test_too_few_to_say_anything():
    assert over_datasets(np.ones(1)) is None
    for n in range(FEWEST_RUNS):
        found = over_splits(np.arange(float(n)), 0.1)
        assert np.isnan([found.p, found.low, found.high]).all()
        assert found.n == n
    assert over_splits(np.arange(float(FEWEST_RUNS)), 0.1).p < 1


def test_differences_without_spread_say_nothing():
    for same in (np.full(7, 2.0), np.zeros(7)):
        assert np.isnan(over_splits(same, 0.1)[1:3]).all()
    found = over_datasets(np.full(7, 2.0))
    assert found.p == pytest.approx(2 / 2**7)  # Seven of one sign, however equal.
    assert math.isnan(found.low)
    assert math.isnan(found.high)
