"""HTML forms of objects in notebooks: a title, facts, and a table.

Every text is escaped. There are no colours: the notebook's own, light or dark, are inherited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

# Rows of a table beyond these are counted, not shown.
MOST_ROWS = 20
_CELL = (
    "padding: 0.1em 0.8em 0.1em 0; background: none; border: none; vertical-align: top; "
    "text-align: "
)


def card(
    title: str,
    facts: Mapping[str, object],
    columns: Iterable[str] = (),
    rows: Iterable[Iterable[object]] = (),
) -> str:
    """A small piece of HTML: the title, a line per fact, and a table below.

    >>> card("A & B", {"nodes": 3}).count("A &amp; B")
    1
    """
    head, lines = list(columns), [list(row) for row in rows]
    shown = [_row("td", ("left", "left"), (name, fact)) for name, fact in facts.items()]
    parts = [f"<strong>{escape(title)}</strong>", _table(shown)]
    if lines:
        sides = ("left", *["right"] * (len(head) - 1))
        body = [_row("td", sides, row) for row in lines[:MOST_ROWS]]
        parts.append(_table([_row("th", sides, head), *body]))
    if len(lines) > MOST_ROWS:
        parts.append(f"<em>and {len(lines) - MOST_ROWS} more</em>")
    return f'<div style="line-height: 1.4">{"".join(parts)}</div>'


def _table(rows: list[str]) -> str:
    style = "margin: 0.4em 0; border: none; border-collapse: collapse"
    return f'<table style="{style}">{"".join(rows)}</table>'


def _row(cell: str, sides: Iterable[str], values: Iterable[object]) -> str:
    made = (
        f'<{cell} style="{_CELL}{side}">{escape(str(value))}</{cell}>'
        for side, value in zip(sides, values, strict=True)
    )
    return f"<tr>{''.join(made)}</tr>"
