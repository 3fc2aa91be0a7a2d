"""``--split`` and ``--splits-file`` on the command line."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from sweep.sweeping import write_tu
from typer.testing import CliRunner

from lcpool.cli.app import app
from lcpool.data import Split, builtin, load

SMALL = ("--hidden", 8, "--epochs", 2, "--device", "cpu")
SPLITS = [
    {"train": list(range(40)), "val": [40, 41, 42], "test": list(range(43, 60))},
    {"train": list(range(20, 60)), "valid": [0, 1, 2], "test": list(range(3, 20))},
]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LCPOOL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def lcpool() -> Callable:
    return lambda *arguments: CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_tu(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "splits.json"
    path.write_text(json.dumps(SPLITS))
    return path


def test_train_by_folds(lcpool: Callable, dataset: Path):
    done = lcpool("train", dataset, "-p", "nopool", "--split", "7-fold", "--runs", 7, *SMALL)
    assert done.exit_code == 0, done.stderr
    assert "8 to 9" in done.stdout  # test graphs
    assert "7-fold split" in done.stdout
    refused = lcpool("train", dataset, "-p", "nopool", "--split", "7-fold", *SMALL)
    assert refused.exit_code != 0
    assert "repeated-7-fold" in refused.stderr


def test_train_on_the_splits_of_a_file(lcpool: Callable, dataset: Path, file: Path):
    command = ("train", dataset, "-p", "nopool", "--splits-file", file, "--runs", 2, *SMALL)
    done = lcpool(*command, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["settings"]["split"].startswith("predefined-2-")
    assert [run["num_test"] for run in found["runs"]] == [17, 17]
    assert "leave one of them out" in lcpool(*command, "--split", "shared").stderr
    file.write_text("[]")
    assert "splits.json" in lcpool(*command).stderr


@pytest.mark.slow
def test_bench_by_folds_and_on_the_splits_of_a_file(lcpool: Callable, dataset: Path, file: Path):
    common = ("bench", "-d", dataset, "--pools", "nopool,topkpool", "--workers", 1, *SMALL)
    done = lcpool(*common, "--split", "5-fold,stratified", "--runs", 5)
    assert "20 runs now" in done.stderr
    done = lcpool(*common, "--splits-file", file, "--runs", 2)
    assert "4 runs now" in done.stderr
    lcpool("bench", "export", "bench.sqlite", "all.csv")
    lcpool("bench", "export", "bench.sqlite", "own.csv", "--split", "predefined")
    runs, own = pd.read_csv("all.csv"), pd.read_csv("own.csv")
    assert runs["split"].str.split("-").str[0].value_counts().to_dict() == {
        "5": 10, "stratified": 10, "predefined": 4}  # fmt: skip
    assert len(own) == 4
    tested = runs[runs["split"] == "5-fold"].groupby("pool")["num_test"].sum()
    assert tested.tolist() == [60, 60]
    again = lcpool("bench", "--replay", "nopool/predefined-2-ff/0")
    assert "no run" in again.stderr
    name = "nopool/predefined/1"
    assert "came without splits" in lcpool("bench", "--replay", name, "--device", "cpu").stderr
    again = lcpool("bench", "--replay", name, "--device", "cpu", "--splits-file", file)
    assert "the same, curves too" in again.stdout, again.stderr
    report = lcpool("report", "bench.sqlite", "--split", "5-fold")
    assert "5-fold" in report.stdout, report.stderr


def test_a_file_of_splits_is_of_one_dataset(lcpool: Callable, file: Path):
    for more in ((), ("-d", "builtin,MUTAG"), ("--paper",)):
        assert "one dataset" in lcpool("bench", "--splits-file", file, *more).stderr


def test_all_splits_are_all(lcpool: Callable):
    done = lcpool("bench", "-p", "nopool", "--split", "all", "--runs", 2, "--dry-run")
    assert "came without splits" in done.stderr


def test_check_shows_the_splits_of_the_data(lcpool: Callable, monkeypatch: pytest.MonkeyPatch):
    parts = (torch.arange(40), torch.arange(40, 43), torch.arange(43, 60))
    graphs = replace(builtin(num_graphs=60), splits=(Split(*parts),))
    monkeypatch.setitem(load.BUILTIN, "builtin", lambda: graphs)
    assert "40/3/17" in lcpool("data", "check", "builtin").stdout
