"""Another setting in the cells where a pooling fails."""

import re

import pandas as pd
import pytest
from paper_runs import make_results

from lcpool.models import Architecture
from lcpool.sweep.results import Results
from paper.choosing import leads
from paper.readings import Readings
from paper.report import PaperReport

DATASETS = ("PROTEINS", "DD")
POOLS = ("nopool", "diffpool", "lcpool")


def other(dataset: str, pool: str, lead: float, report: PaperReport) -> Results:
    """Runs of one cell with another setting, some points above the default's."""
    network = {"backbones": ("plain",), "convs": ("gcn",), "pools": (pool,)}
    made = make_results((dataset,), **network, runs=5, architecture=Architecture(ratio=0.8))
    usual = report.runs.query("dataset == @dataset and backbone == 'plain' and pool == @pool")
    made.runs["test_accuracy"] = usual["value"].to_numpy() + lead
    return made


@pytest.fixture(scope="module")
def report() -> PaperReport:
    return PaperReport.of(make_results(DATASETS, convs=("gcn",), pools=POOLS, runs=5))


def test_only_those_cells_change(report: PaperReport):
    found = Readings.of(report, other("DD", "diffpool", 8.0, report))
    assert (found.pool, found.groups, list(found.instead)) == (
        "diffpool", ["DD plain gcn"], ["ratio=0.8"]
    )  # fmt: skip
    changed = found.instead["ratio=0.8"].means - found.usual.means
    assert changed.max() == pytest.approx(8.0)
    assert (abs(changed) > 1e-9).sum() == 1
    # One of two groups on one of two datasets.
    before, after = (leads(c)["diffpool"][1].mean for c in (found.usual, *found.instead.values()))
    assert after - before == pytest.approx(2.0)
    # What is said: LCPool's lead with the default and with the other setting.
    usual, other_setting = (
        float(lead.replace("−", "-")) for lead in re.findall(r"([+−][\d.]+) points", found.said())
    )
    assert other_setting < usual


def test_runs_of_several_poolings_are_refused(report: PaperReport):
    parts = [other("DD", pool, 1.0, report).runs for pool in ("diffpool", "lcpool")]
    with pytest.raises(ValueError, match=r"diffpool.*lcpool"):
        Readings.of(report, Results(pd.concat(parts, ignore_index=True)))
