"""Names in CSV files that a spreadsheet must not take for formulas."""

from __future__ import annotations

import re

import pandas as pd

# At the beginning of a cell, spreadsheets take these for a formula, full-width ones included.
_FORMULA = r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"


def protected(table: pd.DataFrame) -> pd.DataFrame:
    """The table with ``'`` before every text that a spreadsheet would take for a formula.

    Numbers stay numbers. :func:`unprotected` gives the texts back.

    >>> protected(pd.DataFrame({"pool": ["=1+1", "lcpool"], "difference": [-1.5, 2.0]}))
         pool  difference
    0   '=1+1        -1.5
    1  lcpool         2.0
    """
    return _replaced(table, rf"\A(?='*{_FORMULA})", "'")


def unprotected(table: pd.DataFrame) -> pd.DataFrame:
    """The texts of a table before :func:`protected`."""
    return _replaced(table, rf"\A'(?='*{_FORMULA})", "")


def _replaced(table: pd.DataFrame, pattern: str, by: str) -> pd.DataFrame:
    """With what a text begins with replaced, in all columns of texts."""

    def replace(value: object) -> object:
        return re.sub(pattern, by, value) if isinstance(value, str) else value

    return table.assign(**table.select_dtypes(exclude="number").map(replace))
