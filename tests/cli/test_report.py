import errno
import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from runs import make_results
from said import naming
from typer.testing import CliRunner

from lcpool.cli.app import app
from lcpool.report import Report
from lcpool.report.page import page
from lcpool.spreadsheet import unprotected
from lcpool.sweep.columns import NAMES
from lcpool.sweep.results import Results
from lcpool.sweep.store import Store

FILES = {
    "report.html",
    "tables.md",
    "tables.tex",
    "tables.csv",
    "ranks.csv",
    "verdicts.csv",
    "sensitivity.csv",
}


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
    assert str(folder / "report.html") in done.stdout
    assert naming(done.stdout, "split", "fresh")
    lines = [line.split() for line in done.stdout.splitlines()]
    rows = [line for line in lines if len(line) == 5 and line[0] in report.ranked.pools]
    rows = [row for row in rows if row[1][0].isdigit()]
    assert [row[0] for row in rows] == report.ranked.order
    c = report.ranked
    blocks = dict(zip(c.pools, c.blocks(c.means).T, strict=True))
    for pool, *accuracies, rank in rows:
        assert [float(a) for a in accuracies] == pytest.approx(blocks[pool], abs=0.006)
        assert float(rank) == pytest.approx(c.rank[pool], abs=0.006)


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
    # It is left out of the ranking, and of the one verdict that is about it.
    said, of_verdict = naming(done.stdout, "plain", "gcn")
    assert {"B", "c."} <= set(said.split())
    assert {"B", "c"} <= set(re.findall(r"\w+", of_verdict))
    assert not {"A", "C"} & set(re.findall(r"\w+", of_verdict))
    assert not {"A", "C", "b", "d"} & set(re.findall(r"\w+", said))


def test_a_report_from_files_is_the_report_of_the_runs(lcpool_report: Callable, tmp_path: Path):
    """Curves included, and again from the same files to the letter."""
    results = make_results(datasets=("DD", "NCI1"), runs=2)
    path = results.write(tmp_path / "runs.csv")
    assert lcpool_report(path, "--out", tmp_path / "once").exit_code == 0
    assert lcpool_report(path, "--out", tmp_path / "twice").exit_code == 0
    once = (tmp_path / "once" / "report.html").read_text("utf-8")
    assert once == (tmp_path / "twice" / "report.html").read_text("utf-8")
    assert once == page(Report.of(results))
    assert once.count("<polyline") == 2 * 4 * 8 + 1  # The last joins poolings.


def test_rule_and_split(lcpool_report: Callable, runs_csv: Path, tmp_path: Path):
    done = lcpool_report(runs_csv, "--rule", "loss", "--split", "fresh", "--out", tmp_path / "r")
    assert done.exit_code == 0, done.output
    cells = unprotected(pd.read_csv(tmp_path / "r" / "tables.csv"))
    assert (set(cells["rule"]), set(cells["split"])) == ({"loss"}, {"fresh"})
    runs = Results.read(runs_csv).runs
    means = runs.groupby(["dataset", "backbone", "conv", "pool"])["test_accuracy_by_loss"].mean()
    assert cells["mean"].sort_values().tolist() == pytest.approx(sorted(means), abs=0.01)


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
    (tmp_path / "file").write_text("")
    for arguments, named, status in (
        ([runs_csv, "--rule", "luck"], "'luck'", 2),
        ([runs_csv, "--split", "shared"], "'shared'", 2),
        ([runs_csv, "--out", tmp_path / "file"], str(tmp_path / "file"), 1),
        ([runs_csv, "--pools", "lcpol"], "lcpool", 2),
        ([runs_csv, "-d", "DD", "--datasets", "PROTEIN"], "[red]NA", 2),
        ([runs_csv, runs_csv], "DD", 2),
    ):
        done = lcpool_report(*arguments)
        assert done.exit_code == status, done.output
        assert named in done.stderr
        assert len(done.stderr.splitlines()) == 1


def other_version(path: Path) -> None:
    Store(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def changed(column: str, value: str) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        make_results(datasets=("DD",), pools=("lcpool",), runs=1).write(path.with_suffix(".csv"))
        table = pd.read_csv(path.with_suffix(".csv"), dtype=str, keep_default_na=False)
        table.loc[1, column] = value
        table.to_csv(path, index=False)

    return write


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda path: None, "store"),
        (Path.mkdir, "store"),
        (lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff"), "export"),
        (Path.touch, "export"),
        (lambda path: path.write_text("a,b\n1,2\n"), "backbone"),
        (lambda path: path.write_text('a,b\n1,2,3\n"'), "export"),
        (lambda path: path.write_text(",".join(NAMES)), "runs"),
        (changed("seconds", "soon"), "'seconds'"),
        (changed("run", "1" * 30), "'run'"),
        (changed("config", "{"), "settings"),
        (changed("split", "banana"), "'banana'"),
        (lambda path: sqlite3.connect(path).execute("CREATE TABLE t (a)"), "store"),
        (other_version, "99"),
    ],
)
def test_a_file_that_is_none_of_ours(
    lcpool_report: Callable, tmp_path: Path, make: Callable[[Path], object], named: str
):
    path = tmp_path / "input"
    make(path)
    done = lcpool_report(path)
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.splitlines()
    assert named in line
    for words in ("pandas", "codec", "parse", "tokeniz", "convert", "KeyError"):
        assert words not in line


def test_a_file_that_may_not_be_read(lcpool_report: Callable, runs_csv: Path, monkeypatch):
    def refuse(path: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "open", refuse)
    done = lcpool_report(runs_csv)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert str(runs_csv) in line
    assert os.strerror(errno.EACCES) in line


def test_a_full_disk_leaves_whole_files(lcpool_report: Callable, runs_csv: Path, monkeypatch):
    """All files are new, or all of them old."""
    assert lcpool_report(runs_csv).exit_code == 0
    folder = runs_csv.parent / "report"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    room = iter([True, True, False])

    def fsync(_: int) -> None:
        if not next(room):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    done = lcpool_report(runs_csv, "--rule", "loss")
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert str(folder) in line
    assert "Errno" not in line
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after == before


def test_names_that_are_formulas(lcpool_report: Callable, tmp_path: Path):
    """Are none in any CSV file, and come back as they were."""
    names = ("=cmd|' /C calc'!A0", "@SUM(1)", "'=1", "-x", "plain")
    results = make_results(datasets=names, pools=("lcpool", "+1"), runs=2)
    path = results.write(tmp_path / "runs.csv")
    again = Results.read(path)
    assert list(again.runs["dataset"]) == list(results.runs["dataset"])
    assert again.curves.keys() == results.curves.keys()
    assert lcpool_report(path).exit_code == 0
    for file in (path, tmp_path / "report" / "tables.csv", tmp_path / "report" / "ranks.csv"):
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
        texts = table.to_numpy().ravel()
        numbers = re.compile(r"-?[\d.]+(e[-+]?\d+)?")
        assert not [t for t in texts if t[:1] in "=+-@" and t and not numbers.fullmatch(t)]
    shown = pd.read_csv(tmp_path / "report" / "tables.csv")
    assert set(unprotected(shown)["dataset"]) == set(names)
    assert shown["mean"].dtype == float
