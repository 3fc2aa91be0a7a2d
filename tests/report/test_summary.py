"""Accuracy by dataset, for the terminal."""

import numpy as np
import pytest
from runs import make_results

from lcpool.report import Report
from lcpool.report.tables import summary
from lcpool.sweep.results import Results

MINE = {"datasets": ("A", "B", "C"), "backbones": ("plain",), "pools": tuple("abcd")}


def report_without(gone, **options) -> Report:
    results = make_results(**{**MINE, **options})
    return Report.of(Results(results.runs[~gone(results.runs)].reset_index(drop=True)))


def test_ranked_poolings_have_the_accuracies_that_they_are_ranked_by():
    report = Report.of(make_results())
    found, c = summary(report), report.ranked
    assert found.datasets == c.datasets
    assert not found.unranked
    assert [row.pool for row in found.rows] == c.order
    ranks = dict(zip(c.pools, c.average_ranks(c.means), strict=True))
    blocks = dict(zip(c.pools, c.blocks(c.means).T, strict=True))
    for row in found.rows:
        assert row.rank == ranks[row.pool]
        accuracies = [row.means[dataset].accuracy for dataset in c.datasets]
        assert accuracies == pytest.approx(blocks[row.pool])
        assert {(mean.groups, mean.of) for mean in row.means.values()} == {(4, 4)}


def test_a_pooling_with_a_failed_cell_has_no_rank_but_its_accuracies():
    report = report_without(
        lambda runs: (runs["dataset"] == "B") & (runs["pool"] == "c") & (runs["conv"] == "gcn")
    )
    found = summary(report)
    assert [row.pool for row in found.rows] == [*report.ranked.order, "c"]
    assert [row.rank is None for row in found.rows] == [False, False, False, True]
    means = found.rows[-1].means
    assert {name: (mean.groups, mean.of) for name, mean in means.items()} == {
        "A": (2, 2), "B": (1, 2), "C": (2, 2)
    }  # fmt: skip
    cells = report.cells.set_index(["dataset", "conv", "pool"])["mean"]
    assert means["B"].accuracy == pytest.approx(cells["B", "graphconv", "c"])
    assert means["A"].accuracy == pytest.approx(cells["A", :, "c"].mean())


def test_a_dataset_that_has_just_begun_is_shown_last():
    report = report_without(lambda runs: (runs["dataset"] == "A") & (runs["pool"] != "a"))
    found = summary(report)
    assert found.datasets == ["B", "C", "A"]
    assert found.unranked == {"A"}
    assert {row.pool for row in found.rows if "A" in row.means} == {"a"}
    assert all(row.rank is not None for row in found.rows)


def test_a_backbone_that_is_not_ranked_is_in_no_mean():
    report = report_without(lambda runs: (runs["conv"] == "gcn") & (runs["pool"] != "a"))
    (left_out,) = report.ranked.left_out
    assert (left_out.kind, left_out.name) == ("backbone", "plain, gcn")
    cells = report.cells.set_index(["dataset", "conv", "pool"])["mean"]
    for row in summary(report).rows:
        for dataset, mean in row.means.items():
            assert mean[:3] == (pytest.approx(cells[dataset, "graphconv", row.pool]), 1, 1)


def test_what_cannot_be_compared_is_shown_all_the_same():
    found = summary(Report.of(make_results(**{**MINE, "pools": ("a",)})))
    assert [(row.pool, row.rank) for row in found.rows] == [("a", None)]
    assert found.datasets == ["A", "B", "C"]


def test_nothing_has_a_result():
    results = make_results(**MINE)
    results.runs["test_accuracy"] = np.nan
    found = summary(Report.of(results))
    assert (found.datasets, found.rows) == ([], [])
