"""Costs beside no pooling, and shares of graphs by dataset and by graph."""

import re

import pandas as pd
import pytest
from runs import make_results

from experiments.benchmark import costs
from experiments.pace import paces
from lcpool.data import builtin
from lcpool.models import Architecture
from lcpool.report import Report
from lcpool.sweep.results import Results


def structure() -> pd.DataFrame:
    """Of two datasets."""
    measured = {  # nodes, degree, % that stay connected, the least of a network, edges
        "A": {"none": (10, 4, 100, 100, 25), "lcpool": (5, 4, 50, 40, 20),
              "cellpool": (5, 2, 100, 100, 5)},
        "B": {"none": (10, 2, 100, 100, 10), "lcpool": (5, 4, 90, 80, 10),
              "cellpool": (5, 2, 100, 100, 5)},
    }  # fmt: skip
    return pd.DataFrame([
        {"dataset": dataset, "pool": pool, "graphs": graphs, "connected_before": share,
         "nodes": nodes, "degree": degree, "stay_connected": stay, "least": least, "edges": edges}
        for (dataset, of), (graphs, share) in zip(
            measured.items(), ((100, 100), (600, 50)), strict=True
        )
        for pool, (nodes, degree, stay, least, edges) in of.items()
    ])  # fmt: skip


SECONDS = pd.DataFrame([
    {"dataset": dataset, "backbone": "plain", "conv": "gcn", "pool": pool, "seconds": value,
     "step_mib": float("nan")}
    for dataset, of in {"A": (1.0, 2.0, 3.0), "B": (1.0, 8.0, 3.0)}.items()
    for pool, value in zip(("nopool", "lcpool", "cellpool"), of, strict=True)
])  # fmt: skip


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return costs.table(SECONDS, structure())


def test_ratios_are_geometric_means(table: pd.DataFrame):
    assert table.loc["lcpool", "seconds"] == pytest.approx(4.0)
    assert table.loc["lcpool", "edges"] == pytest.approx((20 / 25 * 10 / 10) ** 0.5)
    assert table.loc["nopool", ["seconds", "edges"]].tolist() == [1, 1]
    assert "step_mib" not in table  # nothing was measured


def test_table_and_picture_have_one_estimator(table: pd.DataFrame):
    """Plain means over datasets of differences from nopool, with Student's interval."""
    parts = [
        make_results(("A", "B", "C"), (backbone,), (conv,), ("nopool", "lcpool", "cellpool"),
                     split="stratified", seed=i).runs
        for i, (backbone, conv) in enumerate((("hierarchical", "gcn"), ("plain", "graphconv")))
    ]  # fmt: skip
    runs = pd.concat(parts, ignore_index=True)
    report = Report.of(Results(runs), split="stratified", against="nopool")
    found = costs.leads(report)
    means = runs.groupby(["pool", "dataset"])["test_accuracy"].mean()
    off = means["lcpool"] - means["nopool"]
    error = off.std(ddof=1) / 3**0.5
    assert found["lcpool"].mean == pytest.approx(off.mean())
    assert found["lcpool"].high == pytest.approx(off.mean() + 4.3027 * error, rel=1e-4)
    line = next(row for row in costs.written(table, found).splitlines() if "| lcpool " in row)
    shown = [float(x) for x in re.findall(r"[-+]?\d+\.\d", line.replace("−", "-"))][:3]
    lead = found["lcpool"]
    assert shown == pytest.approx([lead.mean, lead.low, lead.high], abs=0.051)
    drawn = costs.pareto(report, table)
    tips = [tip for tip in re.findall('data-tip="([^"]*)"', drawn) if tip.startswith("lcpool")]
    for tip in tips:
        (said,) = re.findall(r"[-+]\d+\.\d+", tip.replace("−", "-"))
        assert float(said) == pytest.approx(lead.mean, abs=0.0051)
    assert len(tips) == 2
    assert "front" not in drawn.partition("</style>")[2]


def test_graphs_that_stay_connected(table: pd.DataFrame):
    assert table.loc["lcpool", "connected"] == pytest.approx(70)
    # 100 of A's graphs and 300 of B's were connected.
    assert table.loc["lcpool", "of_graphs"] == pytest.approx((100 * 50 + 300 * 90) / 400)
    assert table.loc["lcpool", "least"] == 40
    assert (table.loc["nopool", ["connected", "of_graphs", "least"]] == 100).all()


def test_the_picture_has_every_pooling_twice(table: pd.DataFrame):
    results = make_results(("A", "B"), ("plain",), ("gcn",), ("nopool", "lcpool", "cellpool"),
                           split="stratified")  # fmt: skip
    report = Report.of(results, split="stratified", against="nopool")
    drawn = costs.pareto(report, table)
    assert [drawn.count(f'data-tip="{pool}: ') for pool in table.index] == [2, 2, 2]
    assert drawn.count("(70 %)") >= 2


def test_a_pace_per_network():
    networks = [Architecture(pool=pool, hidden=8) for pool in ("nopool", "asapool")]
    found = paces(builtin(num_graphs=40), networks, "fresh", 0, turns=2)
    assert len(found) == 2
    assert min(found) > 0
