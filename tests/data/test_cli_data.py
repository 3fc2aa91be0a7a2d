from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lcpool.cli.app import app
from lcpool.data import DatasetError, download


@pytest.fixture
def lcpool(monkeypatch: pytest.MonkeyPatch) -> Callable:
    monkeypatch.setenv("COLUMNS", "300")
    return lambda *arguments: CliRunner().invoke(app, ["data", *map(str, arguments)])


def test_list_says_what_is_here_and_what_is_not(lcpool: Callable, zip_tu: Callable, tmp_path: Path):
    path = zip_tu("MUTAG")
    result = lcpool("list", "--root", tmp_path)
    assert result.exit_code == 0
    rows = {line.split("│")[1].strip(): line for line in result.stdout.splitlines() if "│" in line}
    assert set(rows) == {
        "PROTEINS",
        "ENZYMES",
        "Mutagenicity",
        "DD",
        "NCI1",
        "COX2",
        "MUTAG",
        "builtin",
    }
    assert str(path) in rows["MUTAG"]
    assert "yes" in rows["DD"]
    assert "not here: lcpool data get DD" in rows["DD"]


def test_get_downloads_what_is_missing(
    lcpool: Callable, zip_tu: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fetch(name: str, folder: Path) -> Path:
        if name != "TOY":
            raise DatasetError(f"{name}: TU has no dataset of that name.")
        return zip_tu(folder=folder)

    monkeypatch.setattr(download, "download", fetch)
    result = lcpool("get", "TOY", "builtin", "--root", tmp_path / "root")
    assert result.exit_code == 0
    assert f"TOY: {tmp_path / 'root' / 'TOY.zip'}" in result.stdout
    assert "BUILTIN: needs no file" in lcpool("get", "BUILTIN").stdout
    result = lcpool("get", "NOPE", "TOY", "--root", tmp_path / "root")
    assert result.exit_code == 1
    assert "TU has no dataset" in result.stderr
    assert "TOY.zip" in result.stdout


@pytest.mark.slow
def test_check_agrees_on_the_papers_sets(lcpool: Callable, real: Callable):
    root = real("DD").parent
    result = lcpool("check", "--root", root)
    assert result.exit_code == 0
    assert result.stdout.count("284.32") == 2


def test_check_fails_for_a_set_that_is_missing_or_differs(
    lcpool: Callable, zip_tu: Callable, tmp_path: Path
):
    zip_tu("DD")
    result = lcpool("check", "DD", "--root", tmp_path)
    assert result.exit_code == 1
    assert "284.32" in result.stdout
    assert "3.50" in result.stdout
    result = lcpool("check", "NCI1", "--root", tmp_path)
    assert result.exit_code == 1
    assert "NCI1: not here; lcpool data get NCI1" in result.stderr


def test_check_shows_a_set_that_is_not_in_the_paper(lcpool: Callable, write_tu: Callable):
    result = lcpool("check", write_tu(), "builtin")
    assert result.exit_code == 0
    assert "3.50" in result.stdout


def test_check_tells_where_a_broken_set_is_broken(lcpool: Callable, write_tu: Callable):
    result = lcpool("check", write_tu(A="1, 2\n1, x\n"))
    assert result.exit_code == 1
    assert "TOY_A.txt, line 2: 'x' is not an integer" in result.stderr
