import itertools
import re

import numpy as np
import pandas as pd
import pytest
from paper_runs import DATASETS, POOLS, make_results

from lcpool.models import BACKBONES, Architecture
from lcpool.sweep.results import Results
from lcpool.train import Protocol
from lcpool.words import signed
from paper.claims import MARGIN
from paper.published import published
from paper.report import PaperReport
from paper.statements import FALSE, TRUE, winners

GENERAL, MOST, FIRST, UPPER, VARIED, DEPENDS, PROP7 = range(7)
RANKED = ("nopool", "topkpool", "sagpool", "asapool", "diffpool", "mincutpool", "lcpool")


def verdicts(change=None, **options) -> list[str]:
    """With every accuracy 70 ± 0.1, and then as ``change`` says."""
    results = make_results(**{"runs": 5, **options})
    noise = np.random.default_rng(0).normal(0, 0.1, len(results.runs))
    results.runs["test_accuracy"] = 70 + noise
    if change is not None:
        results.runs["test_accuracy"] += change(results.runs)
    return [claim.verdict for claim in PaperReport.of(results).claims]


def lead(pool: str, points: float):
    return lambda runs: points * (runs["pool"] == pool)


def test_a_clear_winner():
    found = verdicts(lead("lcpool", 5.0))
    assert found == ["supported", TRUE, TRUE, TRUE, FALSE, FALSE, "supported"]


def test_a_clear_loser():
    found = verdicts(lead("lcpool", -5.0))
    assert found[: UPPER + 1] == ["refuted", FALSE, FALSE, FALSE]
    assert found[PROP7] == "refuted"  # LCPool* is better on every dataset.


def test_noise_decides_no_test():
    assert verdicts()[GENERAL] == "undecided"
    assert verdicts()[PROP7] == "supported"  # Nothing near a point.


def test_second_of_seven_is_among_the_top_several():
    found = verdicts(lambda runs: lead("nopool", 4.0)(runs) + lead("lcpool", 2.0)(runs))
    assert found[MOST : UPPER + 1] == [FALSE, FALSE, TRUE]


def test_the_best_depends_on_backbone_and_task():
    def change(runs: pd.DataFrame) -> pd.Series:
        """Another winner for each backbone, and for each other dataset."""
        shift = runs["dataset"].map(DATASETS.index) + 2 * (runs["backbone"] == "plain")
        return 5.0 * (runs["pool"].map(list(POOLS).index) == shift % 4)

    found = verdicts(change)
    assert found[DEPENDS] == found[VARIED] == TRUE


def test_a_winner_for_each_dataset_does_not_depend_on_the_backbone():
    found = verdicts(
        lambda runs: (
            5.0 * (runs["pool"].map(list(POOLS).index) == runs["dataset"].map(DATASETS.index))
        )
    )
    assert found[DEPENDS] == FALSE


def test_a_backbone_where_another_is_first():
    def change(runs: pd.DataFrame) -> pd.Series:
        plain = (runs["backbone"] == "plain") & (runs["conv"] == "gcn")
        return lead("lcpool", 5.0)(runs) + 9.0 * (plain & (runs["pool"] == "sagpool"))

    found = verdicts(change)
    assert found[: FIRST + 1] == ["supported", TRUE, FALSE]


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


@pytest.mark.parametrize(
    "options",
    [{"runs": 4}, {"datasets": ("MINE",)}, {"protocol": Protocol(epochs=3)}],
    ids=["few runs", "own data", "another protocol"],
)
def test_there_is_no_verdict_on_what_the_paper_does_not_speak_of(options: dict):
    assert verdicts(lead("lcpool", 5.0), **options) == []


def test_a_setting_is_no_rival():
    """Three more settings of TopK, all of them better than LCPool."""
    usual = make_results(runs=5)
    others = [
        make_results(runs=5, pools=("topkpool",), architecture=Architecture(ratio=r))
        for r in (0.1, 0.2, 0.3)
    ]
    for other in others:
        other.runs["test_accuracy"] = 99.0
    together = PaperReport.of(Results(pd.concat([usual.runs, *(o.runs for o in others)])))
    assert together.claims == PaperReport.of(usual).claims
    assert len(together.ranked.pools) == 10


def test_the_papers_own_figures_beside_them():
    """The most wins are shared by five; NoPool ranks first for hierarchical GraphConv."""
    claims = PaperReport.of(make_results(runs=5)).claims
    most = dict(re.findall(r"([\w ]+) (\d+)[,.]", claims[MOST].paper))
    best = {"ASAP", "DiffPool", "LCPool", "no pooling", "SAG"}
    assert {pool.strip() for pool, count in most.items() if count == "4"} == best
    assert re.search(r"hierarchical graphconv: no pooling 2\.33 .*3\.33", claims[FIRST].paper)
    assert [claim.of_paper for claim in claims] == [None, False, False, False, True, True, None]
    assert all(claim.paper for claim in claims)


def test_a_figure_that_the_paper_lacks_shifts_no_lead():
    """ASAPool on ENZYMES with the hierarchical GCN: there, LCPool leads five others, not six."""
    claims = PaperReport.of(make_results(runs=5, datasets=("ENZYMES", "DD"))).claims
    leads = []
    for dataset, *group in itertools.product(("ENZYMES", "DD"), BACKBONES, ("gcn", "graphconv")):
        figures = {pool: published(dataset, *group, pool) for pool in RANKED}
        known = [figure[0] for pool, figure in figures.items() if figure and pool != "lcpool"]
        leads.append(figures["lcpool"][0] - np.mean(known))
    assert re.findall(r"[+−][\d.]+\d", claims[GENERAL].paper)[0] == signed(np.mean(leads))


def test_without_lcpool_there_is_no_claim():
    assert PaperReport.of(make_results(pools=("nopool", "sagpool"))).claims == []


def test_equals_all_win():
    assert winners(np.array([[1.0, 1.0, 0.0], [0.0, 2.0, np.nan]])).tolist() == [1, 2, 0]


def test_the_other_rule_and_the_other_split_are_other_data():
    one = {"datasets": ("DD",)}
    fresh, shared = make_results(**one, seed=1), make_results(**one, seed=2, split="shared")
    results = Results(pd.concat([fresh.runs, shared.runs], ignore_index=True))
    means = [
        PaperReport.of(results, rule, split).cells["mean"].sum()
        for rule in ("accuracy", "loss")
        for split in ("fresh", "shared")
    ]
    assert len(set(means)) == 4
