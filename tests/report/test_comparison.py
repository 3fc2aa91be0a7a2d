"""Poolings compared, and what is ranked where cells are missing."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import make_results

from lcpool.models import POOLINGS
from lcpool.report import Report, comparison
from lcpool.report.cells import GROUP, gather, select
from lcpool.report.comparison import (
    Comparison,
    Grid,
    complete,
    pairs_over_datasets,
    pairs_over_splits,
)
from lcpool.report.findings import findings
from lcpool.report.statistics import holm, over_datasets, ranks
from lcpool.report.tables import latex, markdown
from lcpool.sweep.results import Results
from lcpool.train import Protocol

RANKED = tuple(pool for pool in POOLINGS if pool != "lcpool*")


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
    assert c.average_ranks(c.means) == pytest.approx(ranks(blocks).mean(axis=0))


def test_more_backbones_are_no_more_evidence():
    """The same accuracies under four backbones give the p-values of one."""
    one = select(make_results(backbones=("plain",), convs=("gcn",), pools=RANKED))
    four = pd.concat([one.assign(backbone=f"b{i}") for i in range(4)], ignore_index=True)
    few, many = (Comparison.of(runs, RANKED) for runs in (one, four))
    assert many.friedman == few.friedman
    assert many.critical_difference == few.critical_difference
    pairs = [pairs_over_datasets(c, "lcpool", picked=False) for c in (many, few)]
    pd.testing.assert_frame_equal(*pairs)


def test_ranks_of_a_backbone_are_means_over_its_datasets():
    c = compared()
    plain = ((c.groups["backbone"] == "plain") & (c.groups["conv"] == "gcn")).to_numpy()
    row = c.backbones.index(("plain", "gcn"))
    assert c.backbone_ranks(c.means)[row] == pytest.approx(ranks(c.means[plain]).mean(axis=0))


def test_a_pooling_that_lacks_two_groups_is_not_ranked_and_the_datasets_are():
    def without(runs):
        return (runs["dataset"] == "DD") & (runs["pool"] == "asapool") & (runs["conv"] == "gcn")

    c = compared(without=without)
    assert c.pools == tuple(pool for pool in RANKED if pool != "asapool")
    assert len(c.groups) == 24
    (left_out,) = c.left_out
    assert (left_out.kind, left_out.name, left_out.cells) == ("pool", "asapool", 24)
    assert {cell[:3] for cell in left_out.missing} == {
        ("DD", backbone, "gcn") for backbone in ("hierarchical", "plain")
    }
    assert left_out.compare == tuple(name for name in c.datasets if name != "DD")


def test_a_pooling_that_most_groups_lack_is_left_out():
    c = compared(without=lambda runs: (runs["dataset"] != "DD") & (runs["pool"] == "asapool"))
    assert [part.name for part in c.left_out] == ["asapool"]
    assert len(c.left_out[0].missing) == 20
    assert len(c.groups) == 24
    assert len(c.pools) == 6


def test_poolings_that_never_met():
    c = compared(
        pools=("lcpool", "nopool"), datasets=("DD", "NCI1"),
        without=lambda runs: (runs["dataset"] == "DD") == (runs["pool"] == "lcpool"),
    )  # fmt: skip
    assert c.empty
    assert c.friedman is None
    assert c.critical_difference is None
    assert pairs_over_datasets(c, "lcpool", picked=False).empty


def test_resampling_keeps_splits_together():
    """A pooling that is one point better on every split, with any backbone, always is."""
    for split in ("fresh", "shared"):
        runs = select(
            make_results(datasets=("DD",), pools=("nopool", "lcpool"), runs=5, split=split)
        )
        base = runs["run"].map(dict(enumerate([70.0, 71.0, 74.0, 69.0, 72.0])))
        runs["accuracy"] = base + (runs["pool"] == "lcpool")
        c = Comparison.of(runs, ("nopool", "lcpool"))
        drawn = c.resampled()
        between = drawn - drawn[:, :1, :1]
        expected = np.broadcast_to([0.0, 1.0], between.shape)
        if split == "fresh":
            assert between == pytest.approx(expected)
        else:
            assert (between - expected)[:, :, 1].std() > 0.1
        assert drawn.mean(axis=0) == pytest.approx(c.means, abs=0.2)
        assert (c.resampled() == drawn).all()


def test_a_run_that_a_cell_lacks_is_drawn_for_the_others():
    c = compared(
        datasets=("DD",),
        runs=5,
        without=lambda runs: (runs["pool"] == "nopool") & (runs["run"] == 2),
    )
    drawn = c.resampled()
    assert np.isfinite(drawn).all()
    assert drawn.mean(axis=0) == pytest.approx(c.means, abs=0.3)


@pytest.mark.parametrize("split", ["fresh", "shared"])
@pytest.mark.parametrize("num_runs", [5, 10])
def test_resamples_spread_as_far_as_the_truth_lies(split: str, num_runs: int, monkeypatch):
    """95 % of them cover the true mean 95 times in 100, though runs on fresh splits resemble."""
    monkeypatch.setattr(comparison, "RESAMPLES", 400)
    random, share, n = np.random.default_rng(0), 1 / 8, 300
    common = share / (1 + share) if split == "fresh" else 0.0
    noise = np.sqrt(common) * random.normal(size=(n, 1))
    noise = noise + np.sqrt(1 - common) * random.normal(size=(n, num_runs))
    runs = pd.DataFrame(70 + noise).melt(var_name="run", value_name="accuracy", ignore_index=False)
    names = {"backbone": "b", "conv": "c", "pool": "p", "seed": 0, "split": split}
    runs = runs.reset_index(names="dataset").assign(**names, num_train=8, num_test=1)
    low, high = np.quantile(Comparison.of(runs, ["p"]).resampled(), [0.025, 0.975], axis=0)
    assert 0.92 * n < ((low < 70) & (high > 70)).sum() < 0.98 * n


def test_equal_means_are_equal_whatever_was_summed_first():
    """The mean of the same runs in another order differs in its last bits."""
    runs = select(make_results(datasets=("DD", "NCI1"), pools=("nopool", "sagpool", "lcpool")))
    values = {"nopool": [0.1, 0.2, 0.3], "sagpool": [0.3, 0.2, 0.1], "lcpool": [0.2, 0.2, 0.2]}
    runs["accuracy"] = [
        values[pool][run] for pool, run in zip(runs["pool"], runs["run"], strict=True)
    ]
    c = Comparison.of(runs, ("nopool", "sagpool", "lcpool"))
    assert (c.average_ranks(c.means) == 2).all()
    assert (c.backbone_ranks(c.means) == 2).all()
    assert c.friedman.permuted_p == 1
    assert (pairs_over_datasets(c, "lcpool", picked=False)[["better", "p"]] == [0, 1]).all(
        axis=None
    )
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
    runs["accuracy"] = base + (1 + 0.1 * (runs["run"] + runs["seed"])) * (runs["pool"] == "lcpool")
    c = Comparison.of(runs, ("nopool", "lcpool"))
    pairs = pairs_over_splits(c, "lcpool", picked=False, by=GROUP)
    assert set(pairs["splits"]) == {6}
    assert pairs["difference"].to_numpy() == pytest.approx(1.15)
    assert (pairs["high"] - pairs["low"] < 1).all()


def test_pairs_over_datasets():
    c = compared(runs=10)
    pairs = pairs_over_datasets(c, "lcpool", picked=False).set_index("pool")
    assert set(pairs.index) == set(RANKED) - {"lcpool"}
    blocks = dict(zip(c.pools, c.blocks(c.means).T, strict=True))
    d = blocks["lcpool"] - blocks["sagpool"]
    assert pairs.loc["sagpool", "difference"] == pytest.approx(d.mean())
    assert pairs.loc["sagpool", "better"] == (d > 0).sum()
    assert (pairs["p_holm"] >= pairs["p"]).all()
    assert (pairs["p_holm"] >= 6 / 2**5 - 1e-9).all()  # Six datasets show nothing among six.
    assert (pairs["smallest"] > (pairs["high"] - pairs["low"]) / 2).all()
    assert set(pairs["tests"]) == {6}


def test_who_was_picked_is_corrected_for_all_pairs():
    """By the p of all 21, of which six are shown."""
    c = compared(runs=10)
    every = {
        (one, other): over_datasets(d).p
        for one, other in itertools.combinations(RANKED, 2)
        for d in [c.blocks(c.means)[:, [RANKED.index(one), RANKED.index(other)]] @ [1.0, -1.0]]
    }
    pairs = pairs_over_datasets(c, c.order[0], picked=True)
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
    runs.loc[better, "accuracy"] = runs[runs["pool"] == "nopool"]["accuracy"].to_numpy() + noise
    # In another order, and with a run that one of them lost.
    runs = runs.sample(frac=1, random_state=0)
    lost = runs[(runs["pool"] == "nopool") & (runs["run"] == 3) & (runs["dataset"] == "DD")].index
    runs.loc[lost, "accuracy"] = np.nan
    c = Comparison.of(runs, ("nopool", "lcpool"))
    pairs = pairs_over_splits(c, "lcpool", picked=False, by=GROUP)
    assert len(pairs) == 8
    assert (pairs["p_holm"] < 0.01).all()
    assert pairs["difference"].to_numpy() == pytest.approx(1, abs=0.2)
    assert pairs.groupby("dataset")["splits"].first().to_dict() == {"DD": 6, "NCI1": 7}
    of_datasets = pairs_over_splits(c, "lcpool", picked=False, by=["dataset"])
    expected = pairs.groupby("dataset", sort=False)["difference"].mean()
    assert of_datasets["difference"].to_numpy() == pytest.approx(expected.to_numpy())
    assert of_datasets["p"].max() < pairs["p"].max()  # A mean over four groups varies less.


@pytest.mark.parametrize(("num_runs", "spread"), [(2, 1.0), (4, 1.0), (10, 0.0)])
def test_too_few_runs_and_runs_without_spread_give_no_p(num_runs: int, spread: float):
    runs = select(make_results(datasets=("DD",), pools=("nopool", "lcpool"), runs=num_runs))
    lead = 3.0 + spread * np.random.default_rng(0).normal(size=len(runs))
    runs["accuracy"] = 70.0 + runs["run"] + lead * (runs["pool"] == "lcpool")
    pairs = pairs_over_splits(Comparison.of(runs, ("nopool", "lcpool")), "lcpool", False, GROUP)
    assert pairs["difference"].notna().all()
    assert pairs["p"].isna().all()
    assert pairs["p_holm"].isna().all()


def test_the_order_of_the_poolings():
    c = compared()
    average = dict(zip(c.pools, c.average_ranks(c.means), strict=True))
    assert sorted(average.values()) == [average[pool] for pool in c.order]
    assert c.first == [pool for pool in c.pools if average[pool] == average[c.order[0]]]


POOLS = tuple("abcdefgh")
DATASETS = tuple("UVWXYZ")
BACKBONES = (("plain", "gcn"), ("plain", "graphconv"), ("hierarchical", "gcn"))


def grid(datasets=DATASETS, pools=POOLS, backbones=BACKBONES[:1], missing=()) -> Grid:
    """A grid of these names without the cells ``missing``: dataset, pooling and, if any, pair."""
    groups = [(d, *pair) for d in datasets for pair in backbones]
    there = np.ones((len(groups), len(pools)), dtype=bool)
    for dataset, pool, *pairs in missing:
        for i, group in enumerate(groups):
            if group[0] == dataset and (not pairs or group[1:] in pairs):
                there[i, pools.index(pool)] = False
    return Grid(groups, list(pools), there)


def ranked(of: Grid) -> tuple[str, str, list[tuple[str, str]]]:
    """The names of what is ranked, and the kinds and names of what is left out."""
    rows, columns, left_out = complete(of)
    datasets = dict.fromkeys(of.groups[i][0] for i in np.flatnonzero(rows))
    pools = [of.pools[i] for i in np.flatnonzero(columns)]
    return "".join(datasets), "".join(pools), [(part.kind, part.name) for part in left_out]


def test_nothing_is_left_out_of_a_complete_grid():
    assert ranked(grid()) == ("UVWXYZ", "abcdefgh", [])


def test_one_failed_cell_takes_its_pooling_alone():
    assert ranked(grid(missing=[("W", "d")])) == ("UVWXYZ", "abcefgh", [("pool", "d")])


def test_one_failed_cell_of_several_backbones_takes_its_pooling_alone():
    of = grid(backbones=BACKBONES, missing=[("W", "d", ("plain", "gcn"))])
    assert ranked(of) == ("UVWXYZ", "abcefgh", [("pool", "d")])
    (left_out,) = complete(of)[2]
    assert left_out.missing == (("W", "plain", "gcn", "d"),)
    assert left_out.cells == 18


def test_a_dataset_that_has_just_begun_is_left_out():
    of = grid(missing=[("Z", pool) for pool in "bcdefgh"])
    assert ranked(of) == ("UVWXY", "abcdefgh", [("dataset", "Z")])
    (left_out,) = complete(of)[2]
    assert [cell[3] for cell in left_out.missing] == list("bcdefgh")
    assert left_out.cells == 8


def test_a_backbone_that_has_just_begun_is_left_out():
    """It would take all poolings but one otherwise, for they lack it on every dataset."""
    begun = [(d, pool, BACKBONES[1]) for d in DATASETS for pool in "bcdefgh"]
    of = grid(backbones=BACKBONES, missing=begun)
    assert ranked(of) == ("UVWXYZ", "abcdefgh", [("backbone", "plain, graphconv")])
    rows, _, _ = complete(of)
    assert rows.sum() == 12


def test_a_failed_cell_and_a_dataset_that_has_just_begun():
    of = grid(missing=[("W", "d"), *(("Z", pool) for pool in "bcefgh")])
    assert ranked(of) == ("UVWXY", "abcefgh", [("dataset", "Z"), ("pool", "d")])


def test_equal_shares_take_the_pooling_that_comes_last():
    of = grid("XYZ", "abc", missing=[("X", "b"), ("Y", "c")])
    # Then b lacks one of three datasets, and X one of two poolings.
    assert ranked(of) == ("YZ", "ab", [("pool", "c"), ("dataset", "X")])


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (grid("YZ", "ab", missing=[("Z", "b")]), ("Y", "ab")),
        (grid(DATASETS, "ab", missing=[(d, "b") for d in "VWXYZ"]), ("U", "ab")),
        (grid("Z", "ab", BACKBONES, missing=[("Z", "b", BACKBONES[1])]), ("Z", "ab")),
        (grid(DATASETS, "abc", missing=[(d, "c") for d in DATASETS]), ("UVWXYZ", "ab")),
    ],
)
def test_two_poolings_that_met_somewhere_are_compared_there(of: Grid, expected: tuple[str, str]):
    assert ranked(of)[:2] == expected


def test_a_pooling_without_any_result_takes_no_dataset():
    of = grid(DATASETS, "ab", missing=[(d, "b") for d in DATASETS])
    assert ranked(of) == ("UVWXYZ", "a", [("pool", "b")])


def test_poolings_that_never_met_are_not():
    of = grid("YZ", "ab", missing=[("Y", "a"), ("Z", "b")])
    rows, columns, left_out = complete(of)
    assert rows.sum() <= 1 or columns.sum() <= 1
    assert sum(len(part.missing) for part in left_out) == 2


@given(st.data())
def test_what_is_ranked_is_complete_and_every_missing_cell_is_named_once(data):
    shape = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5)))
    of = grid(DATASETS[: shape[0]], POOLS[: shape[2]], BACKBONES[: shape[1]])
    cells = st.lists(st.booleans(), min_size=of.there.size, max_size=of.there.size)
    there = np.array(data.draw(cells)).reshape(of.there.shape)
    of = Grid(of.groups, of.pools, there)
    rows, columns, left_out = complete(of)
    assert there[np.ix_(rows, columns)].all()
    named = [cell for part in left_out for cell in part.missing]
    lacking = [(*of.groups[i], of.pools[j]) for i, j in np.argwhere(~there)]
    assert sorted(named) == sorted(lacking)
    assert all(0 < len(part.missing) <= part.cells for part in left_out)
    # What lacks nothing is never left out.
    names = {"pool": 3, "dataset": 0}
    for part in left_out:
        if part.kind in names:
            assert part.name in {cell[names[part.kind]] for cell in lacking}


def lacking(results: Results, *cells: tuple[str, ...]) -> Results:
    """Without the runs of these cells: dataset, pooling, and, where one is named, convolution."""
    gone = np.zeros(len(results.runs), dtype=bool)
    for dataset, pool, *convs in cells:
        named = (results.runs["dataset"] == dataset) & (results.runs["pool"] == pool)
        gone |= named & (results.runs["conv"].isin(convs) if convs else True)
    return Results(results.runs[~gone].reset_index(drop=True), results.curves)


MINE = {"datasets": ("A", "B", "C"), "backbones": ("plain",), "pools": tuple("abcd")}


def test_a_pooling_that_is_left_out_can_be_compared_where_it_has_results():
    results = lacking(make_results(**MINE), ("B", "c", "gcn"))
    report = Report.of(results)
    (left_out,) = report.ranked.left_out
    assert (left_out.kind, left_out.name) == ("pool", "c")
    assert left_out.missing == (("B", "plain", "gcn", "c"),)
    assert left_out.compare == ("A", "C")
    kept = Report.of(lacking(results, *itertools.product("B", "abcd"))).ranked
    assert "c" in kept.pools
    assert kept.datasets == ["A", "C"]


def test_a_dataset_that_is_left_out_can_be_compared_by_the_poolings_it_has():
    begun = [("C", pool) for pool in "cd"]
    report = Report.of(lacking(make_results(**{**MINE, "convs": ("gcn",)}), *begun))
    (left_out,) = report.ranked.left_out
    assert (left_out.kind, left_out.name, left_out.compare) == ("dataset", "C", ("a", "b"))
    assert report.ranked.datasets == ["A", "B"]


def test_a_dataset_with_one_pooling_offers_no_comparison():
    begun = [("C", pool) for pool in "bcd"]
    (left_out,) = Report.of(lacking(make_results(**MINE), *begun)).ranked.left_out
    assert (left_out.name, left_out.compare) == ("C", ())


def test_every_missing_thing_is_named_in_a_sentence():
    results = lacking(make_results(**MINE), ("B", "c", "gcn"), *(("C", pool) for pool in "bcd"))
    report = Report.of(results)
    assert [part.name for part in report.ranked.left_out] == ["C", "c"]
    texts = [
        findings(report)["missing"],
        *(write(report).splitlines() for write in (markdown, latex)),
    ]
    for said in texts:
        dataset, pooling = (re.findall(r"[\w,]+", text) for text in said if "Not ranked" in text)
        assert {"C,", "b,", "c", "d"} <= set(dataset)
        assert {"c,", "B", "plain,", "gcn"} <= set(pooling)
        assert pooling[-2:] == ["datasets", "A"]


def test_a_pooling_without_a_rank_keeps_its_accuracies():
    results = make_results(**MINE)
    report = Report.of(lacking(results, ("B", "c", "gcn")))
    of_c = report.cells[report.cells["pool"] == "c"]
    assert len(of_c) == 5
    whole = Report.of(results).cells.set_index(["dataset", "conv", "pool"])["mean"]
    for cell in of_c.to_dict("records"):
        assert cell["mean"] == whole[cell["dataset"], cell["conv"], "c"]


def test_the_others_rank_as_without_the_pooling_that_failed():
    results = make_results(**MINE, runs=5)
    c = Report.of(lacking(results, ("B", "c"))).ranked
    alone = Report.of(lacking(results, *itertools.product("ABC", "c"))).ranked
    assert c.pools == alone.pools == ("a", "b", "d")
    assert (c.means == alone.means).all()
    assert c.friedman == alone.friedman
