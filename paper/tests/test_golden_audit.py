"""The committed audit is what ``make audit`` makes of ``paper/results``."""

import re
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


def test_the_readme_says_what_the_audit_says():
    audit = (ROOT / "docs" / "paper-audit.md").read_text("utf-8")
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    names = {"lcpool": "LCPool", "mincutpool": "MinCut", "topkpool": "TopK", "sagpool": "SAG",
             "asapool": "ASAP"}  # fmt: skip
    looks = re.findall(r"^\| (?:fresh|shared|earlier), by .* \| (.*) \|$", audit, re.M)
    shown = looks[0]
    assert "more accurate, on fresh splits with epochs chosen by validation accuracy" in audit
    for name, written in names.items():
        shown = shown.replace(name, written)
    where = f"in {looks.count(looks[0])} of {len(looks)} looks"
    verb = "are" if " and " in shown.split(" than")[0] else "is"
    assert f"{shown.replace(' than', f' {verb} shown to be more accurate than')}, {where}" in readme
    others = [look for look in looks[1:] if look != "none than another"]
    assert others == ["lcpool and mincutpool than topkpool"]
    assert "training shows LCPool and MinCut, each, to be more accurate than TopK" in readme
    assert "take none (nopool): no pooling is shown to beat that" in audit
    assert not re.search(r"nopool( and \w+)? than", audit)  # nor is any shown to be worse
    connected = re.search(r"over datasets: (.*?) For the same", audit)[1]
    shares = dict(re.findall(r"(\w+) (\d+) % \(", connected))
    for name in ("lcpool", "asapool", "sagpool", "topkpool"):
        assert re.search(rf"{names[name]}\D*{shares[name]} %", readme)


def test_the_ablation_is_of_its_grid():
    folder = ROOT / "paper" / "results" / "ablation"
    grids = read_grids(folder / "grid.toml", {})
    wanted = {cell for grid in grids for cell in grid.cells({name: name for name in grid.datasets})}
    runs = Results.read(folder / "runs.csv").runs
    found = runs.groupby(["dataset", "config"])["run"].apply(sorted)
    assert set(found.index) == {(cell.dataset, cell.config) for cell in wanted}
    assert found.tolist() == [list(range(10))] * len(wanted)
    assert runs["commit"].ne("").all()
