"""The committed audit is what ``make audit`` makes of ``paper/results``."""

from pathlib import Path

from lcpool.sweep.grid import read_grids
from lcpool.sweep.results import Results
from paper.__main__ import main

ROOT = Path(__file__).parents[2]


def test_the_audit_is_made_of_the_results(tmp_path: Path):
    main(["audit", str(ROOT / "paper" / "results"), "--out", str(tmp_path / "paper-audit.md")])
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    there = {path.name: path.read_bytes() for path in (ROOT / "docs").glob("paper-audit.*")}
    assert made.keys() == there.keys()
    assert [name for name in made if made[name] != there[name]] == [], "run 'make audit'"


def test_the_ablation_is_of_its_grid():
    folder = ROOT / "paper" / "results" / "ablation"
    grids = read_grids(folder / "grid.toml", {})
    wanted = {cell for grid in grids for cell in grid.cells({name: name for name in grid.datasets})}
    runs = Results.read(folder / "runs.csv").runs
    found = runs.groupby(["dataset", "config"])["run"].apply(sorted)
    assert set(found.index) == {(cell.dataset, cell.config) for cell in wanted}
    assert found.tolist() == [list(range(10))] * len(wanted)
    assert runs["commit"].ne("").all()
