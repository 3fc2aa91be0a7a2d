"""Costs beside no pooling, and shares of graphs by dataset and by graph."""

import pandas as pd
import pytest
from runs import make_results

from experiments.benchmark import costs
from experiments.pace import paces
from lcpool.data import builtin
from lcpool.models import Architecture
from lcpool.report import Report


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    seconds = [
        {"dataset": dataset, "backbone": "plain", "conv": "gcn", "pool": pool, "seconds": value,
         "step_mib": float("nan")}
        for dataset, of in {"A": (1.0, 2.0, 3.0), "B": (1.0, 8.0, 3.0)}.items()
        for pool, value in zip(("nopool", "lcpool", "cellpool"), of, strict=True)
    ]  # fmt: skip
    measured = {  # nodes, degree, % that stay connected, the least of a network
        "A": {"none": (10, 4, 100, 100), "lcpool": (5, 4, 50, 40), "cellpool": (5, 2, 100, 100)},
        "B": {"none": (10, 2, 100, 100), "lcpool": (5, 4, 90, 80), "cellpool": (5, 2, 100, 100)},
    }
    structure = [
        {"dataset": dataset, "pool": pool, "graphs": graphs, "connected_before": share,
         "nodes": nodes, "degree": degree, "stay_connected": stay, "least": least}
        for (dataset, of), (graphs, share) in zip(
            measured.items(), ((100, 100), (600, 50)), strict=True
        )
        for pool, (nodes, degree, stay, least) in of.items()
    ]  # fmt: skip
    return costs.table(pd.DataFrame(seconds), pd.DataFrame(structure))


def test_ratios_are_geometric_means(table: pd.DataFrame):
    assert table.loc["lcpool", "seconds"] == pytest.approx(4.0)
    assert table.loc["lcpool", "edges"] == pytest.approx((10 / 20 * 10 / 10) ** 0.5)
    assert table.loc["nopool", ["seconds", "edges"]].tolist() == [1, 1]
    assert "step_mib" not in table  # nothing was measured


def test_graphs_that_stay_connected(table: pd.DataFrame):
    assert table.loc["lcpool", "connected"] == pytest.approx(70)
    # 100 of A's graphs and 300 of B's were connected.
    assert table.loc["lcpool", "of_graphs"] == pytest.approx((100 * 50 + 300 * 90) / 400)
    assert table.loc["lcpool", "least"] == 40
    assert (table.loc["nopool", ["connected", "of_graphs", "least"]] == 100).all()


def test_the_picture_has_every_pooling_twice(table: pd.DataFrame):
    results = make_results(("A", "B"), ("plain",), ("gcn",), ("nopool", "lcpool", "cellpool"),
                           split="stratified")  # fmt: skip
    report = Report.of(results, split="stratified", against="lcpool")
    drawn = costs.pareto(report, table)
    assert [drawn.count(f'data-pool="{pool}"') for pool in table.index] == [2, 2, 2]
    assert drawn.count("(70 %)") >= 2


def test_a_pace_per_network():
    networks = [Architecture(pool=pool, hidden=8) for pool in ("nopool", "asapool")]
    found = paces(builtin(num_graphs=40), networks, "fresh", 0, turns=2)
    assert len(found) == 2
    assert min(found) > 0
