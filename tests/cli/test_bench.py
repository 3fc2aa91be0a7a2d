import json
from collections.abc import Callable
from pathlib import Path

import pytest
from said import naming, numbers
from sweep.sweeping import Silent, change, small_jobs, sweep, write_tu
from typer.testing import CliRunner

from lcpool.cli import own
from lcpool.cli.app import app
from lcpool.cli.bench import _left, _seconds
from lcpool.cli.sweep import conclude
from lcpool.models import Architecture
from lcpool.sweep import Results, Store
from lcpool.sweep.engine import EngineError
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


def counted(done) -> list[float]:
    """The last line of ``--dry-run``: jobs, trainings and missing runs."""
    return numbers(done.stdout.splitlines()[-1])


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_tu(tmp_path)


def test_from_nothing_to_a_table(bench: Callable, dataset: Path):
    """Train, ask again, look, train a row again, export; fresh splits are the default."""
    done = bench("-d", dataset, *SMALL, "--split", "both", "--workers", 2)
    assert done.exit_code == 0, done.stderr
    assert naming(done.stderr, "RINGS", "hierarchical", "gcn", "nopool", "shared+fresh")
    *_, complete, then = done.stderr.splitlines()
    assert "bench.sqlite" in complete
    assert numbers(complete)[:3] == [2, 2, 8]  # jobs that are complete, all jobs, new runs
    assert then.split()[-2:] == ["report", "bench.sqlite"]
    again = bench("-d", dataset, *SMALL, "--split", "both")
    assert numbers(naming(again.stderr, "bench.sqlite")[0])[:3] == [2, 2, 0]
    seen = bench("-d", dataset, *SMALL, "--runs", 3, "--dry-run")
    assert counted(seen) == [2, 6, 2]
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
    Path("moody.py").write_text(OWN.format("assert x.size(0) == 4, 'four'"))
    done = bench("-d", dataset, *SHORT, "--pools", "nopool,moody:Pool", "--workers", 1)
    assert done.exit_code == 1
    *_, aside, complete, failed, report = done.stderr.splitlines()
    job = ("RINGS", "hierarchical", "gcn", "moody:Pool", "fresh")
    assert all(name in aside for name in (*job, "moody.py:6:", "AssertionError", "four"))
    assert report.split()[-2:] == ["report", "bench.sqlite"]
    assert numbers(complete)[:2] == [1, 2]
    assert numbers(failed) == [1]
    exported = bench("export", "bench.sqlite", "fresh.csv", "--split", "fresh")
    assert numbers(exported.output) == [2, 1]
    results = Results.read("fresh.csv")
    assert [failure.names[-1] for failure in results.failures] == ["moody:Pool"]
    assert "AssertionError" in results.failures[0].reason
    assert set(results.runs["pool"]) == {"nopool"}


@pytest.mark.parametrize("deed", ["os._exit(0)", "os.abort()"])
def test_a_pooling_that_ends_python_is_named(bench: Callable, dataset: Path, deed: str):
    Path("deadly.py").write_text(OWN.format(f"import os; {deed}"))
    done = bench("-d", dataset, *SHORT, "--pools", "deadly:Pool", "--workers", 1)
    assert done.exit_code == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "deadly:Pool" in line
    assert not Path("bench.sqlite").exists()


def test_a_pooling_that_never_comes_back_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(own, "TRY_SECONDS", 0.1)
    with pytest.raises(ValueError, match="poolings:Hangs"):
        own.try_out(own.check_own_class, "sweep.poolings:Hangs", Architecture(hidden=8))


def test_what_a_pooling_prints_when_it_is_tried_is_no_result(capfd: pytest.CaptureFixture[str]):
    own.try_out(own.check_own_class, "sweep.poolings:Talks", Architecture(hidden=8))
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
    damaged, whole = done.stdout.splitlines()
    assert all(name in damaged.split() for name in ("builtin", "hierarchical", "gcn", "nopool"))
    assert damaged.split()[-3:-1] == ["shared", "1"]  # and the cell
    assert numbers(whole) == [1, 2]
    assert path.read_bytes() == before


def test_a_store_that_is_gone_is_no_success(capsys: pytest.CaptureFixture[str]):
    class Removes(Silent):
        def show(self, sweep):
            Path("a.sqlite").unlink(missing_ok=True)

    outcome = sweep(Path("a.sqlite"), small_jobs(["nopool"], epochs=1), view=Removes())
    assert conclude(outcome, Path("a.sqlite")) == 1
    assert str(Path("a.rescued.sqlite").absolute()) in capsys.readouterr().err


def test_all_poolings_and_both_splits(bench: Callable):
    done = bench("--pool", "all", "--split", "both", "--runs", 2, "--dry-run")
    assert counted(done) == [15, 60, 60]
    assert counted(bench("--split", "both", "--runs", 2, "--dry-run")) == [8, 32, 32]
    text = " ".join(bench("--help").stdout.split())
    assert "--pool all" in text
    assert "--split both" in text


def test_a_time_limit(bench: Callable, dataset: Path):
    options = ("-d", dataset, "--epochs", 100_000, "--patience", 100_000, "--pools", "nopool")
    options += ("--workers", 1, "--runs", 2, "--hidden", 8, "--device", "cpu")
    done = bench(*options, "--time-limit", "5s")
    assert done.exit_code == 3, done.stderr
    assert numbers(done.stderr.splitlines()[-1]) == [1]


def test_the_paper(bench: Callable, monkeypatch: pytest.MonkeyPatch):
    from lcpool.sweep.grid import Dataset

    monkeypatch.setattr(Dataset, "of", lambda source, root, task: Dataset(source, source, ""))
    done = bench("--paper", "--dry-run")
    assert counted(done) == [96, 1920, 1920]
    shared = set(done.stdout.splitlines()[0].split(", "))
    assert shared >= {"backbone hierarchical+plain", "split shared", "runs 20"}
    done = bench("--paper", "--dry-run", "--split", "both", "--runs", 2, "--pools", "lcpool-star")
    assert counted(done) == [12, 96, 96]


def test_merge(bench: Callable):
    sweep(Path("one.sqlite"), small_jobs(["nopool"], epochs=1))
    sweep(Path("two.sqlite"), small_jobs(["topkpool"], epochs=1))
    done = bench("merge", "all.sqlite", "one.sqlite", "two.sqlite")
    assert done.exit_code == 0
    (two,) = naming(done.stdout, "two.sqlite")
    assert numbers(two) == [2, 0, 0]  # added, there before, conflicts
    change(Path("one.sqlite"), run=1, epochs=9)
    done = bench("merge", "all.sqlite", "one.sqlite")
    assert done.exit_code == 1
    one, conflict = done.stdout.splitlines()
    assert numbers(one) == [0, 1, 1]
    names = ("builtin", "hierarchical", "gcn", "nopool", "shared", "epochs")
    assert all(name in conflict for name in names)
    assert numbers(conflict) == [1]


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
        raise EngineError("node-7")

    monkeypatch.setattr(Sweep, "run", fall)
    done = bench(*SMALL, "--workers", 1)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert "node-7" in line


def test_a_dataset_in_the_place_of_a_command_is_told_where_it_goes(bench: Callable):
    done = bench("COX2")
    assert done.exit_code == 2
    assert "-d COX2" in " ".join(done.stderr.replace("│", " ").split())


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
    assert counted(done) == [24, 480, 480], done.output
    Path("grid.toml").write_text("pools = ['lcpool', 'sagpool']\nratio = [0.1, 0.2]\nruns = 2\n")
    assert counted(bench("--file", "grid.toml", "--dry-run")) == [4, 8, 8]
    done = bench("--file", "grid.toml", "--dry-run", "--pool", "nopool", "--ratio", 0.5)
    assert counted(done) == [1, 2, 2]


def test_a_file_of_grids(bench: Callable):
    Path("grid.toml").write_text(
        'datasets = "builtin"\npools = ["lcpool"]\nruns = 2\n[[grid]]\nratio = 0.25\n[[grid]]\n'
    )
    done = bench("--file", "grid.toml", "--dry-run")
    assert counted(done) == [2, 4, 4]
    assert done.stdout.count("ratio=0.25") == 1  # what tells the rows apart
    assert counted(bench("--file", "grid.toml", "--dry-run", "--runs", 3)) == [2, 6, 6]


def test_what_all_jobs_share_is_said_once(bench: Callable, monkeypatch: pytest.MonkeyPatch):
    """By names that a file of grids understands, and in 80 columns without a broken word."""
    monkeypatch.setenv("COLUMNS", "80")
    Path("grid.toml").write_text(
        "pools = ['lcpool', 'mincutpool']\nbackbones = 'plain'\nconvs = ['gcn', 'graphconv']\n"
        "hidden = 8\nepochs = 2\n[[grid]]\nratio = 0.25\nself_loops = false\n[[grid]]\n"
    )
    first, *rows = bench("--file", "grid.toml", "--dry-run").stdout.splitlines()
    names = {"dataset builtin", "backbone plain", "split fresh", "runs 10"}
    assert set(first.rstrip().split(", ")) == {*names, "hidden=8", "epochs=2"}
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
