"""Poolings compared, and what is ranked where cells are missing."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from runs import make_results

from lcpool.report import Report
from lcpool.report.cells import GROUP, gather, select
from lcpool.report.comparison import Comparison, pairs_over_splits, ranked
from lcpool.report.findings import findings
from lcpool.report.statistics import holm, over_splits, ranks
from lcpool.report.tables import latex, markdown
from lcpool.settings import POOLS
from lcpool.sweep.results import Results
from lcpool.train import Protocol

RANKED = tuple(pool for pool in POOLS if pool != "lcpool*")


def compared(pools=RANKED, without=None, **options) -> Comparison:
    runs = select(make_results(pools=pools, **options))
    if without is not None:
        runs = runs[~without(runs)]
    return Comparison.of(runs, pools)


def test_the_dataset_is_the_block():
    c = compared()
    assert c.means.shape == (24, 7)
    blocks = c.blocks(c.means)
    assert blocks.shape == (6, 7)
    of_dd = c.means[(c.groups["dataset"] == "DD").to_numpy()]
    assert blocks[c.datasets.index("DD")] == pytest.approx(of_dd.mean(axis=0))
    assert len(of_dd) == 4
    assert list(c.rank.values()) == pytest.approx(ranks(blocks).mean(axis=0))


def test_more_backbones_are_no_more_evidence():
    """The same accuracies under four backbones give the p-values of one."""
    one = select(make_results(backbones=("plain",), convs=("gcn",), pools=RANKED))
    four = pd.concat([one.assign(backbone=f"b{i}") for i in range(4)], ignore_index=True)
    few, many = (Comparison.of(runs, RANKED) for runs in (one, four))
    assert many.friedman == few.friedman
    assert many.critical_difference == few.critical_difference
    assert many.rank == few.rank


def test_ranks_of_a_backbone_are_means_over_its_datasets():
    c = compared()
    plain = ((c.groups["backbone"] == "plain") & (c.groups["conv"] == "gcn")).to_numpy()
    row = c.backbones.index(("plain", "gcn"))
    assert c.backbone_ranks(c.means)[row] == pytest.approx(ranks(c.means[plain]).mean(axis=0))


def test_poolings_that_never_met():
    c = compared(
        pools=("lcpool", "nopool"), datasets=("DD", "NCI1"),
        without=lambda runs: (runs["dataset"] == "DD") == (runs["pool"] == "lcpool"),
    )  # fmt: skip
    assert c.empty
    assert c.friedman is None
    assert c.critical_difference is None


def test_equal_means_are_equal_whatever_was_summed_first():
    """The mean of the same runs in another order differs in its last bits."""
    runs = select(make_results(datasets=("DD", "NCI1"), pools=("nopool", "sagpool", "lcpool")))
    values = {"nopool": [0.1, 0.2, 0.3], "sagpool": [0.3, 0.2, 0.1], "lcpool": [0.2, 0.2, 0.2]}
    runs["value"] = [values[pool][run] for pool, run in zip(runs["pool"], runs["run"], strict=True)]
    c = Comparison.of(runs, ("nopool", "sagpool", "lcpool"))
    assert set(c.rank.values()) == {2}
    assert (c.backbone_ranks(c.means) == 2).all()
    assert c.friedman.permuted_p == 1
    assert gather(runs)["mean"].nunique() == 1


def test_seeds_are_replicates():
    """Twice the runs of one pooling, paired by seed and number."""
    both = [
        make_results(
            datasets=("DD",), pools=("nopool", "lcpool"), protocol=Protocol(seed=s), seed=s
        )
        for s in (0, 1)
    ]
    results = Results(pd.concat([r.runs for r in both], ignore_index=True))
    runs = select(results)
    assert set(runs["pool"]) == {"nopool", "lcpool"}
    assert set(gather(runs)["runs"]) == {6}
    base = runs["seed"] * 10.0 + runs["run"]
    runs["value"] = base + (1 + 0.1 * (runs["run"] + runs["seed"])) * (runs["pool"] == "lcpool")
    c = Comparison.of(runs, ("nopool", "lcpool"))
    pairs = pairs_over_splits(c, GROUP, "lcpool")
    assert set(pairs["splits"]) == {6}
    assert pairs["difference"].to_numpy() == pytest.approx(1.15)
    assert (pairs["high"] - pairs["low"] < 1).all()


def test_who_was_picked_is_corrected_for_all_pairs():
    """By the p of all 21, of which six are shown."""
    c = compared(datasets=("DD",), runs=10)
    runs = c.on_splits(c.where())
    every = {
        (one, other): over_splits((runs[one] - runs[other]).to_numpy(), c.shares["DD"]).p
        for one, other in itertools.combinations(RANKED, 2)
    }
    pairs = pairs_over_splits(c, ["dataset"])
    assert len(pairs) == 6
    assert set(pairs["tests"]) == {21}
    corrected = dict(zip(every, holm(np.array(list(every.values()))), strict=True))
    for pool, p in zip(pairs["pool"], pairs["p_holm"], strict=True):
        expected = corrected.get((c.order[0], pool), corrected.get((pool, c.order[0])))
        assert p == pytest.approx(expected)


def test_pairs_over_splits_pair_the_same_split():
    runs = select(make_results(datasets=("DD", "NCI1"), pools=("nopool", "lcpool"), runs=7))
    better = runs["pool"] == "lcpool"
    noise = np.random.default_rng(0).normal(1, 0.1, better.sum())
    runs.loc[better, "value"] = runs[runs["pool"] == "nopool"]["value"].to_numpy() + noise
    # In another order, and with a run that one of them lost.
    runs = runs.sample(frac=1, random_state=0)
    lost = runs[(runs["pool"] == "nopool") & (runs["run"] == 3) & (runs["dataset"] == "DD")].index
    runs.loc[lost, "value"] = np.nan
    c = Comparison.of(runs, ("nopool", "lcpool"))
    pairs = pairs_over_splits(c, GROUP, "lcpool")
    assert len(pairs) == 8
    assert (pairs["p_holm"] < 0.01).all()
    assert pairs["difference"].to_numpy() == pytest.approx(1, abs=0.2)
    assert pairs.groupby("dataset")["splits"].first().to_dict() == {"DD": 6, "NCI1": 7}
    of_datasets = pairs_over_splits(c, ["dataset"], "lcpool")
    expected = pairs.groupby("dataset", sort=False)["difference"].mean()
    assert of_datasets["difference"].to_numpy() == pytest.approx(expected.to_numpy())
    assert of_datasets["p"].max() < pairs["p"].max()  # A mean over four groups varies less.


@pytest.mark.parametrize(("num_runs", "spread"), [(2, 1.0), (4, 1.0), (10, 0.0)])
def test_too_few_runs_and_runs_without_spread_give_no_p(num_runs: int, spread: float):
    runs = select(make_results(datasets=("DD",), pools=("nopool", "lcpool"), runs=num_runs))
    lead = 3.0 + spread * np.random.default_rng(0).normal(size=len(runs))
    runs["value"] = 70.0 + runs["run"] + lead * (runs["pool"] == "lcpool")
    pairs = pairs_over_splits(Comparison.of(runs, ("nopool", "lcpool")), GROUP, "lcpool")
    assert pairs["difference"].notna().all()
    assert pairs["p"].isna().all()
    assert pairs["p_holm"].isna().all()


def test_the_order_of_the_poolings():
    c = compared()
    average = c.rank
    assert sorted(average.values()) == [average[pool] for pool in c.order]
    assert c.first == [pool for pool in c.pools if average[pool] == average[c.order[0]]]


def there(shape: tuple[int, int] = (6, 8), missing=()) -> np.ndarray:
    """Whether there is a result, ``[groups, pools]``: everywhere but where indices say."""
    found = np.ones(shape, dtype=bool)
    for index in missing:
        found[index] = False
    return found


ALL = slice(None)


@pytest.mark.parametrize(
    ("missing", "groups", "pools"),
    [
        ([], [], []),
        ([(2, 3)], [2], []),  # One failed cell: its group.
        ([(2, 3), (2, 4), (5, 3)], [2, 5], []),
        ([(slice(3), 3)], [0, 1, 2], []),  # Half of the groups is not most of them.
        ([(slice(4), 3)], [], [3]),
        ([(ALL, 3)], [], [3]),
        ([(ALL, 3), (2, 4)], [2], [3]),
        ([(5, slice(1, None))], [5], []),  # A dataset that has just begun.
        ([(slice(2, None), slice(1, None))], [2, 3, 4, 5], []),  # Most of them have.
        ([(slice(2, None), slice(1, None)), (ALL, 7)], [2, 3, 4, 5], [7]),
    ],
)
def test_what_is_left_out(missing: list, groups: list[int], pools: list[int]):
    found = there(missing=missing)
    rows, columns = ranked(found)
    assert np.flatnonzero(~rows).tolist() == groups
    assert np.flatnonzero(~columns).tolist() == pools


def test_two_poolings_are_compared_wherever_both_have_a_result():
    rows, columns = ranked(there((6, 2), missing=[(slice(1, None), 1)]))
    assert columns.all()
    assert rows.tolist() == [True] + [False] * 5


@given(hnp.arrays(bool, st.tuples(st.integers(0, 6), st.integers(1, 6))))
def test_what_is_ranked_is_complete(found: np.ndarray):
    rows, columns = ranked(found)
    assert found[np.ix_(rows, columns)].all()
    assert not found[np.ix_(~rows, columns)].all(axis=1).any()  # No group without need.
    assert len(columns) < 2 or columns.sum() >= 2


def lacking(results: Results, *cells: tuple[str, ...]) -> Results:
    """Without the runs of these cells: dataset, pooling, and, where one is named, convolution."""
    gone = np.zeros(len(results.runs), dtype=bool)
    for dataset, pool, *convs in cells:
        named = (results.runs["dataset"] == dataset) & (results.runs["pool"] == pool)
        gone |= named & (results.runs["conv"].isin(convs) if convs else True)
    return Results(results.runs[~gone].reset_index(drop=True), results.curves)


MINE = {"datasets": ("A", "B", "C"), "backbones": ("plain",), "pools": tuple("abcd")}


def test_one_missing_cell_unranks_its_group_and_no_pooling():
    results = make_results(**MINE, runs=5)
    c = Report.of(lacking(results, ("B", "c", "gcn"))).ranked
    assert c.pools == tuple("abcd")
    assert c.left_out.pools == {}
    assert c.left_out.groups == {("B", "plain", "gcn"): ["c"]}
    assert len(c.groups) == 5
    whole = Report.of(results).ranked
    kept = ~(whole.where(dataset="B", conv="gcn"))
    assert (c.means == whole.means[kept]).all()


def test_a_pooling_that_lacks_most_groups_is_left_out_and_keeps_its_accuracies():
    results = make_results(**MINE)
    report = Report.of(lacking(results, ("A", "c"), ("B", "c")))
    assert report.ranked.pools == tuple("abd")
    assert len(report.ranked.groups) == 6
    assert list(report.ranked.left_out.pools) == ["c"]
    assert {group[0] for group in report.ranked.left_out.pools["c"]} == {"A", "B"}
    of_c = report.cells[report.cells["pool"] == "c"]
    whole = Report.of(results).cells.set_index(["dataset", "conv", "pool"])["mean"]
    assert [whole[row.dataset, row.conv, "c"] for row in of_c.itertuples()] == list(of_c["mean"])


def test_every_missing_thing_is_named_in_a_sentence():
    results = lacking(make_results(**MINE), ("A", "b", "gcn"), *itertools.product("BC", "c"))
    report = Report.of(results)
    assert list(report.ranked.left_out.pools) == ["c"]
    assert list(report.ranked.left_out.groups) == [("A", "plain", "gcn")]
    texts = [
        findings(report)["missing"],
        *(write(report).splitlines() for write in (markdown, latex)),
    ]
    for said in texts:
        (pooling,) = (re.findall(r"\w+", text) for text in said if "Not ranked" in text)
        (group,) = (re.findall(r"\w+", text) for text in said if "Left out of the" in text)
        assert {"c", "4", "6"} <= set(pooling)
        assert {"A", "plain", "gcn", "b"} <= set(group)
