from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from runs import make_results
from typer.testing import CliRunner

from lcpool.cli.app import app
from lcpool.report import Report
from lcpool.report.page import page
from lcpool.sweep.results import Results

FILES = {"report.html", "tables.md", "tables.tex", "tables.csv", "ranks.csv"}


@pytest.fixture
def lcpool_report(monkeypatch: pytest.MonkeyPatch) -> Callable:
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.fixture
def runs_csv(tmp_path: Path) -> Path:
    results = make_results(datasets=("DD", "NCI1", "[red]NA"), runs=5)
    return results.write(tmp_path / "sweep" / "runs.csv")


def test_files_and_summary(lcpool_report: Callable, runs_csv: Path):
    done = lcpool_report(runs_csv)
    assert done.exit_code == 0, done.output
    folder = runs_csv.parent / "report"
    assert {path.name for path in folder.iterdir()} == FILES
    report = Report.of(Results.read(runs_csv))
    assert "paper" not in done.stdout
    assert f"wrote {folder / 'report.html'}" in done.stdout
    assert "fresh: a new one for each run" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    rows = [line for line in lines if len(line) == 5 and line[0] in report.ranked.pools]
    assert [row[0] for row in rows] == report.ranked.order
    c = report.ranked
    blocks = dict(zip(c.pools, c.blocks(c.means).T, strict=True))
    for pool, *accuracies, rank in rows:
        assert [float(a) for a in accuracies] == pytest.approx(blocks[pool], abs=0.006)
        assert float(rank) == pytest.approx(
            c.average_ranks(c.means)[c.pools.index(pool)], abs=0.006
        )


def test_one_failed_cell_unranks_no_pooling(lcpool_report: Callable, tmp_path: Path):
    results = make_results(datasets=("A", "B", "C"), pools=tuple("abcd"), convs=("gcn",))
    runs = results.runs
    failed = (runs["dataset"] == "B") & (runs["pool"] == "c") & (runs["backbone"] == "plain")
    path = Results(runs[~failed]).write(tmp_path / "runs.csv")
    done = lcpool_report(path)
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.stdout.splitlines()]
    (row,) = (line for line in lines if line[:1] == ["c"] and len(line) == 5)
    assert all(float(number) for number in row[1:])
    (said,) = (line for line in done.stdout.splitlines() if line.startswith("Left out"))
    assert "B (plain gcn)" in said
    assert said.endswith("of c.")


def test_a_report_from_files_is_the_report_of_the_runs(lcpool_report: Callable, tmp_path: Path):
    """Curves included, and again from the same files to the letter."""
    results = make_results(datasets=("DD", "NCI1"), runs=2)
    path = results.write(tmp_path / "runs.csv")
    assert lcpool_report(path, "--out", tmp_path / "once").exit_code == 0
    assert lcpool_report(path, "--out", tmp_path / "twice").exit_code == 0
    once = (tmp_path / "once" / "report.html").read_text("utf-8")
    assert once == (tmp_path / "twice" / "report.html").read_text("utf-8")
    assert once == page(Report.of(results))
    assert once.count("<polyline") == 2 * 4 * 8


def test_rule_and_split(lcpool_report: Callable, runs_csv: Path, tmp_path: Path):
    done = lcpool_report(runs_csv, "--rule", "loss", "--split", "fresh", "--out", tmp_path / "r")
    assert done.exit_code == 0, done.output
    assert "chosen by validation loss" in (tmp_path / "r" / "tables.md").read_text("utf-8")


@pytest.mark.parametrize(
    "options",
    [
        ["--pools", "lcpool,sagpool", "--datasets", "DD,[red]NA"],
        ["-p", "sagpool", "-p", "lcpool", "-d", "[red]NA", "-d", "DD"],
    ],
)
def test_some_poolings_and_datasets(
    lcpool_report: Callable, runs_csv: Path, tmp_path: Path, options: list[str]
):
    done = lcpool_report(runs_csv, *options, "--out", tmp_path / "some")
    assert done.exit_code == 0, done.output
    cells = pd.read_csv(tmp_path / "some" / "tables.csv")
    assert set(cells["pool"]) == {"lcpool", "sagpool"}
    assert set(cells["dataset"]) == {"DD", "[red]NA"}
    chosen = Report.of(
        Results.read(runs_csv), pools=["lcpool", "sagpool"], datasets=["DD", "[red]NA"]
    )
    assert (tmp_path / "some" / "report.html").read_text("utf-8") == page(chosen)


def test_errors_are_one_line(lcpool_report: Callable, runs_csv: Path, tmp_path: Path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "file").write_text("")
    for arguments, message in (
        (["nowhere.csv"], "nowhere.csv"),
        ([tmp_path / "other.csv"], "it lacks dataset, backbone"),
        ([runs_csv, "--rule", "luck"], "unknown rule 'luck'"),
        ([runs_csv, "--split", "shared"], "no runs with split 'shared'"),
        ([runs_csv, "--out", tmp_path / "file"], "file"),
        ([runs_csv, "--pools", "lcpol"], "lcpool"),
        ([runs_csv, "-d", "DD", "--datasets", "PROTEIN"], "[red]NA"),
    ):
        done = lcpool_report(*arguments)
        assert done.exit_code == 2, done.output
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
