"""The grids are those of the plan, and the analysis judges what it says."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from runs import make_results
from said import numbers

from experiments.benchmark import analysis, by_graph
from experiments.benchmark.networks import KMIS2, KMIS3, WithoutEdges
from experiments.written import block
from lcpool.data import builtin
from lcpool.report import hierarchical
from lcpool.report.verdict import FAMILIES
from lcpool.settings import ALL_POOLS
from lcpool.sweep.grid import PAPER_DATASETS, Grid, read_grids
from lcpool.sweep.predictions import KeptPredictions
from lcpool.sweep.results import Failure, Results, key

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
    assert {v.pool for v in judged.verdicts.rivals} == set(analysis.RIVALS)
    assert {v.word for v in judged.verdicts.rivals} == {"better"}
    (verdict,) = own.verdicts.rivals
    assert (verdict.pairs.one, verdict.pool) == ("cellpool", "lcpool")
    assert list(verdict.pairs.runs) == ["MUTAG", "PTC_MR"]
    assert verdict.word == "worse"
    assert {v.pool for v in other.verdicts.rivals} == {"cellpool", "random"}
    text = analysis.written(results)
    assert text.count("\n### ") == 4
    assert analysis.controls(results)["largest"].tolist() == [50.0] * 4


def with_leads(leads: dict[str, float], of: dict[str, float]) -> Results:
    """Runs in which LCPool leads nopool by these points, by dataset; ``of``: nopool's accuracy."""
    pools = ("lcpool", "cellpool", "nopool", "random")
    made = make_results(datasets=tuple(leads), backbones=("plain",), convs=("graphconv",),
                        pools=pools, runs=8, split="stratified")  # fmt: skip
    runs = made.runs
    noise = (runs["test_accuracy"] - 70) / 20
    base, lead = runs["dataset"].map(of), runs["dataset"].map(leads)
    accuracy = base + lead * runs["pool"].isin(["lcpool", "random"]) + noise
    return Results(
        runs.assign(test_accuracy=accuracy, test_accuracy_by_loss=accuracy, largest_class=50.0)
    )


def test_informative_datasets_alone_stand_beside_every_verdict():
    """LCPool leads by a lot where no pooling can fail; our own is LCPool less that lead."""
    datasets = ["MUTAG", "PTC_MR", "MSRC_9", "BZR", "AIDS", "Synthie"]
    leads = dict.fromkeys(datasets[:3], 0.0) | dict.fromkeys(datasets[3:], 5.0)
    of = dict.fromkeys(datasets[:3], 70.0) | dict.fromkeys(datasets[3:], 98.0)
    results = with_leads(leads, of)
    judged, own, other = analysis.reports(results)
    for report in (judged, own, other):
        assert set(report.uninformative) == set(datasets[3:])
        rows = report.sensitivity[report.sensitivity["analysis"] == analysis.INFORMATIVE]
        assert len(rows) == len(report.verdicts.rivals)
        section = analysis._section("", report).splitlines()
        for row in rows.itertuples():
            (shown,) = (line for line in section if line.startswith(f"| {row.pool} | "))
            verdict, difference = shown.split(" | ")[-2].split(", ")
            assert verdict == row.verdict
            assert float(difference.replace("−", "-")) == pytest.approx(row.difference, abs=0.051)
    (rival,) = own.verdicts.rivals
    alone = own.sensitivity.set_index("analysis").loc[analysis.INFORMATIVE]
    assert abs(alone["difference"]) < 0.5
    assert rival.mean < -1
    assert alone["verdict"] == "equal"
    assert own.sensitive == {"lcpool"}
    assert own.named(rival) == f"{rival.word} (sensitive)"
    page = analysis.written(results)
    assert f"**{judged.named(judged.verdicts.rivals[0]).capitalize()}**" in page
    assert page.count(f"| {analysis.INFORMATIVE} |") == 3


def test_wrong_verdicts_are_expected_of_all_contrasts_together():
    leads = dict.fromkeys(("MUTAG", "PTC_MR", "MSRC_9", "AIDS", "Synthie"), 8.0)
    results = with_leads(leads, dict.fromkeys(leads, 70.0))
    judged, own, _ = analysis.reports(results)
    rivals = [*judged.verdicts.rivals, *own.verdicts.rivals]
    assert [rival.word for rival in rivals] == ["better", "worse"]
    expected = 1 - rivals[0].regions.better + 1 - rivals[1].regions.worse
    assert sum(rival.doubt for rival in rivals) == pytest.approx(expected)
    short = analysis.in_short(results, judged, own)
    assert {2.0, round(expected, 2)} <= set(numbers(short))


def test_what_edges_add_is_a_corrected_difference_on_the_same_splits():
    """By dataset, over both networks; on one dataset edges help, on the other they do not."""
    parts = []
    for backbone, conv in (("hierarchical", "gcn"), ("plain", "graphconv")):
        for of, gains in ((conv, (10.0, 1.0)), ("without", (0.0, 0.0))):
            runs = make_results(("MUTAG", "AIDS"), (backbone,), (of,), ("nopool",), runs=10,
                                split="stratified", seed=len(parts)).runs  # fmt: skip
            added = runs["dataset"].map(dict(zip(("MUTAG", "AIDS"), gains, strict=True)))
            parts.append(runs.assign(test_accuracy=runs["test_accuracy"] + added))
    results = Results(pd.concat(parts, ignore_index=True).assign(largest_class=50.0))
    found = analysis.edges(results)
    wide = results.runs.pivot_table("test_accuracy", ["dataset", "run"], ["backbone", "conv"])
    for name, gain in found.items():
        of = wide.loc[name]
        off = (
            of["hierarchical", "gcn"] - of["hierarchical", "without"]
            + of["plain", "graphconv"] - of["plain", "without"]
        ) / 2  # fmt: skip
        sizes = results.runs[results.runs["dataset"] == name].iloc[0]
        share = sizes["num_test"] / sizes["num_train"]
        assert gain.mean == pytest.approx(off.mean())
        assert gain.error == pytest.approx(((1 / 10 + share) * off.var(ddof=1)) ** 0.5)
        assert gain.low == pytest.approx(gain.mean - 2.262 * gain.error, abs=1e-3)
    assert {name for name, gain in found.items() if gain.low > 0} == {"MUTAG"}
    assert analysis.edges(results.where(conv=["gcn", "graphconv"])) == {}


def test_relatives_of_datasets_that_our_own_was_chosen_on():
    """They are judged with the others; the line that leaves them out says what the rest says."""
    first, *_ = grids("main")
    assert analysis.relatives(map(str, first.datasets)) == ["BZR", "COX2", "DHFR", "NCI1", "NCI109"]
    leads = {"BZR": -20.0, "MUTAG": 3.0, "AIDS": 3.0, "Synthie": 3.0}
    _, own, _ = analysis.reports(with_leads(leads, dict.fromkeys(leads, 70.0)))
    assert set(own.verdicts.rivals[0].pairs.runs) == set(leads)
    (line,) = analysis._unrelated(own)
    (rest,) = own.verdicts.judged(own.ranked, [name for name in leads if name != "BZR"])
    assert rest.word == "worse"
    assert numbers(line)[:3] == [round(100 * p, 1) for p in rest.regions]
    _, own, _ = analysis.reports(with_leads({"MUTAG": 0.0, "AIDS": 0.0}, {"MUTAG": 70, "AIDS": 70}))
    assert list(analysis._unrelated(own)) == []


def test_pieces_are_read_without_being_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The text begins with the datasets that are complete and the number of their runs."""
    monkeypatch.setattr(hierarchical, "DRAWS", 40)
    wanted = [
        Grid.of(
            datasets=["COX2", "DD", "MUTAG"], backbones="plain", convs="graphconv", runs=5,
            pools=["lcpool", "kmis"], splits="stratified",
        )
    ]  # fmt: skip
    monkeypatch.setattr(analysis, "read_grids", lambda *_: wanted)
    monkeypatch.setattr(analysis, "HERE", tmp_path)
    results = made_up(("COX2", "DD", "MUTAG"))
    of_each = len(results.runs) // 3
    for number, name in enumerate(("COX2", "DD", "MUTAG"), 1):
        part = results.where(dataset=name)
        if name == "MUTAG":
            part = part.where(pool=["lcpool", "nopool"])
        part.write(tmp_path / f"runs-main-{number}.csv")
        first = analysis.text().partition("\n")[0]
        done = min(number, 2)
        assert {float(done), 3.0, float(done * of_each)} <= set(numbers(first))
        assert ("DD" in first) == (number > 1)
    assert numbers(first)[-2:] == [1, 2]  # of MUTAG's cells
    assert analysis.tried(Results.read(*tmp_path.glob("*.csv")), wanted)["MUTAG"] == (1, 2)


def test_a_sweep_that_has_only_begun():
    results = made_up(("COX2",)).where(pool=["lcpool", "nopool"], conv="graphconv")
    judged, own, other = analysis.reports(results)
    assert len(judged.verdicts.rivals) == 1
    assert own is None
    assert other is None
    assert analysis.written(results)


def test_datasets_count_when_every_cell_was_tried():
    results = made_up(("COX2", "MUTAG"))
    wanted = [
        Grid.of(
            datasets=["COX2", "MUTAG"], backbones="plain", convs="graphconv", runs=5,
            pools=["lcpool", "kmis"], splits="stratified",
        )
    ]  # fmt: skip
    assert analysis.complete(results, wanted) == ["COX2", "MUTAG"]
    of_one = (results.runs["dataset"] == "MUTAG") & (results.runs["pool"] == "kmis")
    lacking = Results(results.runs.drop(results.runs[of_one].index[0]))
    assert analysis.complete(lacking, wanted) == ["COX2"]
    none = Results(results.runs[~of_one])
    assert analysis.complete(none, wanted) == ["COX2"]
    config = results.runs.loc[of_one, "config"].iloc[0]
    failed = Failure(("MUTAG", "plain", "graphconv", "kmis"), "stratified", "", config)
    assert analysis.complete(Results(none.runs, failures=(failed,)), wanted) == ["COX2", "MUTAG"]
    elsewhere = config.replace('"ratio": 0.5', '"ratio": 0.8')
    other = none.runs.assign(
        config=none.runs["config"].where(none.runs["pool"] != "lcpool", elsewhere)
    )
    assert analysis.complete(Results(other, failures=(failed,)), wanted) == []


def test_a_cell_that_failed_is_exported_counted_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As DiffPool may, out of memory: the dataset counts, its other pairs too."""
    monkeypatch.setattr(hierarchical, "DRAWS", 40)
    results = made_up(("COX2", "DD", "MUTAG"))
    runs = results.runs.assign(split="stratified")
    cells = [("DD", "plain", "graphconv", "diffpool"), ("MUTAG", "plain", "without", "nopool")]
    names, failures = ["dataset", "backbone", "conv", "pool"], []
    for cell in cells:
        there = (runs[names] == list(cell)).all(axis=1)
        config = runs.loc[there, "config"].iloc[0]
        failures.append(Failure(cell, "stratified", "RuntimeError: out of memory", config))
        runs = runs[~there]
    wanted = [
        Grid.of(
            datasets=["COX2", "DD", "MUTAG"], backbones="plain", convs="graphconv", runs=5,
            pools=["lcpool", "diffpool"], splits="stratified",
        )
    ]  # fmt: skip
    lost = Results(runs.reset_index(drop=True))
    assert analysis.complete(lost, wanted) == ["COX2", "MUTAG"]
    read = Results.read(Results(lost.runs, failures=tuple(failures)).write(tmp_path / "runs-1.csv"))
    assert analysis.complete(read, wanted) == ["COX2", "DD", "MUTAG"]
    judged, _, _ = analysis.reports(read)
    (rival,) = (v.pairs for v in judged.verdicts.rivals if v.pool == "diffpool")
    assert list(rival.runs) == ["COX2", "MUTAG"]
    assert rival.missing == ["DD"]
    assert [failure.names for failure in judged.results.failures] == cells[:1]
    monkeypatch.setattr(analysis, "read_grids", lambda *_: wanted)
    page = analysis.answered(read)
    assert [page.count(" ".join(cell)) for cell in cells] == [2, 1]


def test_the_page_is_about_the_runs_that_there_are():
    results = Results.read(*HERE.glob("runs-main*.csv"))
    done = analysis.complete(results, grids("main"))
    said = numbers(block(HERE / "README.md", analysis.SHORT).partition("\n")[0])
    assert said[:3] == [len(done), 24, len(results.where(dataset=done).runs)]


def simulated(size_matters: float) -> pd.DataFrame:
    """Leads on graphs of eight families; the larger the graph, the larger the lead."""
    random = np.random.RandomState(0)
    parts = []
    for number in range(8):
        table = pd.DataFrame(random.randn(60, 4), columns=list(by_graph.PROPERTIES))
        table["lead"] = size_matters * table["size"] + 0.5 * random.randn(60)
        parts.append(table.assign(dataset=f"set {number}"))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("size_matters", [-0.3, 0.0, 0.3])
def test_only_what_holds_on_families_that_were_left_out_is_named(size_matters: float):
    table = simulated(size_matters)
    r2, coefficients = by_graph.explained(table)
    assert by_graph.holds(r2, coefficients) == (["size"] if size_matters else [])
    assert len(coefficients) == 8
    if size_matters:
        slope = np.polyfit(table["size"], table["lead"], 1)[0]
        assert coefficients["size"].mean() == pytest.approx(slope, abs=0.03)


def test_a_dataset_that_the_plan_names_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The file where the plan says, or in the folder LCPOOL_DATA; its runs have its bare name."""
    first, *_ = grids("main")
    (path,) = (str(one) for one in first.datasets if "/" in str(one))
    name = Path(path).stem
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LCPOOL_DATA", raising=False)
    assert by_graph.place(name, first.datasets) == path  # which an error can name
    assert by_graph.place("MUTAG", first.datasets) == "MUTAG"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / f"{name}.npz").touch()
    monkeypatch.setenv("LCPOOL_DATA", str(tmp_path / "folder"))
    assert by_graph.place(name, first.datasets) == name
    Path(path).parent.mkdir()
    Path(path).touch()
    assert by_graph.place(name, first.datasets) == path


@pytest.mark.parametrize("as_planned", [True, False])
def test_the_small_hard_graphs_have_properties(
    as_planned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    names = ("data/hard_small.npz", "shared/gcb/hard_small.npz", "../shared/gcb/hard_small.npz")
    places = [Path(os.environ.get("LCPOOL_DATA", "."), "../gcb/hard_small.npz"),
              *(HERE.parents[1] / name for name in names)]  # fmt: skip
    there = [place.resolve() for place in places if place.is_file()]
    if not there:
        pytest.skip("hard_small.npz is not in data/ or beside the datasets of LCPOOL_DATA")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    if as_planned:
        (tmp_path / "data" / "hard_small.npz").symlink_to(there[0])
    else:
        monkeypatch.setenv("LCPOOL_DATA", str(there[0].parent))
    graphs = analysis.load("hard_small")
    assert graphs.name == "hard_small"
    assert len(by_graph.properties(graphs)) == 300


def test_leads_by_graph_are_those_of_the_predictions():
    graphs = builtin(num_graphs=6)
    runs, kept = [], {}
    for pool, said in (("lcpool", [0, 1, 0]), ("topkpool", [0, 0, 1])):
        row = {"dataset": "set", "backbone": "plain", "conv": "gcn", "pool": pool, "run": 0,
               "split": "stratified", "seed": 2, "config": "{}"}  # fmt: skip
        runs.append(row)
        outputs = np.eye(2, dtype=np.float32)[said]
        target = np.array([[0], [1], [1]], np.float32)
        kept[key(row)] = KeptPredictions(np.array([4, 1, 2]), target, outputs, outputs)
    results = Results(pd.DataFrame(runs), predictions=kept)
    table = by_graph.wins(results, "lcpool", "topkpool", lambda name: graphs)
    assert dict(zip(table["graph"], table["lead"], strict=True)) == {1: 1, 2: -1, 4: 0}
    expected = by_graph.properties(graphs)["size"][[1, 2, 4]].tolist()
    assert table["size"].tolist() == expected
    assert expected[0] == pytest.approx(np.log1p(graphs[1].num_nodes))
