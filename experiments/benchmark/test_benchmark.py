"""The grids are those of the plan, and the analysis judges what it says."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from runs import make_results

from experiments.benchmark import analysis
from experiments.benchmark.networks import KMIS2, KMIS3, WithoutEdges
from lcpool.report import hierarchical
from lcpool.report.verdict import FAMILIES
from lcpool.settings import ALL_POOLS
from lcpool.sweep.grid import PAPER_DATASETS, Grid, read_grids
from lcpool.sweep.results import Results

HERE = Path(__file__).parent


def grids(name: str) -> list[Grid]:
    return read_grids(HERE / f"{name}.toml", {})


def runs_of(grid: Grid) -> int:
    return len(grid.datasets) * len(grid.configurations()) * grid.runs


def test_the_main_benchmark():
    first, second, control = grids("main")
    assert len(first.datasets) == 24
    assert set(PAPER_DATASETS) < set(first.datasets)
    families = [FAMILIES.get(str(name), name) for name in first.datasets]
    assert len(set(families)) == 24 - 1 - 1 - 1 - 1 - 2
    assert set(first.settings["pool"]) == set(second.settings["pool"]) == set(ALL_POOLS)
    assert sum(map(runs_of, (first, second))) == 7200
    assert runs_of(control) == 480


@pytest.mark.parametrize("name", ["main", "scores", "ratios", "depth", "tgp"])
def test_all_share_splits_and_seed(name: str):
    for grid in grids(name):
        assert grid.settings["split"] == ("stratified",)
        assert grid.settings["seed"] == (2,)
        assert grid.runs == 10


def test_the_other_grids():
    assert sum(map(runs_of, grids("scores"))) == 1440
    assert sum(map(runs_of, grids("ratios"))) == 2760
    assert {grid.settings["poolings"] for grid in grids("depth")} == {(1, 2, 3)}
    assert {grid.settings["split"] for grid in grids("scaffold")} == {("predefined",)}


def test_the_control_reads_no_edge():
    conv, x = WithoutEdges(4, 4), torch.randn(3, 4)
    none = torch.empty(2, 0, dtype=torch.long)
    assert torch.equal(conv(x, none), conv(x, torch.tensor([[0], [1]])))
    assert (KMIS2(4).k, KMIS3(4).k) == (2, 3)


def made_up(datasets: tuple[str, ...]) -> Results:
    pools = ("lcpool", "cellpool", "random", *analysis.RIVALS)
    made = make_results(datasets=datasets, backbones=("plain",), convs=("graphconv",), pools=pools,
                        runs=5, split="stratified")  # fmt: skip
    control = make_results(datasets=datasets, backbones=("plain",), convs=("without",),
                           pools=("nopool",), runs=5, split="stratified")  # fmt: skip
    runs = pd.concat([made.runs, control.runs], ignore_index=True)
    lead = 10.0 * (runs["pool"] == "lcpool")
    return Results(runs.assign(test_accuracy=60 + lead + runs["test_accuracy"] / 50,
                               largest_class=50.0))  # fmt: skip


def test_what_is_judged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hierarchical, "DRAWS", 40)
    results = made_up(("COX2", "NCI1", "MUTAG", "PTC_MR"))
    judged, own, other = analysis.reports(results)
    assert judged.verdicts.reference == "lcpool"
    assert {v.pairs.other for v in judged.verdicts.rivals} == set(analysis.RIVALS)
    assert {v.word for v in judged.verdicts.rivals} == {"better"}
    (verdict,) = own.verdicts.rivals
    assert (verdict.pairs.one, verdict.pairs.other) == ("cellpool", "lcpool")
    assert list(verdict.pairs.runs) == ["MUTAG", "PTC_MR"]
    assert verdict.word == "worse"
    assert {v.pairs.other for v in other.verdicts.rivals} == {"cellpool", "random"}
    text = analysis.written(results)
    assert text.count("\n### ") == 3
    assert analysis.controls(results)["largest"].tolist() == [50.0] * 4


def test_a_sweep_that_has_only_begun():
    results = made_up(("COX2",)).where(pool=["lcpool", "nopool"], conv="graphconv")
    judged, own, other = analysis.reports(results)
    assert len(judged.verdicts.rivals) == 1
    assert own is None
    assert other is None
    assert analysis.written(results)
