"""Verdicts: pairing, the one-dataset case, power, what is informative, what is asked."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from runs import make_results
from scipy import stats

from lcpool.report import Report
from lcpool.report.comparison import Comparison
from lcpool.report.hierarchical import Differences, Regions, Sampler, posterior
from lcpool.report.verdict import (
    FAMILIES,
    PRIORS,
    Verdicts,
    decided,
    judge_pair,
    paired,
    power,
    uninformative,
)

NETWORKS = ("gcn", "graphconv")


def results(
    lead: float, datasets=tuple("STUVWX"), runs=10, split="fresh", pools=("a", "b"), **more
):
    """Accuracies in which ``a`` is so many points above the others, with two networks."""
    made = make_results(
        datasets=datasets, backbones=("plain",), convs=NETWORKS, pools=pools, runs=runs,
        split=split, **more,
    )  # fmt: skip
    random = np.random.default_rng(1)
    table = made.runs
    luck = {key: random.normal(0, 3) for key in
            itertools.product(datasets, range(runs))}  # fmt: skip
    table["test_accuracy"] = [
        70 + luck[row.dataset, row.run] + random.normal(0, 1) + lead * (row.pool == "a")
        for row in table.itertuples()
    ]
    table["test_accuracy_by_loss"] = table["test_accuracy"]
    return made


def judged(lead: float, **options) -> Verdicts:
    return Report.of(results(lead, **options), against="a").verdicts


def test_runs_are_paired_by_dataset_network_and_split():
    made = results(2.0)
    c = Report.of(made).ranked
    found = paired(c, "a", "b")
    table = made.runs.pivot_table("test_accuracy", ["dataset", "run"], "pool")
    for dataset, values in found.runs.items():
        wanted = (table["a"] - table["b"]).loc[dataset]
        assert values == pytest.approx(wanted.to_numpy())
    assert found.lost == {}
    assert found.missing == []
    other = paired(c, "b", "a")
    assert other.runs["S"] == pytest.approx(-found.runs["S"])


def test_lost_runs_and_missing_datasets_are_listed_not_repaired():
    made = results(2.0, pools=("a", "b", "c"))
    of = made.runs
    gone = (of["dataset"] == "S") & (of["pool"] == "b") & (of["run"] < 3) & (of["conv"] == "gcn")
    of.loc[gone, "test_accuracy"] = np.nan
    network = (of["dataset"] == "U") & (of["pool"] == "b") & (of["conv"] == "gcn")
    of.loc[network, "test_accuracy"] = np.nan
    made = type(made)(of[(of["dataset"] != "T") | (of["pool"] != "b")].reset_index(drop=True))
    report = Report.of(made, against="a")
    found = paired(report.ranked, "a", "b")
    assert len(found.runs["S"]) == 7
    assert found.lost == {"S": 3}
    assert found.missing == ["T", "U (plain gcn)"]
    # A network that only one of them has is not paired.
    rest = made.runs[(made.runs["dataset"] == "U") & (made.runs["conv"] == "graphconv")]
    rest = rest.pivot_table("test_accuracy", "run", "pool")
    assert found.runs["U"] == pytest.approx((rest["a"] - rest["b"]).to_numpy())
    assert paired(report.ranked, "a", "c").missing == []
    said = [text for text in report.findings()["missing"] if "against b" in text]
    assert len(said) == 1
    assert "3 runs of S" in said[0]


@pytest.mark.parametrize(("lead", "word"), [(4.0, "better"), (0.0, "equal"), (-4.0, "worse")])
def test_clear_cases(lead: float, word: str):
    (verdict,) = judged(lead).rivals
    assert verdict.word == word
    assert verdict.mean == pytest.approx(lead, abs=0.6)
    assert verdict.low < lead < verdict.high
    assert sum(verdict.regions) == pytest.approx(1)
    assert verdict.unweighted == pytest.approx(verdict.datasets["difference"].mean())
    assert verdict.draws.converged


def test_both_sides_have_the_same_verdict():
    c = Report.of(results(1.3)).ranked
    one, other = (judge_pair(paired(c, *names), c, 1.0, {}) for names in (("a", "b"), ("b", "a")))
    assert one.regions == pytest.approx(tuple(reversed(other.regions)))
    assert one.mean == pytest.approx(-other.mean)
    assert one.datasets["mean"].to_list() == pytest.approx((-other.datasets["mean"]).to_list())
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert one.ahead == pytest.approx(1 - other.ahead)


def test_a_verdict_depends_on_its_two_poolings_alone():
    made = results(1.3, pools=("a", "b", "c", "d"))
    kept = made.runs["pool"].isin(["a", "b"])
    few = type(made)(made.runs[kept].reset_index(drop=True))
    found = [
        next(v for v in Report.of(some, against="a").verdicts.rivals if v.pool == "b")
        for some in (made, few)
    ]
    assert found[0].regions == found[1].regions
    assert found[0].mean == found[1].mean


def test_several_networks_are_no_more_evidence_than_one():
    made = results(1.0)
    one = made.where(conv="gcn")
    copy = one.runs.assign(conv="graphconv")
    copy["config"] = copy["config"].str.replace('"gcn"', '"graphconv"')
    twice = type(made)(pd.concat([one.runs, copy], ignore_index=True))
    first, second = (Report.of(some, against="a").verdicts.rivals[0] for some in (one, twice))
    assert first.regions == pytest.approx(second.regions)


def test_one_dataset_is_the_correlated_t_test():
    report = Report.of(results(2.0, datasets=("X",)), against="a")
    (verdict,) = report.verdicts.rivals
    values = paired(report.ranked, "a", "b").runs["X"]
    share = report.ranked.shares["X"]
    error = values.std(ddof=1) * np.sqrt(1 / 10 + share)
    student = stats.t(9, values.mean(), error)
    assert verdict.regions == pytest.approx(
        (student.cdf(-1), student.cdf(1) - student.cdf(-1), student.sf(1))
    )
    assert verdict.ahead == pytest.approx(student.sf(0))
    assert (verdict.low, verdict.high) == pytest.approx(student.interval(0.95))
    assert np.isnan(verdict.new.equal)
    assert verdict.draws is None
    assert report.sensitivity["analysis"].unique().tolist() == ["epoch by validation loss"]


@pytest.mark.parametrize(("split", "runs"), [("shared", 10), ("fresh", 3)])
def test_one_dataset_without_a_verdict(split: str, runs: int):
    (verdict,) = judged(2.0, datasets=("X",), split=split, runs=runs).rivals
    assert verdict.why_not
    assert verdict.word == "undecided"
    assert np.isnan(verdict.regions.equal)
    assert np.isfinite(verdict.mean)


def test_one_run_per_cell_is_enough_for_several_datasets():
    (verdict,) = judged(6.0, runs=1).rivals
    assert verdict.regions.better > 0.8
    assert verdict.low < 6 < verdict.high


def test_the_reference_is_named_or_the_highest():
    made = results(0.5, pools=("b", "a", "c"))
    assert Report.of(made).verdicts.reference == "a"
    assert not Report.of(made).verdicts.named
    chosen = Report.of(made, against="c").verdicts
    assert chosen.named
    assert {rival.pool for rival in chosen.rivals} == {"a", "b"}
    with pytest.raises(ValueError, match="'z'"):
        Report.of(made, against="z")
    for margin in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="margin"):
            Report.of(made, margin=margin)


def test_the_margin():
    (verdict,) = Report.of(results(2.0), against="a", margin=3.5).verdicts.rivals
    assert verdict.word == "equal"


def test_decided_at_exactly_the_threshold():
    assert decided(Regions(0.0, 0.05, 0.95)) == "better"
    assert decided(Regions(0.05, 0.95, 0.0)) == "equal"
    assert decided(Regions(0.951, 0.049, 0.0)) == "worse"
    assert decided(Regions(0.3, 0.69, 0.01)) == "not better"
    assert decided(Regions(np.nan, np.nan, np.nan)) == "undecided"


def test_families_are_a_level():
    assert FAMILIES["NCI1"] == FAMILIES["NCI109"] != FAMILIES["COX2"]
    names = ("NCI1", "NCI109", "PTC_MR", "PTC_FM", "X", "Y")
    alone, related = (
        Report.of(results(1.0, datasets=names), against="a", families=families).verdicts.rivals[0]
        for families in ({}, None)
    )
    assert alone.data.members.shape == (6, 6)
    assert related.data.members.shape == (6, 4)
    assert (alone.draws.kappa == 0).all()
    assert (related.draws.kappa > 0).all()


def test_errors_are_judged_in_percent_and_scores_in_hundredths():
    made = results(0.0, protocol=None)
    made.runs["task"] = "values"
    random = np.random.default_rng(0)
    unit = made.runs["dataset"].map({name: 10.0**i for i, name in enumerate("STUVWX")})
    better = np.where(made.runs["pool"] == "a", 0.9, 1.0)
    made.runs["metric"] = "rmse"
    made.runs["test_rmse"] = unit * better * random.normal(1, 0.01, len(made.runs))
    made.runs["test_rmse_by_loss"] = made.runs["test_rmse"]
    (verdict,) = Report.of(made, against="a").verdicts.rivals
    # From 0.9 to 1.0 it is a ninth more.
    assert verdict.mean == pytest.approx(100 / 9, abs=0.5)
    made.runs["metric"] = "r2"
    made.runs["test_r2"] = 0.5 + 0.02 * (made.runs["pool"] == "a")
    made.runs["test_r2"] += random.normal(0, 0.002, len(made.runs))
    made.runs["test_r2_by_loss"] = made.runs["test_r2"]
    (verdict,) = Report.of(made, against="a").verdicts.rivals
    assert verdict.mean == pytest.approx(2.0, abs=0.2)


def worlds_with(word: str, data: Differences, draws, truth: float, worlds: int) -> float:
    """How often a true difference gets a verdict, by worlds in which it is there."""
    random, n, found = np.random.default_rng(3), len(data.runs), 0
    for at in random.integers(0, draws.mu.size, worlds):
        tau, nu = draws.tau.ravel()[at], draws.nu.ravel()[at]
        v = draws.v.reshape(-1, n)[at]
        delta = truth + tau * random.standard_t(nu, n)
        mean = random.normal(delta, v * np.sqrt(data.factor))
        squares = v**2 * random.chisquare(data.runs - 1)
        one = Differences(mean, squares, data.runs, data.share, data.families)
        found += decided(Sampler(one, PRIORS, chains=8).run(60, 20).regions(1.0)) == word
    return found / worlds


def test_power_is_that_of_simulated_worlds():
    random = np.random.default_rng(0)
    values = [random.normal(random.normal(1, 0.5), 2, 10) for _ in range(6)]
    data = Differences.of(values, [0.125] * 6)
    draws = posterior(data)
    able = power(data, draws, 1.0)
    assert worlds_with("better", data, draws, able.found, 60) == pytest.approx(0.8, abs=0.13)
    assert 1.0 < able.found < 6
    more = Differences.of(values * 4, [0.125] * 24)
    many = power(more, posterior(more), 1.0)
    assert many.found < able.found
    assert many.equal > able.equal


def test_power_to_find_equality_is_that_of_the_verdict():
    """Both tails together are at most 0.05: with such an error hardly ever, each often."""
    random = np.random.default_rng(0)
    values = [random.normal(0, 3.6, 10) for _ in range(10)]
    data = Differences.of(values, [0.125] * 10)
    draws = posterior(data)
    able = power(data, draws, 1.0)
    assert 1 / 1.96 < draws.mu.std() < 1 / 1.645
    assert able.equal < 0.05
    assert worlds_with("equal", data, draws, 0.0, 40) < 0.06


def test_doubt_is_the_chance_that_a_verdict_is_wrong():
    (clear,) = judged(5.0).rivals
    assert clear.word == "better"
    assert clear.doubt == pytest.approx(1 - clear.regions.better)
    (mirrored,) = Report.of(results(5.0), against="b").verdicts.rivals
    assert mirrored.doubt == pytest.approx(clear.doubt)
    near = replace(clear, regions=Regions(0.03, 0.6, 0.37))
    assert (near.word, near.doubt) == ("not worse", pytest.approx(0.03))
    assert np.isnan(replace(clear, regions=Regions(0.2, 0.6, 0.2)).doubt)


def test_more_datasets_would_decide():
    made = results(1.2, datasets=tuple("STUV"), runs=10)
    (verdict,) = Report.of(made, against="a").verdicts.rivals
    more = verdict.more_datasets
    assert verdict.word in ("not worse", "undecided")
    assert more >= 1
    # By the formula, written out.
    low, high = np.quantile(verdict.draws.mu, [0.05, 0.95])
    error = (high - low) / 2 / 1.6449
    wanted = 4 * ((1.6449 + 0.8416) * error / abs(abs(verdict.mean) - 1)) ** 2 - 4
    assert more == pytest.approx(max(np.ceil(wanted), 1), abs=1)
    (sure,) = judged(5.0).rivals
    assert np.isnan(sure.more_datasets)


def test_uninformative_datasets():
    made = results(0.0, datasets=tuple("STU"), pools=("nopool", "a"))
    of = made.runs
    of["largest_class"] = of["dataset"].map({"S": 50.0, "T": 69.9, "U": 50.0})
    of.loc[of["dataset"] == "U", "test_accuracy"] += 31
    report = Report.of(made)
    assert report.uninformative == ["T", "U"]
    analyses = report.sensitivity.groupby("analysis")["pool"].count()
    assert analyses["informative datasets only"] == 1
    runs = of[(of["dataset"] == "T") & (of["pool"] == "nopool")]
    runs = runs.groupby("run")["test_accuracy"].mean()
    share = report.ranked.shares["T"]
    error = runs.std(ddof=1) * np.sqrt(1 / 10 + share)
    for off, wanted in ((-0.01, []), (0.01, ["T"])):
        chance = {"T": runs.mean() - 2 * error + off}
        c = Comparison.of(report.runs[report.runs["dataset"] == "T"], ["nopool", "a"])
        assert uninformative(c, chance) == wanted
    assert Report.of(results(0.0)).uninformative is None


def test_sensitivity_has_every_analysis():
    made = results(1.0)
    made.runs["test_accuracy_by_loss"] = made.runs["test_accuracy"] + 5.0 * (
        made.runs["pool"] == "a"
    )
    report = Report.of(made, against="a")
    table = report.sensitivity.set_index("analysis")
    assert len(table) == 5
    assert table.loc["epoch by validation loss", "verdict"] == "better"
    assert table.loc["epoch by validation loss", "difference"] == pytest.approx(6.0, abs=0.6)
    by_loss = Report.of(made, "loss", against="a")
    assert "epoch by validation accuracy" in set(by_loss.sensitivity["analysis"])
    assert (table[["worse", "equal", "better"]].sum(axis=1) - 1).abs().max() < 1e-9


def test_nothing_to_compare():
    report = Report.of(results(0.0, pools=("a",)))
    assert report.verdicts.rivals == ()
    assert report.verdicts.table.empty
    assert report.sensitivity.empty
    assert len(report.findings()["answer"]) == 1
