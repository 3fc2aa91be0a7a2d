import numpy as np
import pandas as pd
import pytest
from runs import make_results

from lcpool.models import POOLINGS
from lcpool.report.cells import gather, select
from lcpool.report.comparison import Comparison
from lcpool.report.pairs import pairs_over_datasets, pairs_over_splits
from lcpool.report.statistics import ranks

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
    pd.testing.assert_frame_equal(pairs_over_datasets(many), pairs_over_datasets(few))


def test_ranks_of_a_backbone_are_the_papers_kind():
    c = compared()
    plain = ((c.groups["backbone"] == "plain") & (c.groups["conv"] == "gcn")).to_numpy()
    row = c.backbones.index(("plain", "gcn"))
    assert c.backbone_ranks(c.means)[row] == pytest.approx(ranks(c.means[plain]).mean(axis=0))


def test_the_papers_own_accuracies():
    """NoPool has the lowest rank for hierarchical GraphConv, whatever its text says."""
    c = compared()
    means = c.published()
    assert np.isnan(means).sum() == 1
    row = c.backbone_ranks(means)[c.backbones.index(("hierarchical", "graphconv"))]
    assert c.pools[row.argmin()] == "nopool"
    assert row.min() == pytest.approx(2.33, abs=0.005)
    assert compared(datasets=("MINE",)).published() is None


def test_a_group_that_lacks_a_pooling_is_left_out():
    def without(runs):
        return (runs["dataset"] == "DD") & (runs["pool"] == "asapool") & (runs["conv"] == "gcn")

    c = compared(without=without)
    assert c.pools == RANKED
    assert c.incomplete == 2
    assert len(c.datasets) == 6  # DD has its other two groups.


def test_a_pooling_that_most_groups_lack_is_left_out():
    c = compared(without=lambda runs: (runs["dataset"] != "DD") & (runs["pool"] == "asapool"))
    assert c.absent == ("asapool",)
    assert c.incomplete == 0
    assert len(c.pools) == 6


def test_poolings_that_never_met():
    c = compared(
        pools=("lcpool", "nopool"), datasets=("DD", "NCI1"),
        without=lambda runs: (runs["dataset"] == "DD") == (runs["pool"] == "lcpool"),
    )  # fmt: skip
    assert len(c.groups) == 0
    assert c.friedman is None
    assert c.critical_difference is None
    assert pairs_over_datasets(c).empty


def test_resampling_keeps_pairs_together():
    """A pooling that is one point better on every split is so in every resample."""
    runs = select(make_results(datasets=("DD",), pools=("nopool", "lcpool"), runs=5))
    base = runs[runs["pool"] == "nopool"]["accuracy"].to_numpy()
    runs.loc[runs["pool"] == "lcpool", "accuracy"] = base + 1
    c = Comparison.of(runs, ("nopool", "lcpool"))
    paired, alone = c.resampled(paired=True), c.resampled(paired=False)
    assert paired[..., 1] - paired[..., 0] == pytest.approx(1)
    assert (alone[..., 1] - alone[..., 0]).std() > 0.1
    assert paired.mean(axis=0) == pytest.approx(c.means, abs=0.2)
    assert (c.resampled(paired=True) == paired).all()


def test_the_spread_of_resampled_means():
    c = compared(datasets=("DD",), runs=10)
    expected = [[runs.std(ddof=0) / np.sqrt(10) for runs in row] for row in c.values]
    assert c.resampled(paired=False).std(axis=0) == pytest.approx(np.array(expected), rel=0.1)


def test_pairs_over_datasets():
    c = compared(runs=10)
    pairs = pairs_over_datasets(c).set_index("pool")
    assert set(pairs.index) == set(RANKED) - {"lcpool"}
    blocks = dict(zip(c.pools, c.blocks(c.means).T, strict=True))
    d = blocks["lcpool"] - blocks["sagpool"]
    assert pairs.loc["sagpool", "difference"] == pytest.approx(d.mean())
    assert pairs.loc["sagpool", "better"] == (d > 0).sum()
    assert (pairs["p_holm"] >= pairs["p"]).all()
    assert (pairs["p_holm"] >= 6 / 2**5 - 1e-9).all()  # Six datasets show nothing among six.
    assert (pairs["smallest"] > (pairs["high"] - pairs["low"]) / 2).all()


def test_pairs_over_splits_pair_the_same_split():
    runs = select(make_results(datasets=("DD", "NCI1"), pools=("nopool", "lcpool"), runs=5))
    better = runs["pool"] == "lcpool"
    noise = np.random.default_rng(0).normal(1, 0.1, better.sum())
    runs.loc[better, "accuracy"] = runs[runs["pool"] == "nopool"]["accuracy"].to_numpy() + noise
    # In another order, and with a run that one of them lost.
    runs = runs.sample(frac=1, random_state=0)
    lost = runs[(runs["pool"] == "nopool") & (runs["run"] == 3) & (runs["dataset"] == "DD")].index
    runs.loc[lost, "accuracy"] = np.nan
    pairs = pairs_over_splits(Comparison.of(runs, ("nopool", "lcpool")), gather(runs))
    assert len(pairs) == 8
    assert (pairs["p_holm"] < 0.01).all()
    assert pairs["difference"].to_numpy() == pytest.approx(1, abs=0.2)
    assert pairs.groupby("dataset")["splits"].first().to_dict() == {"DD": 4, "NCI1": 5}


def test_without_lcpool_the_best_is_the_reference():
    c = compared(pools=("nopool", "sagpool", "topkpool"))
    assert c.reference == c.pools[c.average_ranks(c.means).argmin()]
