"""The examples of "Your own graphs" in docs/experiments.md run as they stand there."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text("utf-8")
SECTION = PAGE.split("\n## Your own graphs\n")[1].split("\n## ")[0]


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("my_folder").mkdir()
    files = dict(re.findall(r"`(\w+\.csv)`:\n\n```csv\n(.*?)```", SECTION, re.DOTALL))
    assert sorted(files) == ["edges.csv", "graphs.csv", "nodes.csv"]
    for name, text in files.items():
        (tmp_path / "my_folder" / name).write_text(text)
    blocks = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    assert len(blocks) == 3
    names: dict = {}
    for block in blocks:
        exec(block, names)
    shapes, _, _ = printed = capsys.readouterr().out.strip().split("\n", 2)
    # What the comments say is printed is printed.
    comments = re.findall(r"print\(.*?\)  # (.*)", "".join(blocks))
    assert shapes == comments[0]
    assert printed[1] == comments[1]
    assert names["graphs"].name == "MOLECULES"
    assert names["graphs"].x[0].tolist() == pytest.approx([0, 1, -0.8])


def test_the_page_is_what_the_command_line_reads(tmp_path: Path):
    from typer.testing import CliRunner

    from lcpool.cli.app import app

    for name, text in re.findall(r"`(\w+\.csv)`:\n\n```csv\n(.*?)```", SECTION, re.DOTALL):
        (tmp_path / name).write_text(text)
    result = CliRunner().invoke(app, ["data", "check", str(tmp_path)])
    assert result.exit_code == 0
    assert (
        "2 graphs, 2 classes, 2.50 nodes and 1.50 edges per graph, 3 node features" in result.stdout
    )
