"""Reports of some poolings and datasets alone."""

import json
import re

import pandas as pd
import pytest
from runs import make_results

from lcpool.models import Architecture
from lcpool.report import Report
from lcpool.report.cells import choose
from lcpool.report.findings import findings, provenance
from lcpool.sweep.results import Failure, Results

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
    assert names(choose(make_results(**MINE), pools=pools).results, "pool") == ["a", "c"]


def test_without_names_everything_is_there():
    results = make_results(**MINE)
    assert choose(results) == (results, {})


def test_names_in_any_case():
    results = make_results(datasets=("NCI1", "nci1", "DD"), pools=("lcpool",))
    assert names(choose(results, datasets="dd", pools="LCPool").results, "dataset") == ["DD"]
    assert names(choose(results, datasets="nci1").results, "dataset") == ["nci1"]


def test_a_pooling_with_all_of_its_settings_or_with_one():
    others = [make_results(**MINE, architecture=Architecture(ratio=ratio, self_loops=False))
              for ratio in (0.25, 0.75)]  # fmt: skip
    results = joined(make_results(**MINE), *others)

    def ratios(pools) -> list[float]:
        runs = choose(results, pools=pools).results.runs
        assert set(runs["pool"]) <= {"lcpool", "a"}
        return sorted({json.loads(c)["ratio"] for c in runs["config"]})

    assert ratios("lcpool") == [0.5]
    shown = list(dict.fromkeys(Report.of(results).cells["pool"]))[:3]
    assert shown[1].count(",") == 1  # A name with a comma is one name.
    assert ratios(shown[1]) == [0.25]
    assert ratios(f"a,{shown[1]}") == [0.25, 0.5]
    assert ratios([f"{shown[2]},{shown[1]}"]) == [0.25, 0.75]
    results = joined(*others)  # Where the default was not trained, its name is free.
    assert ratios("lcpool") == [0.25, 0.75]


def test_a_name_with_commas_is_not_taken_apart():
    results = make_results(datasets=("A,B", "A", "B"), pools=("a",))
    assert names(choose(results, datasets="A,B").results, "dataset") == ["A,B"]
    assert names(choose(results, datasets=["B", "A"]).results, "dataset") == ["A", "B"]


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"pools": "lcpol"}, ["lcpol", "lcpool"]),
        ({"pools": "a,LCPOOOL"}, ["LCPOOOL", "lcpool"]),
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
    some = choose(Results(results.runs, results.curves, failures), "a,c", "A").results
    assert [failure.names for failure in some.failures] == [("A", "plain", "gcn", "a")]


def test_the_report_says_what_was_chosen():
    results = make_results(**MINE)
    assert "chosen" not in provenance(Report.of(results))
    report = Report.of(results, pools="c,a")
    assert report.chosen == {"pools": ("a", "c")}
    assert {"a", "c"} <= set(provenance(report)["chosen"].replace(",", "").split())


def test_what_is_left_out_is_ranked_with_the_choice_that_the_report_names():
    results = make_results(**MINE)
    gone = results.runs[["dataset", "conv", "pool"]].eq(["B", "gcn", "c"]).all(axis=1)
    begun = (results.runs["dataset"] == "C") & results.runs["pool"].isin(["b", "c"])
    partial = Results(results.runs[~gone & ~begun].reset_index(drop=True))
    report = Report.of(partial)
    assert len(report.ranked.left_out) == 2
    for part in report.ranked.left_out:
        if part.kind == "pool":
            assert part.name in Report.of(partial, datasets=part.compare).ranked.pools
        else:
            assert part.name in Report.of(partial, pools=part.compare).ranked.datasets
    assert not any("Not ranked" in text for text in
                   findings(Report.of(partial, datasets="A"))["missing"])  # fmt: skip
