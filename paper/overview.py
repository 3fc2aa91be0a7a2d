"""The audit at a glance: what each pooling gains over none, what it costs, what stays connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from lcpool.report.comparison import Comparison
from lcpool.report.page import template_file
from lcpool.report.plots import COLOURS, Scale, bottom_axis, diamond, picture, room, short, tag
from lcpool.report.words import signed
from paper.choosing import BASE, COSTS, Range, leads, relative, stay_connected
from paper.published import published_beside

ROW, TOP, GAP = 24.0, 26.0, 22.0
WIDE, NARROW = 240.0, 92.0


class Column(NamedTuple):
    """One of the panels side by side.

    Attributes:
        title: what it shows, above.
        unit: below its axis.
        x: from values to places.
        marks: what stands in a pooling's row at a height; nothing where it is unknown.
    """

    title: str
    unit: str
    x: Scale
    marks: Callable[[str, float], list[Markup]]


def overview(
    c: Comparison, costs: pd.DataFrame | None, structure: pd.DataFrame | None
) -> str | None:
    """A row for each pooling, the most accurate first; None without a base to compare with.

    Args:
        c: the poolings.
        costs: of an epoch, by dataset and pooling, if they were measured.
        structure: of graphs before and after pooling, if it was measured.
    """
    lead = leads(c)
    if not lead:
        return None
    pools = sorted(lead, key=lambda pool: -lead[pool][1].mean)
    left = room(pools) + 16
    columns = [_accuracy(c, left)]
    for column, word in {} if costs is None else COSTS.items():
        columns += _relative(word.capitalize(), relative(costs, column), pools, columns[-1])
    if structure is not None:
        x = Scale(0, 100, *_beside(columns[-1]))
        columns.append(
            Column("Connected graphs", "% stay so", x, _dots(stay_connected(structure), x))
        )
    bottom = TOP + ROW * len(pools)
    parts = [part for column in columns for part in _frame(column, bottom)]
    for i, pool in enumerate(pools):
        y = TOP + ROW * (i + 0.5)
        name = tag("text", short(pool), x=left - 8, y=y + 4, class_="end")
        marks = (mark for column in columns for mark in column.marks(pool, y))
        parts.append(tag("g", name, *marks, class_=f"p{c.pools.index(pool) % COLOURS}"))
    width = columns[-1].x.end + 14
    label = f"Accuracy − {BASE}: " + ", ".join(f"{p} {signed(lead[p][1].mean)}" for p in pools)
    return _alone(width, bottom + 34, label, *parts, style=template_file("page.css"))


def _beside(last: Column) -> tuple[float, float]:
    """Where the column after it begins and ends."""
    return last.x.end + GAP, last.x.end + GAP + NARROW


def _relative(title: str, times: dict[str, Range], pools: list[str], last: Column) -> list[Column]:
    """How many times the base's cost; nothing where none is known."""
    known = [times[pool].mean for pool in pools if pool in times]
    if not known:
        return []
    x = Scale.over([1.0, *known], *_beside(last), log=True)
    return [Column(title, f"× {BASE}", x, _dots(times, x))]


def _frame(column: Column, bottom: float) -> list[Markup]:
    title = tag("text", column.title, x=column.x.start, y=14.0)
    return [title, bottom_axis(column.x, TOP, bottom, column.unit)]


def _accuracy(c: Comparison, left: float) -> Column:
    """A small dot a dataset; above, the mean with its interval, a diamond for the paper's mean."""
    lead, paper = leads(c), _published(c)
    shown = [value for values, _ in lead.values() for value in values]
    shown += [end for _, over in lead.values() for end in (over.low, over.high)]
    x = Scale.over([v for v in (0.0, *shown, *paper.values()) if np.isfinite(v)], left, left + WIDE)

    def marks(pool: str, y: float) -> list[Markup]:
        values, over = lead[pool]
        above, below = y - 4, y + 5
        found = [tag("line", x1=x(0.0), x2=x(0.0), y1=y - ROW / 2, y2=y + ROW / 2, class_="axis")]
        found += [tag("circle", cx=x(v), cy=below, r=2.0, class_="run") for v in values]
        if np.isfinite(over.low):
            ends = {"x1": x(over.low), "x2": x(over.high)}
            found.append(tag("line", **ends, y1=above, y2=above, class_="bar"))
        found.append(tag("circle", cx=x(over.mean), cy=above, r=3.6, class_="mean"))
        if pool in paper:
            found.append(diamond(x(paper[pool]), above))
        return found

    return Column("Accuracy", f"points above {BASE}", x, marks)


def _published(c: Comparison) -> dict[str, float]:
    """The paper's leads over the base, group by group and then by dataset, as ours are taken."""
    means = published_beside(c)
    if means is None:
        return {}
    base = means[:, [c.pools.index(BASE)]]
    mean = np.nanmean(c.blocks(means - base), axis=0)
    return {pool: float(value) for pool, value in zip(c.pools, mean, strict=True)}


def _dots(values: dict[str, Range], x: Scale) -> Callable[[str, float], list[Markup]]:
    """One dot a pooling, where its value is known."""

    def marks(pool: str, y: float) -> list[Markup]:
        known = [values[pool].mean] if pool in values else []
        return [tag("circle", cx=x(value), cy=y, r=4.0, class_="mean") for value in known]

    return marks


def _alone(width: float, height: float, label: str, *children: str, style: str) -> str:
    """An image as a file of its own, with the style sheet that a page would lend it."""
    css = f"width: {2 * width:.0f}px; background: var(--ground); font-family: system-ui, sans-serif"
    sheet = tag("style", Markup(style))
    named = {"xmlns": "http://www.w3.org/2000/svg", "style": css}
    return f"{picture(width, height, label, sheet, *children, **named)}\n"
