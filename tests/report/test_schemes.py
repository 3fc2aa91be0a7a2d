"""The tests over splits follow the scheme of the splits."""

import math

import numpy as np
import pandas as pd
import pytest
from runs import make_results
from scipy import stats

from lcpool.data import split
from lcpool.data.splits import Scheme
from lcpool.report import Report
from lcpool.report.cells import gather, select
from lcpool.report.comparison import Comparison, pairs_over_splits
from lcpool.report.findings import why_no_test
from lcpool.report.schemes import per_split, share_of_tests
from lcpool.report.statistics import ALPHA, over_splits
from lcpool.sweep.results import Results

POOLS = ("topkpool", "sagpool", "lcpool")
ONE, TEN = "predefined-1-0123abcd", "predefined-10-0123abcd"


def results(split, runs=10, datasets=("DD",), **more):
    return make_results(datasets=datasets, backbones=("plain",), convs=("gcn",), pools=POOLS,
                        runs=runs, split=split, **more)  # fmt: skip


def compared(*args, **more) -> Comparison:
    return Comparison.of(select(results(*args, **more)), POOLS)


def literal(differences, share):
    """The corrected t-test, as it is written."""
    n = len(differences)
    t = differences.mean() / math.sqrt((1 / n + share) * differences.var(ddof=1))
    return 2 * stats.t.sf(abs(t), n - 1)


@pytest.mark.parametrize(
    ("name", "runs", "share"),
    [
        ("fresh", 10, 118 / 942),
        ("stratified", 10, 118 / 942),
        ("10-fold", 10, 1 / 9),
        ("5-fold", 5, 1 / 4),
        ("repeated-10-fold", 30, 1 / 9),
        ("repeated-5-fold", 12, 1 / 4),
        (TEN, 10, 118 / 942),
    ],
)
def test_each_scheme_has_its_correction(name, runs, share):
    c = compared(name, runs)
    pairs = pairs_over_splits(c, ["dataset"], "lcpool").set_index("pool")
    of_runs = c.on_splits(c.where())
    for pool in ("topkpool", "sagpool"):
        differences = (of_runs["lcpool"] - of_runs[pool]).to_numpy()
        assert pairs["p"][pool] == pytest.approx(literal(differences, share))
        assert pairs["splits"][pool] == runs
    assert why_no_test(c) == ""


@pytest.mark.parametrize("name", ["shared", ONE])
def test_one_split_for_all_runs_has_no_test(name):
    c = compared(name)
    assert pairs_over_splits(c, ["dataset"]).empty
    assert why_no_test(c)
    report = Report.of(results(name))
    assert report.differences()[0][2] is None
    cells = report.cells
    spread = stats.t.ppf(1 - ALPHA / 2, 9) * cells["std"] / math.sqrt(10)
    assert (cells["high"] - cells["low"]).to_numpy() == pytest.approx((2 * spread).to_numpy())


def test_runs_on_the_same_predefined_split_are_one_observation():
    """Thirty runs on ten splits: ten means, whatever the number of seeds."""
    c = compared(TEN, 30)
    pairs = pairs_over_splits(c, ["dataset"], "lcpool").set_index("pool")
    of_runs = c.on_splits(c.where())
    differences = (of_runs["lcpool"] - of_runs["topkpool"]).to_numpy().reshape(3, 10).mean(axis=0)
    assert pairs["splits"]["topkpool"] == 10
    assert pairs["p"]["topkpool"] == pytest.approx(literal(differences, 118 / 942))
    cell = gather(select(results(TEN, 30))).iloc[0]
    runs = select(results(TEN, 30)).query("pool == @cell.pool")["test_accuracy"].to_numpy()
    half = over_splits(runs.reshape(3, 10).mean(axis=0), 118 / 942).half_width()
    assert cell["high"] - cell["low"] == pytest.approx(2 * half)


def test_values_of_other_schemes_are_as_they_are():
    index = pd.MultiIndex.from_product([[0], range(4)], names=["seed", "run"])
    values = pd.Series([1.0, 2.0, 3.0, 5.0], index)
    for name in ("fresh", "shared", "repeated-2-fold", ONE):
        assert per_split(values, Scheme.of(name)).tolist() == [1, 2, 3, 5]
    assert per_split(values, Scheme.of("predefined-2-0123abcd")).tolist() == [2, 3.5]


def test_few_folds_are_too_few_for_a_test():
    assert "3 runs are too few" in why_no_test(compared("3-fold", 3))
    assert "2 splits are too few" in why_no_test(compared("predefined-2-0123abcd", 10))


# --- what is compared


def both(*parts):
    return Results(pd.concat([part.runs for part in parts], ignore_index=True))


def test_a_report_is_of_one_scheme():
    mixed = both(results("10-fold"), results("5-fold", 5), results("shared"), results("stratified"))
    assert Report.of(mixed).split == "10-fold"
    assert Report.of(both(mixed, results("fresh"))).split == "fresh"
    for name in ("10-fold", "5-fold", "shared", "stratified"):
        report = Report.of(mixed, split=name)
        assert set(report.runs["split"]) == {name}
        assert report.page()
    with pytest.raises(ValueError, match="no runs with split 'repeated-10-fold'"):
        Report.of(mixed, split="repeated-10-fold")
    with pytest.raises(ValueError, match=r"'sorted'.*export it again"):
        Report.of(Results(mixed.runs.assign(split="sorted")))


def test_predefined_splits_of_several_datasets_are_one_report():
    other = results(TEN, datasets=("NCI1",))
    report = Report.of(both(results(ONE), other))
    assert report.split == "predefined"
    assert report.ranked.datasets == ["DD", "NCI1"]
    pairs = pairs_over_splits(report.ranked, ["dataset"])
    assert set(pairs["dataset"]) == {"NCI1"}  # DD has one split, and so no test
    assert report.page()
    assert Report.of(both(results(ONE), other), split=TEN).ranked.datasets == ["NCI1"]


def test_other_predefined_splits_of_one_dataset_are_not_compared():
    with pytest.raises(ValueError, match=f"different predefined splits.*{ONE} or {TEN}"):
        Report.of(both(results(ONE), results(TEN)))
    assert set(Report.of(both(results(ONE), results(TEN)), split=ONE).runs["split"]) == {ONE}


# --- errors of the first kind


def centroid_accuracy(x, y, train, test):
    """Of the class whose mean of a feature is nearer."""
    low, high = (x[train][y[train] == c].mean() for c in (0, 1))
    return ((np.abs(x[test] - high) < np.abs(x[test] - low)) == y[test]).mean()


@pytest.mark.parametrize(("name", "runs"), [("10-fold", 10), ("repeated-5-fold", 25)])
def test_two_equal_classifiers_seldom_differ(name, runs):
    """Both see one of two features that say as much of the class: neither is better.

    Student's test takes the runs for independent, and finds a difference far too often where folds
    are repeated.
    """
    random, n, data = np.random.default_rng(0), 60, 200
    share, p, plain = share_of_tests(Scheme.of(name), 0, 0), [], []
    for seed in range(data):
        y = random.permutation(n) % 2
        x = random.normal(y[:, None], 1.5, (n, 2))
        differences = []
        for run in range(runs):
            parts = split(n, run, name, seed)
            train, test = (part.numpy() for part in (parts.train, parts.test))
            one, other = (centroid_accuracy(x[:, f], y, train, test) for f in (0, 1))
            differences.append(one - other)
        p.append(over_splits(np.array(differences), share).p)
        plain.append(over_splits(np.array(differences), 0.0).p)
    wrong, taken = (np.mean(np.array(of) < ALPHA) for of in (p, plain))
    assert wrong < 2 * ALPHA
    assert taken > (2 if runs > 10 else 1) * wrong
