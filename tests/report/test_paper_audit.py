"""The committed audit is what ``make audit`` makes of ``results``."""

from pathlib import Path

from typer.testing import CliRunner

from lcpool.cli.app import app

ROOT = Path(__file__).parents[2]


def test_the_audit_is_made_of_the_results(tmp_path: Path):
    arguments = ["audit", str(ROOT / "results"), "--out", str(tmp_path / "paper-audit.md")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    there = {path.name: path.read_bytes() for path in (ROOT / "docs").glob("paper-audit.*")}
    assert made.keys() == there.keys()
    assert [name for name in made if made[name] != there[name]] == [], "run 'make audit'"
