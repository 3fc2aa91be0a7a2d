"""The committed audit is what ``make audit`` makes of ``results``."""

from pathlib import Path

from typer.testing import CliRunner

from lcpool.cli.app import app
from lcpool.sweep.grid import read_grids
from lcpool.sweep.results import Results

ROOT = Path(__file__).parents[2]


def test_the_audit_is_made_of_the_results(tmp_path: Path):
    arguments = ["audit", str(ROOT / "results"), "--out", str(tmp_path / "paper-audit.md")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    there = {path.name: path.read_bytes() for path in (ROOT / "docs").glob("paper-audit.*")}
    assert made.keys() == there.keys()
    assert [name for name in made if made[name] != there[name]] == [], "run 'make audit'"


def test_the_ablation_is_of_its_grid():
    folder = ROOT / "results" / "ablation"
    grids = read_grids(folder / "grid.toml", {})
    wanted = {cell for grid in grids for cell in grid.cells({name: name for name in grid.datasets})}
    runs = Results.read(folder / "runs.csv").runs
    found = runs.groupby(["dataset", "config"])["run"].apply(sorted)
    assert found.tolist() == [list(range(10))] * len(wanted)
    assert runs["commit"].ne("").all()
