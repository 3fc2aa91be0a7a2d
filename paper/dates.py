"""When the results came: ``python -m paper dates paper/results`` writes ``dates.csv`` from git.

Files of runs and of measurements have no date. The day on which git got their content has.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

FILE = "dates.csv"
MEASURED = ("costs.csv", "structure.csv", "*/runs*.csv")


def write(results: Path) -> Path:
    """Write the days of all files that were measured."""
    files = sorted(file for pattern in MEASURED for file in results.glob(pattern))
    names = [file.relative_to(results).as_posix() for file in files]
    days = pd.DataFrame({"file": names, "date": [_day(file) for file in files]})
    target = results / FILE
    days.to_csv(target, index=False, lineterminator="\n")
    return target


def measured(results: Path, files: Iterable[str]) -> str:
    """The days of some files: "2026-11-16", or the first and the last; "" where none is known."""
    if not (results / FILE).exists():
        return ""
    days = pd.read_csv(results / FILE).set_index("file")["date"].reindex(list(files)).dropna()
    return " to ".join(sorted({days.min(), days.max()})) if len(days) else ""


def _day(file: Path) -> str:
    """The day of the commit that last changed a file; moving it is no change."""
    command = ["git", "log", "-1", "--follow", "--diff-filter=AM", "--format=%as", "--", file.name]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=True)
    return done.stdout.strip()
