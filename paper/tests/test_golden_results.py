"""What is committed in ``paper/results/paper`` is what ``make paper`` makes of the runs there."""

import json
import re
from pathlib import Path

import pytest

from lcpool.report.cells import CELL, gather, select
from lcpool.sweep.results import Results
from paper.__main__ import main
from paper.published import published, reference

FOLDER = Path(__file__).parents[1] / "results" / "paper"
RUNS = {split: FOLDER / f"runs-{split}.csv" for split in ("fresh", "shared")}
AUDIT = "../../../../docs/paper-audit.md"  # as in the Makefile


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_everything_is_made_of_the_runs(tmp_path: Path):
    main(["report", *map(str, RUNS.values()), "--out", str(tmp_path), "--audit", AUDIT])
    assert (FOLDER / "fresh" / AUDIT).exists()
    made, there = contents(tmp_path), contents(FOLDER)
    kept = {"README.md", *(f"runs-{split}.{end}" for split in RUNS for end in ("csv", "npz"))}
    assert made.keys() | kept == there.keys()
    assert [name for name in made if made[name] != there[name]] == [], "run 'make paper'"


@pytest.mark.parametrize("split", RUNS)
def test_the_runs_are_all_of_the_papers(split: str):
    results = Results.read(RUNS[split])
    cells = gather(select(results, split=split), reference())
    assert len(results.runs) == len(results.curves) == 1920
    assert len(cells) == 192
    assert (cells["runs"] + cells["lost"] == 10).all()
    assert cells["default"].all()
    assert cells["agrees"].count() == 191
    assert results.runs["commit"].ne("").all()


def test_the_earlier_training_is_as_written():
    folder, run = FOLDER.parent / "earlier", [*CELL, "run"]
    now, earlier = (
        Results.read(path).runs.set_index(run)["test_accuracy"].sort_index()
        for path in (RUNS["fresh"], folder / "runs.csv")
    )
    assert now.index.equals(earlier.index)
    same = (now == earlier).groupby("pool").sum()
    off = (earlier - now).groupby(CELL).mean().abs().groupby("pool").agg(["mean", "max"])
    text = (folder / "README.md").read_text("utf-8")
    pools, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")][1:]
        for line in text.splitlines()
        if line.startswith(("| | ", "| runs of 240", "| a cell's", "| at most"))
    )
    assert sorted(pools) == sorted(same.index)
    assert rows[0] == [str(same[pool]) for pool in pools]
    for row, name in zip(rows[1:], off, strict=True):
        assert row == [f"{off[name][pool]:.2f}" for pool in pools]


def test_other_norms_are_as_written():
    folder = FOLDER.parent / "readings"
    runs = Results.read(folder / "runs.csv").runs
    norms = runs["config"].map(lambda config: json.loads(config)["norm"])
    cells = runs.groupby([norms, "split", "dataset"])["test_accuracy"].agg(["mean", "std", "size"])
    assert cells["size"].tolist() == [10] * 8
    figures = [f"{cell['mean']:.2f} ± {cell['std']:.2f}" for _, cell in cells.iterrows()]
    text = (folder / "README.md").read_text("utf-8").split("| `layer` |")[1]
    # Rows have PROTEINS first, and names in order DD.
    written = re.findall(r"(\S+ ± \S+) \| (\S+ ± \S+)", text)
    assert written == list(zip(figures[1::2], figures[::2], strict=True))
    tested = runs.groupby([norms, "split", "dataset"])["num_test"].mean()
    for (_, _, dataset), cell in cells.assign(num_test=tested).iterrows():
        paper, spread = published(dataset, "plain", "graphconv", "diffpool")
        p, allowed = cell["mean"] / 100, (cell["std"] ** 2 + spread**2) / 10
        allowed += 100**2 * p * (1 - p) / cell["num_test"]
        assert abs(cell["mean"] - paper) <= 2 * allowed**0.5
