import itertools
import math

import numpy as np
import pandas as pd
import pytest
from runs import make_results

from lcpool.data.table import paper_datasets
from lcpool.models import POOLINGS, Architecture
from lcpool.report.cells import Reference, agreement, gather, select
from lcpool.sweep.results import Results
from lcpool.train import Protocol

NETWORKS = itertools.product(("hierarchical", "plain"), ("gcn", "graphconv"))
PUBLISHED = Reference("paper", {("DD", *n, "lcpool"): (75.0, 2.0) for n in NETWORKS}, runs=10)


def both(*results: Results) -> Results:
    return Results(pd.concat([r.runs for r in results], ignore_index=True))


def test_the_order_of_the_tables_whatever_order_runs_came_in():
    results = make_results(datasets=("MINE", *reversed(list(paper_datasets()))), runs=2)
    shuffled = Results(results.runs.sample(frac=1, random_state=0))
    runs = select(shuffled)
    assert list(runs["dataset"].unique()) == [*paper_datasets(), "MINE"]
    assert list(runs["pool"].unique()) == list(POOLINGS)
    assert list(runs["run"][:2]) == [0, 1]


def test_run_10_follows_run_9():
    runs = select(make_results(datasets=("DD",), pools=("lcpool",), runs=11))
    assert list(runs["run"][:11]) == list(range(11))


def test_a_rule_chooses_its_accuracy():
    results = make_results(datasets=("DD",))
    by_accuracy, by_loss = select(results, "accuracy"), select(results, "loss")
    assert by_accuracy["accuracy"].equals(by_accuracy["test_accuracy"])
    assert by_loss["accuracy"].equals(by_loss["test_accuracy_by_loss"])


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
    with pytest.raises(ValueError, match="unknown rule 'luck'"):
        select(results, "luck")
    with pytest.raises(ValueError, match=r"no runs with split 'shared', only 'fresh'"):
        select(results, split="shared")
    with pytest.raises(ValueError, match="there are no runs"):
        select(Results(results.runs[:0]))
    with pytest.raises(ValueError, match="run 0 of DD hierarchical gcn nopool is there more"):
        select(both(results, results))
    results.runs.loc[0, "config"] = "{}"
    with pytest.raises(ValueError, match="not the settings of a run as JSON"):
        select(results)


def cell(mean=75.0, std=2.0, runs=10, num_test=112, paper=(75.0, 2.0)) -> pd.DataFrame:
    row = {"mean": mean, "std": std, "runs": runs, "num_test": num_test}
    return pd.DataFrame([{**row, "reference_mean": paper[0], "reference_std": paper[1]}])


def test_the_rule_of_agreement():
    p = 0.8
    limit = 2 * math.sqrt(100**2 * p * (1 - p) / 60 + 3.0**2 / 10 + 5.0**2 / 10)
    for shift, expected in ((0.999 * limit, True), (1.001 * limit, False)):
        for sign in (1, -1):
            found = agreement(cell(80.0, 3.0, 10, 60, (80.0 - sign * shift, 5.0)), 10).iloc[0]
            assert found["tolerance"] == pytest.approx(limit)
            assert found["difference"] == pytest.approx(sign * shift)
            assert found["agrees"] is expected or found["agrees"] == expected


@pytest.mark.parametrize(
    "unjudged", [cell(paper=(None, None)), cell(std=math.nan, runs=1), cell(mean=math.nan)]
)
def test_what_cannot_be_judged_is_neither_right_nor_wrong(unjudged: pd.DataFrame):
    assert agreement(unjudged, 10)["agrees"].isna().all()
