"""Results have the day on which git got them."""

import subprocess

import pandas as pd

from paper import dates


def commit(folder, day):
    for command in (["add", "-A"], ["commit", "-qm", day, f"--date={day}T12:00:00"]):
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *identity, *command], cwd=folder, check=True)


def test_the_day_is_that_of_the_last_change_and_moving_is_none(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    first, second = tmp_path / "one", tmp_path / "two"
    first.mkdir()
    (first / "runs.csv").write_text("dataset\n" + "MUTAG\n" * 50)
    (tmp_path / "costs.csv").write_text("old\n")
    commit(tmp_path, "2026-01-02")
    (tmp_path / "costs.csv").write_text("new, and of another length\n")
    commit(tmp_path, "2026-01-03")
    first.rename(second)
    commit(tmp_path, "2026-01-04")
    written = pd.read_csv(dates.write(tmp_path)).set_index("file")["date"].to_dict()
    assert written == {"costs.csv": "2026-01-03", "two/runs.csv": "2026-01-02"}
    assert dates.measured(tmp_path, ["costs.csv"]) == "2026-01-03"
    assert dates.measured(tmp_path, [*written, "none.csv"]) == "2026-01-02 to 2026-01-03"


def test_results_without_days_have_none(tmp_path):
    assert dates.measured(tmp_path, ["costs.csv"]) == ""
