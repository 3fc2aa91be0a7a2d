"""Runs gathered into cells, published figures, and poolings and datasets chosen by name."""

import itertools
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from runs import make_results

from lcpool.models import POOLINGS, Architecture
from lcpool.report import Report
from lcpool.report.cells import Reference, choose, gather, select
from lcpool.report.findings import provenance
from lcpool.sweep.results import Failure, Results
from lcpool.train import Protocol

NETWORKS = itertools.product(("hierarchical", "plain"), ("gcn", "graphconv"))
PUBLISHED = Reference("paper", {("DD", *n, "lcpool"): (75.0, 2.0) for n in NETWORKS}, runs=10)


def both(*results: Results) -> Results:
    return Results(pd.concat([r.runs for r in results], ignore_index=True))


def test_datasets_stay_in_their_order_and_poolings_have_ours():
    results = make_results(datasets=("B", "A"), pools=("mine:Pool", *reversed(POOLINGS)), runs=2)
    runs = select(results)
    assert list(runs["dataset"].unique()) == ["B", "A"]
    assert list(runs["pool"].unique()) == [*POOLINGS, "mine:Pool"]
    assert list(runs["run"][:2]) == [0, 1]


def test_run_10_follows_run_9():
    runs = select(make_results(datasets=("DD",), pools=("lcpool",), runs=11))
    assert list(runs["run"][:11]) == list(range(11))


def test_a_rule_chooses_its_accuracy():
    results = make_results(datasets=("DD",))
    by_accuracy, by_loss = select(results, "accuracy"), select(results, "loss")
    assert by_accuracy["value"].equals(by_accuracy["test_accuracy"])
    assert by_loss["value"].equals(by_loss["test_accuracy_by_loss"])


def test_fresh_splits_come_first_and_are_never_mixed_with_shared_ones():
    results = both(make_results(datasets=("DD",)), make_results(datasets=("DD",), split="shared"))
    assert set(select(results)["split"]) == {"fresh"}
    assert set(select(results, split="shared")["split"]) == {"shared"}


def test_mean_and_spread_of_a_cell():
    results = make_results(
        datasets=("DD",), pools=("lcpool",), backbones=("plain",), convs=("gcn",)
    )
    results.runs["test_accuracy"] = [70.0, 74.0, np.nan]
    cell = gather(select(results), PUBLISHED).iloc[0]
    assert (cell["mean"], cell["std"]) == (72.0, pytest.approx(math.sqrt(8)))
    assert (cell["runs"], cell["lost"]) == (2, 1)
    assert (cell["reference_mean"], cell["reference_std"]) == (75.0, 2.0)


def test_options_that_differ_tell_cells_apart():
    usual = make_results(datasets=("DD",), pools=("lcpool",))
    other = make_results(datasets=("DD",), pools=("lcpool",), architecture=Architecture(ratio=0.25))
    cells = gather(select(both(usual, other)), PUBLISHED)
    assert list(cells["pool"].unique()) == ["lcpool", "lcpool (ratio=0.25)"]
    assert cells.groupby("pool")["runs"].max().tolist() == [3, 3]
    published = cells["reference_mean"].notna()
    assert published.tolist() == cells["pool"].eq("lcpool").tolist()


def test_options_that_all_runs_share_are_not_in_the_name_but_forbid_a_published_figure():
    cells = gather(select(make_results(protocol=Protocol(epochs=5))), PUBLISHED)
    assert set(cells["pool"]) == set(POOLINGS)
    assert not cells["default"].any()
    assert cells["reference_mean"].isna().all()


def test_memory_is_of_gpus_alone():
    results = make_results(datasets=("DD",))
    assert gather(select(results))["peak_memory"].notna().all()
    results.runs["device"] = "CPU"
    assert gather(select(results))["peak_memory"].isna().all()


def test_a_seed_is_no_setting():
    cells = gather(select(make_results(protocol=Protocol(seed=7))))
    assert cells["default"].all()


def test_what_is_refused():
    results = make_results(datasets=("DD",))
    with pytest.raises(ValueError, match="luck"):
        select(results, "luck")
    with pytest.raises(ValueError, match=r"'shared'.*'fresh'"):
        select(results, split="shared")
    with pytest.raises(ValueError, match="no runs"):
        select(Results(results.runs[:0]))
    with pytest.raises(ValueError, match="run 0 of DD hierarchical gcn nopool"):
        select(both(results, results))
    results.runs.loc[0, "config"] = "{}"
    with pytest.raises(ValueError, match="settings"):
        select(results)


def beside_paper(mean=75.0, std=2.0, runs=10, num_test=112, paper=(75.0, 2.0)) -> pd.Series:
    row = {"mean": mean, "std": std, "runs": runs, "num_test": num_test, "default": True}
    names = dict(zip(("dataset", "backbone", "conv", "name"), "dbcp", strict=True))
    figures = {} if paper is None else {tuple("dbcp"): paper}
    return Reference("paper", figures, runs=10).beside(pd.DataFrame([{**names, **row}])).iloc[0]


def test_the_rule_of_agreement():
    p = 0.8
    limit = 2 * math.sqrt(100**2 * p * (1 - p) / 60 + 3.0**2 / 10 + 5.0**2 / 10)
    for shift, expected in ((0.999 * limit, True), (1.001 * limit, False)):
        for sign in (1, -1):
            found = beside_paper(80.0, 3.0, 10, 60, (80.0 - sign * shift, 5.0))
            assert found["tolerance"] == pytest.approx(limit)
            assert found["difference"] == pytest.approx(sign * shift)
            assert found["agrees"] is expected or found["agrees"] == expected


@pytest.mark.parametrize(
    "unjudged", [{"paper": None}, {"std": math.nan, "runs": 1}, {"mean": math.nan}]
)
def test_what_cannot_be_judged_is_neither_right_nor_wrong(unjudged: dict):
    assert pd.isna(beside_paper(**unjudged)["agrees"])


MINE = {"datasets": ("A", "B", "C"), "backbones": ("plain",), "pools": ("lcpool", *"abc")}


def joined(*parts: Results) -> Results:
    curves = {name: curve for part in parts for name, curve in part.curves.items()}
    return Results(pd.concat([part.runs for part in parts], ignore_index=True), curves)


def names(results: Results, column: str) -> list[str]:
    return list(dict.fromkeys(results.runs[column]))


def test_a_report_of_some_is_the_report_of_runs_that_are_no_more():
    results = make_results(**MINE, runs=5)
    some = results.runs["pool"].isin(["a", "c"]) & results.runs["dataset"].isin(["A", "B"])
    alone = Report.of(Results(results.runs[some].reset_index(drop=True), results.curves))
    report = Report.of(results, pools=["a", "c"], datasets=["A", "B"])
    pd.testing.assert_frame_equal(report.cells, alone.cells)
    assert report.ranked.pools == ("a", "c")
    assert report.ranked.datasets == ["A", "B"]
    assert (report.ranked.means == alone.ranked.means).all()
    assert report.ranked.critical_difference == alone.ranked.critical_difference


@pytest.mark.parametrize(
    "pools", ["a,c", "a, c", ["a", "c"], ["a,c"], ("c", "a"), ["a,", "c", "a"]]
)
def test_lists_of_names(pools):
    assert names(choose(make_results(**MINE), pools=pools)[0], "pool") == ["a", "c"]


def test_without_names_everything_is_there():
    results = make_results(**MINE)
    assert choose(results) == (results, {})


def test_a_pooling_with_all_of_its_settings_or_with_one():
    others = [make_results(**MINE, architecture=Architecture(ratio=ratio, self_loops=False))
              for ratio in (0.25, 0.75)]  # fmt: skip
    results = joined(make_results(**MINE), *others)

    def ratios(pools) -> list[float]:
        runs = choose(results, pools=pools)[0].runs
        assert set(runs["pool"]) <= {"lcpool", "a"}
        return sorted({json.loads(c)["ratio"] for c in runs["config"]})

    assert ratios("lcpool") == [0.5]
    shown = list(dict.fromkeys(Report.of(results).cells["pool"]))[:3]
    assert shown[1].count(",") == 1  # A name with a comma is one name.
    assert ratios(shown[1]) == [0.25]
    assert ratios(["a", shown[1]]) == [0.25, 0.5]
    assert ratios([shown[2], shown[1]]) == [0.25, 0.75]
    results = joined(*others)  # Where the default was not trained, its name is free.
    assert ratios("lcpool") == [0.25, 0.75]


def test_a_name_with_commas_is_not_taken_apart():
    results = make_results(datasets=("A,B", "A", "B"), pools=("a",))
    assert names(choose(results, datasets="A,B")[0], "dataset") == ["A,B"]
    assert names(choose(results, datasets=["B", "A"])[0], "dataset") == ["A", "B"]


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"pools": "lcpol"}, ["lcpol", "lcpool"]),
        ({"pools": "a,lcpoool"}, ["lcpoool", "lcpool"]),
        ({"datasets": ["X"]}, ["X"]),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_and_all_there_are(wanted, named: list[str]):
    with pytest.raises(ValueError, match="'") as error:
        Report.of(make_results(**MINE), **wanted)
    assert re.findall("'(.+?)'", str(error.value)) == named
    known = MINE["pools" if "pools" in wanted else "datasets"]
    assert set(known) <= set(re.findall(r"\w+", str(error.value)))


@pytest.mark.parametrize("wanted", [{"pools": []}, {"datasets": ","}, {"pools": ""}])
def test_an_empty_list_is_refused(wanted):
    with pytest.raises(ValueError, match="is empty"):
        Report.of(make_results(**MINE), **wanted)


def test_what_was_trained_nowhere_together_is_said():
    runs = make_results(**MINE).runs
    results = Results(runs[(runs["pool"] != "a") | (runs["dataset"] == "A")])
    with pytest.raises(ValueError, match="no runs of a on B"):
        Report.of(results, pools="a", datasets="B")


def test_failures_of_what_is_not_chosen_are_left_out():
    results = make_results(**MINE)
    config = results.runs["config"].iloc[0]
    failures = tuple(
        Failure((dataset, "plain", "gcn", pool), "fresh", "MemoryError", config)
        for dataset, pool in (("A", "a"), ("A", "b"), ("B", "a"))
    )
    some = choose(Results(results.runs, results.curves, failures), "a,c", "A")[0]
    assert [failure.names for failure in some.failures] == [("A", "plain", "gcn", "a")]


def test_the_report_says_what_was_chosen():
    results = make_results(**MINE)
    assert "chosen" not in provenance(Report.of(results))
    report = Report.of(results, pools="c,a")
    assert report.chosen == {"pools": ("a", "c")}
    assert {"a", "c"} <= set(provenance(report)["chosen"].replace(",", "").split())
