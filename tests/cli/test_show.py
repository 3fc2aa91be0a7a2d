"""``lcpool show``: the page it writes, and what it refuses."""

import webbrowser
from pathlib import Path

import pytest
from targets import with_values
from typer.testing import CliRunner
from untrained import untrained

from lcpool.cli.app import app
from lcpool.data import builtin


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model.pt"
    untrained(builtin()).save(path)
    return path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: found.append(url) or True)
    return found


def run(*words: object):
    return CliRunner().invoke(app, ["show", *map(str, words), "--device", "cpu"])


def test_a_page_is_written_and_opened(saved: Path, tmp_path: Path, opened: list[str]):
    out = tmp_path / "new folder" / "page.html"
    done = run("builtin", "--model", saved, "--out", out)
    assert done.exit_code == 0, done.output
    assert opened == [out.as_uri()]
    assert out.read_text("utf-8").startswith("<!doctype html>")
    assert run("builtin", "--model", saved, "--out", out, "--no-open").exit_code == 0
    assert len(opened) == 1


def test_a_model_without_pooling_says_so(tmp_path: Path, opened: list[str]):
    untrained(builtin(), "nopool").save(tmp_path / "model.pt")
    done = run("builtin", "--model", tmp_path / "model.pt", "--out", tmp_path / "page.html")
    assert done.exit_code == 0
    assert "does not pool" in done.stderr


def test_what_does_not_fit_is_named_in_one_line(saved: Path, tmp_path: Path, opened: list[str]):
    untrained(with_values()).save(tmp_path / "other.pt")
    wrong = (
        ("builtin", "--model", tmp_path / "other.pt"),  # other features
        ("builtin", "--model", tmp_path / "no.pt"),
        ("no-such/data", "--model", saved),
        ("builtin", "--model", saved, "--out", tmp_path),
    )
    for words in wrong:
        page = () if "--out" in words else ("--out", tmp_path / "page.html")
        done = run(*words, *page)
        assert done.exit_code == 2, words
        assert len(done.stderr.strip().splitlines()) == 1
    assert opened == []
    assert not (tmp_path / "page.html").exists()
