"""The trial's rule, on made-up runs and on those that there are."""

import itertools

import pandas as pd
import pytest
from said import numbers

from experiments.connected import analysis
from experiments.connected.analysis import HERE, by_dataset, candidates, complete, counted
from experiments.written import block

RUNS = pd.concat([pd.read_csv(path) for path in sorted(HERE.glob("runs*.csv"))])
SECONDS = pd.read_csv(HERE / "seconds.csv")
STRUCTURE = pd.concat(
    pd.read_csv(path).assign(ratio=float(path.stem.removeprefix("structure-")))
    for path in sorted(HERE.glob("structure-*.csv"))
)


def test_the_page_has_the_numbers_of_its_runs():
    made = analysis.report(RUNS, STRUCTURE, SECONDS)
    assert numbers(block(HERE / "README.md", analysis.COMMAND)) == numbers(made)


def test_a_group_counts_when_every_candidate_has_all_runs_there():
    made = pd.DataFrame(
        [
            {"dataset": dataset, "backbone": "plain", "conv": "gcn", "ratio": 0.5, "pool": pool,
             "run": run}
            for dataset, pool, run in itertools.product("AB", ("lcpool", "x", "RandomX"), range(3))
        ]
    )  # fmt: skip
    assert set(complete(made)["dataset"]) == {"A", "B"}
    lacks = (made["dataset"] == "B") & (made["run"] == 2)
    assert set(complete(made[~(lacks & (made["pool"] == "x"))])["dataset"]) == {"A"}
    assert set(complete(made[~(lacks & (made["pool"] == "RandomX"))])["dataset"]) == {"A", "B"}


def test_leads_by_dataset_are_means_over_networks():
    name = "TopkCellsUngated"
    runs = counted(RUNS)
    runs = runs[runs["pool"].isin([name, "lcpool"])]
    means = runs.groupby(["ratio", "dataset", "backbone", "pool"])["test_accuracy"].mean().unstack()
    lead = (means[name] - means["lcpool"]).groupby(["ratio", "dataset"]).mean()
    rows = [line.strip("| ").split(" | ") for line in by_dataset(RUNS, name) if " | " in line]
    shown = {row[0]: [float(x) for x in row[1:]] for row in rows if row[0] in set(RUNS["dataset"])}
    for (ratio, dataset), value in lead.items():
        assert shown[dataset][ratio == 0.5] == pytest.approx(value, abs=0.051)
    # Of groups, not of datasets: where a dataset has one network, these differ.
    table = candidates(RUNS, STRUCTURE, SECONDS)
    wanted = (means[name] - means["lcpool"]).groupby("ratio").mean()
    for ratio in (0.25, 0.5):
        assert table.loc[(name, ratio), "accuracy"] == pytest.approx(wanted[ratio])
