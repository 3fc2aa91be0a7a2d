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
    return _replaced(table, re.compile(rf"(?='*{_FORMULA})"), "'")


def unprotected(table: pd.DataFrame) -> pd.DataFrame:
    """The texts of a table before :func:`protected`."""
    return _replaced(table, re.compile(rf"'(?='*{_FORMULA})"), "")


def _replaced(table: pd.DataFrame, pattern: re.Pattern[str], by: str) -> pd.DataFrame:
    """With what a text begins with replaced, in all columns of texts."""

    def replace(value: object) -> object:
        if isinstance(value, str) and (found := pattern.match(value)):
            return by + value[found.end() :]
        return value

    texts = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    return table.assign(**{name: table[name].map(replace) for name in texts})
