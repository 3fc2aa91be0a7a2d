import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sweep.sweeping import Silent, change, small_jobs, sweep, write_tu
from typer.testing import CliRunner

from lcpool.cli.app import app
from lcpool.cli.bench import _left, _seconds
from lcpool.cli.sweep import conclude
from lcpool.cli.train import check_own_class
from lcpool.models import Architecture
from lcpool.sweep import Results, Store
from lcpool.sweep.engine import EngineError
from lcpool.sweep.engines import worker
from lcpool.sweep.run import Sweep

SHORT = ("--runs", 2, "--hidden", 8, "--epochs", 2, "--device", "cpu")
SMALL = ("--pools", "nopool,topkpool", *SHORT)
OWN = """\
from torch import nn
class Pool(nn.Module):
    def __init__(self, channels):
        super().__init__()
    def forward(self, x, edge_index, edge_attr=None, batch=None):
        {}
        return x, edge_index, edge_attr, batch
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def bench() -> Callable:
    return lambda *arguments: CliRunner().invoke(app, ["bench", *map(str, arguments)])


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_tu(tmp_path)


def test_from_nothing_to_a_table(bench: Callable, dataset: Path):
    """Train, ask again, look, train a row again, export; fresh splits are the default."""
    done = bench("-d", dataset, *SMALL, "--split", "both", "--workers", 2)
    assert done.exit_code == 0, done.stderr
    assert "RINGS hierarchical gcn nopool shared+fresh: done" in done.stderr
    assert "2 of 2 jobs are complete in bench.sqlite; 8 runs" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("lcpool report bench.sqlite")
    again = bench("-d", dataset, *SMALL, "--split", "both")
    assert "2 of 2 jobs are complete in bench.sqlite; 0 runs" in again.stderr
    seen = bench("-d", dataset, *SMALL, "--runs", 3, "--dry-run")
    assert "2 jobs, 6 trainings, 2 missing" in seen.stdout
    replayed = bench("--replay", "RINGS/nopool/fresh/1", "--device", "cpu")
    assert replayed.exit_code == 0, replayed.output
    assert bench("export", "bench.sqlite", "fresh.csv", "--split", "fresh").exit_code == 0
    table = Results.read("fresh.csv").runs
    assert (len(table), set(table.split)) == (4, {"fresh"})
    assert json.loads(table.config[0])["hidden"] == 8


def test_a_changed_result_is_noticed_by_a_replay(bench: Callable, dataset: Path):
    bench("-d", dataset, *SHORT, "--pools", "nopool", "--workers", 1)
    change(Path("bench.sqlite"), test_accuracy=12.5)
    done = bench("--replay", "nopool/1", "--device", "cpu")
    assert done.exit_code == 1
    assert "12.5" in done.stdout
    assert done.stdout.endswith("test_accuracy\n")


def test_failures_are_in_the_last_lines_and_the_exit_status(bench: Callable, dataset: Path):
    """A pooling that works when it is tried on a small graph, and fails on the data."""
    Path("moody.py").write_text(OWN.format("assert x.size(0) == 4, 'only for four nodes'"))
    done = bench("-d", dataset, *SHORT, "--pools", "nopool,moody:Pool", "--workers", 1)
    assert done.exit_code == 1
    *_, aside, complete, failed, report = done.stderr.splitlines()
    assert "set aside: RINGS hierarchical gcn moody:Pool fresh: " in aside
    assert aside.endswith("moody.py:6: AssertionError: only for four nodes")
    assert "lcpool report" in report
    assert "1 of 2 jobs are complete" in complete
    assert "1 job failed" in failed


@pytest.mark.parametrize("deed", ["os._exit(0)", "os.abort()"])
def test_a_pooling_that_ends_python_is_named(bench: Callable, dataset: Path, deed: str):
    Path("deadly.py").write_text(OWN.format(f"import os; {deed}"))
    done = bench("-d", dataset, *SHORT, "--pools", "deadly:Pool", "--workers", 1)
    assert done.exit_code == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "deadly:Pool" in line
    assert not Path("bench.sqlite").exists()


def test_a_pooling_that_never_comes_back_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker, "TRY_SECONDS", 0.1)
    with pytest.raises(ValueError, match="poolings:Hangs"):
        worker.try_out(check_own_class, "sweep.poolings:Hangs", Architecture(hidden=8))


def test_what_a_pooling_prints_when_it_is_tried_is_no_result(capfd: pytest.CaptureFixture[str]):
    worker.try_out(check_own_class, "sweep.poolings:Talks", Architecture(hidden=8))
    assert "talks" not in capfd.readouterr().out


def test_check_lists_damaged_runs_and_changes_nothing(bench: Callable):
    path = Path("a.sqlite")
    sweep(path, small_jobs(["nopool"], epochs=1))
    assert bench("check", path).exit_code == 0
    with Store(path) as store, store.transaction() as connection:
        connection.execute("UPDATE runs SET epochs = 9 WHERE run = 1")
    before = path.read_bytes()
    done = bench("check", path)
    assert done.exit_code == 1
    assert done.stdout.count("damaged: builtin hierarchical gcn nopool shared 1 ") == 1
    assert done.stdout.count("damaged: ") == 1
    assert "1 of 2 runs" in done.stdout
    assert path.read_bytes() == before


def test_a_store_that_is_gone_is_no_success(capsys: pytest.CaptureFixture[str]):
    class Removes(Silent):
        def show(self, sweep):
            Path("a.sqlite").unlink(missing_ok=True)

    outcome = sweep(Path("a.sqlite"), small_jobs(["nopool"], epochs=1), view=Removes())
    assert conclude(outcome, Path("a.sqlite")) == 1
    assert str(Path("a.rescued.sqlite").absolute()) in capsys.readouterr().err


def test_all_poolings_and_both_splits(bench: Callable):
    shown = bench("--pool", "all", "--split", "both", "--runs", 2, "--dry-run").stdout
    assert "8 jobs, 32 trainings" in shown
    text = " ".join(bench("--help").stdout.split())
    assert "--pool all" in text
    assert "--split both" in text


def test_a_time_limit(bench: Callable, dataset: Path):
    options = ("-d", dataset, "--epochs", 100_000, "--patience", 100_000, "--pools", "nopool")
    options += ("--workers", 1, "--runs", 2, "--hidden", 8, "--device", "cpu")
    done = bench(*options, "--time-limit", "5s")
    assert done.exit_code == 3, done.stderr
    assert "1 job is missing (time is up)" in done.stderr


def test_the_paper(bench: Callable, monkeypatch: pytest.MonkeyPatch):
    from lcpool.sweep.grid import Dataset

    monkeypatch.setattr(Dataset, "of", lambda source, root: Dataset(source, source, ""))
    done = bench("--paper", "--dry-run")
    assert "96 jobs, 1920 trainings, 1920 missing" in done.stdout
    assert "backbone hierarchical+plain, split shared, runs 20" in done.stdout
    done = bench("--paper", "--dry-run", "--split", "both", "--runs", 2, "--pools", "lcpool-star")
    assert "12 jobs, 96 trainings, 96 missing" in done.stdout


def test_merge(bench: Callable):
    sweep(Path("one.sqlite"), small_jobs(["nopool"], epochs=1))
    sweep(Path("two.sqlite"), small_jobs(["topkpool"], epochs=1))
    done = bench("merge", "all.sqlite", "one.sqlite", "two.sqlite")
    assert done.exit_code == 0
    assert "two.sqlite: 2 runs added" in done.stdout
    change(Path("one.sqlite"), run=1, epochs=9)
    done = bench("merge", "all.sqlite", "one.sqlite")
    assert done.exit_code == 1
    assert "0 runs added" in done.stdout
    assert "builtin hierarchical gcn nopool shared run 1: other epochs" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--pools", "nope"], "nope"),
        (["--pools", "nowhere_at_all:Pool"], "nowhere_at_all:Pool"),
        (["--convs", "gat"], "gat"),
        (["--split", "none"], "none"),
        (["--runs", "0"], "runs"),
        (["-d", "nowhere/at/all"], "nowhere/at/all"),
        (["--file", "none.toml"], "none.toml"),
        (["--file", "none.toml", "--paper"], "--paper"),
        (["--time-limit", "soon"], "--time-limit soon"),
        (["--epoch-timeout", "0"], "--epoch-timeout 0"),
        (["--engine", "abacus"], "abacus"),
        (["--device", "abacus"], "abacus"),
        (["--workers", "0"], "--workers"),
        (["--stack", "0"], "--stack"),
        (["--engine", "ray", "--cpus", "0"], "--cpus"),
        (["--store", "."], "."),
        (["--replay", "nopool/1"], "bench.sqlite"),
        (["export", "none.sqlite", "out"], "none.sqlite"),
        (["merge", "all.sqlite", "none.sqlite"], "none.sqlite"),
    ],
)
def test_an_error_is_one_line(bench: Callable, arguments: list[str], named: str):
    done = bench(*arguments)
    assert done.exit_code == 2, done.output
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert not list(Path().glob("*.sqlite*"))  # Nothing was changed.


def test_an_engine_that_cannot_train_is_one_line(bench: Callable, monkeypatch: pytest.MonkeyPatch):
    def fall(sweep: Sweep) -> None:
        raise EngineError("no node is left in the Ray cluster.")

    monkeypatch.setattr(Sweep, "run", fall)
    done = bench(*SMALL, "--workers", 1)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert "no node is left" in line


def test_a_dataset_in_the_place_of_a_command_is_told_where_it_goes(bench: Callable):
    done = bench("COX2")
    assert done.exit_code == 2
    assert "lcpool bench -d COX2" in " ".join(done.stderr.replace("│", " ").split())


def test_lists_of_any_setting_are_a_product(bench: Callable):
    """With commas or by repeating; all choices by a word; what a file says of it is replaced."""
    lists = (
        "--ratio",
        "0.25,0.5",
        "--hidden",
        8,
        "--hidden",
        16,
        "--self-loops",
        "--no-self-loops",
    )
    done = bench("-p", "lcpool", *lists, "--norm", "all", "--split", "both", "--dry-run")
    assert "24 jobs, 480 trainings" in done.stdout, done.output
    Path("grid.toml").write_text("pools = ['lcpool', 'sagpool']\nratio = [0.1, 0.2]\nruns = 2\n")
    assert "4 jobs, 8 trainings" in bench("--file", "grid.toml", "--dry-run").stdout
    shown = bench("--file", "grid.toml", "--dry-run", "--pool", "nopool", "--ratio", 0.5).stdout
    assert "1 job, 2 trainings" in shown


def test_a_file_of_grids(bench: Callable):
    Path("grid.toml").write_text(
        'datasets = "builtin"\npools = ["lcpool"]\nruns = 2\n[[grid]]\nratio = 0.25\n[[grid]]\n'
    )
    shown = bench("--file", "grid.toml", "--dry-run").stdout
    assert "2 jobs, 4 trainings" in shown
    assert shown.count("ratio=0.25") == 1  # what tells the rows apart
    assert "2 jobs, 6 trainings" in bench("--file", "grid.toml", "--dry-run", "--runs", 3).stdout


def test_what_all_jobs_share_is_said_once(bench: Callable, monkeypatch: pytest.MonkeyPatch):
    """By names that a file of grids understands, and in 80 columns without a broken word."""
    monkeypatch.setenv("COLUMNS", "80")
    Path("grid.toml").write_text(
        "pools = ['lcpool', 'mincutpool']\nbackbones = 'plain'\nconvs = ['gcn', 'graphconv']\n"
        "hidden = 8\nepochs = 2\n[[grid]]\nratio = 0.25\nself_loops = false\n[[grid]]\n"
    )
    first, *rows = bench("--file", "grid.toml", "--dry-run").stdout.splitlines()
    assert first.rstrip() == (
        "dataset builtin, backbone plain, split fresh, runs 10, hidden=8, epochs=2"
    )
    row = next(row.split() for row in rows if " lcpool" in row and "graphconv" in row)
    assert row == ["graphconv", "lcpool", "ratio=0.25,", "self_loops=False", "10"]


def test_a_time_limit_counts_from_the_start_and_leaves_time_to_end(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("time.monotonic", lambda: 103.0)
    assert _left(20.0, began=100.0) == 20 - 3 - 3  # Python ends faster than it began.
    assert _left(600.0, began=3.0) == 600 - 100 - 10


def test_lengths_of_time():
    times = [_seconds("--time-limit", text) for text in ("45", "45s", "9m", "1.5h")]
    assert times == [45, 45, 540, 5400]
