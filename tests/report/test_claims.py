import numpy as np
import pandas as pd
import pytest
from runs import DATASETS, make_results

from lcpool.report import Report
from lcpool.report.claims import MARGIN, winners
from lcpool.sweep.results import Results

GENERAL, MOST, FIRST, UPPER, VARIED, PROP7 = range(6)


def verdicts(change=None, **options) -> list[str]:
    """With every accuracy 70 ± 0.1, and then as ``change`` says."""
    results = make_results(**{"runs": 5, **options})
    noise = np.random.default_rng(0).normal(0, 0.1, len(results.runs))
    results.runs["test_accuracy"] = 70 + noise
    if change is not None:
        results.runs["test_accuracy"] += change(results.runs)
    return [claim.verdict for claim in Report.of(results).claims]


def lead(pool: str, points: float):
    return lambda runs: points * (runs["pool"] == pool)


def test_a_clear_winner():
    found = verdicts(lead("lcpool", 5.0))
    expected = ["supported", "supported", "supported", "supported", "refuted", "supported"]
    assert found == expected


def test_a_clear_loser():
    found = verdicts(lead("lcpool", -5.0))
    assert found[: UPPER + 1] == ["refuted"] * 4
    assert found[VARIED] == "supported"
    assert found[PROP7] == "refuted"  # LCPool* is better on every dataset.


def test_noise_decides_nothing():
    found = verdicts()
    assert found[GENERAL] == "undecided"
    assert found[VARIED] == "supported"
    assert found[PROP7] == "supported"  # Nothing near a point.


def test_a_backbone_where_another_is_first_refutes_first_for_every_backbone():
    def change(runs: pd.DataFrame) -> pd.Series:
        plain = (runs["backbone"] == "plain") & (runs["conv"] == "gcn")
        return lead("lcpool", 5.0)(runs) + 9.0 * (plain & (runs["pool"] == "sagpool"))

    found = verdicts(change)
    assert found[FIRST] == "refuted"
    assert found[MOST] == "supported"
    assert found[GENERAL] == "supported"


@pytest.mark.parametrize(
    ("swing", "expected"), [(0.2 * MARGIN, "supported"), (8 * MARGIN, "undecided")]
)
def test_proposition_7_needs_an_interval_below_the_margin(swing: float, expected: str):
    def change(runs: pd.DataFrame) -> pd.Series:
        sign = runs["dataset"].map(DATASETS.index) % 2 * 2 - 1
        return swing * sign * (runs["pool"] == "lcpool*")

    assert verdicts(change)[PROP7] == expected


def test_five_datasets_cannot_support_a_claim_about_others():
    assert verdicts(lead("lcpool", 5.0), datasets=DATASETS[:5])[GENERAL] == "undecided"
    assert verdicts(lead("lcpool", 5.0), datasets=DATASETS[:1])[GENERAL] == "undecided"


def test_one_run_decides_nothing_about_cells():
    assert verdicts(lead("lcpool", 5.0), runs=1)[MOST : VARIED + 1] == ["undecided"] * 4


def test_one_group_decides_nothing_about_cells():
    one = {"datasets": DATASETS[:1], "backbones": ("plain",), "convs": ("gcn",)}
    assert verdicts(lead("lcpool", 5.0), **one) == ["undecided"] * 6


def test_the_papers_own_figures_beside_them():
    """The most wins are shared by five; NoPool ranks first for hierarchical GraphConv."""
    claims = Report.of(make_results()).claims
    assert claims[MOST].paper.startswith(
        "Not true. Best in: asapool 4, diffpool 4, lcpool 4, nopool 4, sagpool 4,"
    )
    assert "hierarchical graphconv nopool 2.33 (LCPool 3.33)" in claims[FIRST].paper
    assert all(claim.paper for claim in claims)
    assert not any(claim.paper for claim in Report.of(make_results(datasets=("MINE",))).claims)


def test_without_lcpool_there_is_no_claim():
    assert Report.of(make_results(pools=("nopool", "sagpool"))).claims == []


def test_equals_all_win():
    assert winners(np.array([[1.0, 1.0, 0.0], [0.0, 2.0, np.nan]])).tolist() == [1, 2, 0]


def test_the_other_rule_and_the_other_split_are_other_data():
    one = {"datasets": ("DD",)}
    fresh, shared = make_results(**one, seed=1), make_results(**one, seed=2, split="shared")
    results = Results(pd.concat([fresh.runs, shared.runs], ignore_index=True))
    means = [
        Report.of(results, rule, split).cells["mean"].sum()
        for rule in ("accuracy", "loss")
        for split in ("fresh", "shared")
    ]
    assert len(set(means)) == 4
