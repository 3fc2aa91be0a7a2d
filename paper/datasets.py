"""The paper's table of datasets."""

from __future__ import annotations

import csv
import functools
from pathlib import Path


@functools.cache
def paper_datasets() -> dict[str, dict[str, float]]:
    """The paper's figures by dataset and quantity, in its order."""
    text = Path(__file__).with_name("datasets.csv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    return {row.pop("dataset"): {key: float(row[key]) for key in row} for row in rows}
