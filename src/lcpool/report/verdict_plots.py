"""The verdicts as pictures: a bar and a forest plot per rival, and accuracy against time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup

from lcpool.report.cells import GROUP
from lcpool.report.hierarchical import Regions
from lcpool.report.plots import (
    WIDTH,
    Panel,
    Scale,
    axes,
    bottom_axis,
    colours,
    diamond,
    picture,
    room,
    short,
    tag,
)
from lcpool.words import signed

if TYPE_CHECKING:
    from lcpool.report.api import Report

TRADE_OFF = (360.0, 240.0)  # width and height
CHARACTER = 6.0  # how wide one is in a label


class Forest(NamedTuple):
    """One rival: its name, a text for screen readers, the height, and what is drawn."""

    pool: str
    label: str
    height: float
    parts: list[Markup]


def forest(report: Report) -> list[Panel]:
    """Each rival's verdict as a bar, the posterior of the difference, and the datasets by name."""
    return [
        Panel({"pool": one.pool}, picture(WIDTH, one.height, one.label, *one.parts))
        for one in forests(report)
    ]


def forests(report: Report) -> list[Forest]:
    """The same before it is a picture.

    All have one scale. A dot is a dataset's mean difference, its line the 95 % interval that the
    model gives it; the shaded band is the margin of equality.
    """
    v, colour, average = report.verdicts, colours(report), "average dataset"
    if not v.rivals:
        return []
    tables = [rival.datasets.sort_values("difference") for rival in v.rivals]
    ends = [end for rival in v.rivals for end in (rival.low, rival.high) if np.isfinite(end)]
    every = [float(d) for table in tables for d in table["difference"]]
    names = [average, *(name for table in tables for name in table["dataset"])]
    x = Scale.over([*ends, *every, -v.margin, v.margin], room(names), WIDTH - 8)
    found = []
    for rival, table in zip(v.rivals, tables, strict=True):
        pool, rows = rival.pool, table.to_dict("records")
        if len(rows) > 1:
            rows.append({"dataset": average, "low": rival.low, "high": rival.high})
        bottom = 40.0 + 15 * len(rows)
        band = tag("rect", x=x(-v.margin), y=34.0, width=x(v.margin) - x(-v.margin),
                   height=bottom - 34, class_="margin")  # fmt: skip
        zero = tag("line", x1=x(0), x2=x(0), y1=34.0, y2=bottom, class_="axis")
        marks = [
            _forest_row(row, rival.mean, x, 44.0 + 15 * i, report.measure.points)
            for i, row in enumerate(rows)
        ]
        title = f"{short(v.reference)} − {short(pool)}, {report.measure.points}"
        label = f"{v.reference} against {pool}: {bar_in_words(rival.regions)}"
        drawn = [band, bottom_axis(x, 34, bottom, title), zero, *_bar(rival.regions)]
        drawn.append(tag("g", *marks, class_=colour[pool]))
        found.append(Forest(pool, label, bottom + 30, drawn))
    return found


def _forest_row(row: dict[str, Any], mean: float, x: Scale, y: float, unit: str) -> Markup:
    """A dataset, or the average one."""
    low, high = (np.clip(row[end], x.low, x.high) for end in ("low", "high"))
    marks = [tag("text", short(row["dataset"]), x=x.start - 6, y=y + 4, class_="end label")]
    average = "difference" not in row
    if np.isfinite(low):
        marks.append(tag("line", x1=x(low), x2=x(high), y1=y, y2=y,
                         class_="posterior" if average else "estimate"))  # fmt: skip
    at = x(mean if average else row["difference"])
    marks.append(diamond(at, y, "mean") if average
                 else tag("circle", cx=at, cy=y, r=3.0, class_="mean"))  # fmt: skip
    tip = f"{row['dataset']}: {signed(mean if average else row['difference'])} {unit}"
    if np.isfinite(row["low"]):
        tip += f", 95 % interval {signed(row['low'])} to {signed(row['high'])}"
    marks.append(tag("rect", x=0.0, y=y - 7.5, width=WIDTH, height=15.0, class_="touch"))
    return tag("g", *marks, data_tip=tip)


def _bar(regions: Regions) -> list[Markup]:
    """Worse, equal and better as parts of one bar, with their percentages."""
    if not np.isfinite(regions.equal):
        return [tag("text", "no verdict", x=0.0, y=14.0, class_="tick")]
    parts, at = [], 0.0
    for name, probability in regions._asdict().items():
        width = probability * WIDTH
        parts.append(tag("rect", x=at, y=2.0, width=width, height=16.0, class_=f"bar-{name}"))
        if width > 62:
            text = f"{name} {100 * probability:.0f} %"
            parts.append(tag("text", text, x=at + width / 2, y=14.0, class_=f"middle in-{name}"))
        at += width
    return [tag("g", *parts, data_tip=bar_in_words(regions))]


def bar_in_words(regions: Regions) -> str:
    """The three probabilities."""
    if not np.isfinite(regions.equal):
        return "no verdict"
    return ", ".join(f"{name} {100 * p:.1f} %" for name, p in regions._asdict().items())


def pareto(report: Report) -> Markup | None:
    """Accuracy against time: each pooling beside the reference; None where times are not known.

    Time is the geometric mean over groups of the ratio to the reference's.
    """
    v = report.verdicts
    seconds = report.cells[report.cells["seconds"] > 0].pivot_table("seconds", GROUP, "pool")
    if v.reference not in seconds or not v.rivals:
        return None
    ratio = np.exp(np.log(seconds.div(seconds[v.reference], axis=0)).mean())
    places = {
        r.pool: (float(ratio[r.pool]), -r.mean, -r.high, -r.low)
        for r in v.rivals if np.isfinite(ratio.get(r.pool, np.nan))
    }  # fmt: skip
    title = f"{report.measure.title} − {v.reference}'s, {report.measure.points}"
    parts = trade_off(places, v.reference, colours(report), title, {})
    return picture(*TRADE_OFF, f"{title}, against time", *parts)


def trade_off(
    places: Mapping[str, tuple[float, float, float, float]],
    reference: str,
    colour: Mapping[str, str],
    title: str,
    notes: Mapping[str, str],
    cost: str = "time of a run",
    size: tuple[float, float] = TRADE_OFF,
    joined: bool = True,
) -> list[Markup]:
    """Poolings by cost, in multiples of the reference's, and difference with its interval.

    Those that no other beats in both are ``joined``. ``notes`` stand beside the names.
    """
    every = {reference: (1.0, 0.0, math.nan, math.nan), **places}
    width, height = size
    ends = [end for _, *of in every.values() for end in of if np.isfinite(end)]
    x = Scale.over([times for times, *_ in every.values()], 34, width - 80, log=True)
    y = Scale.over(ends, height - 34, 22)
    points = {pool: (x(times), y(mean)) for pool, (times, mean, *_) in every.items()}
    names = {pool: " ".join([short(pool), notes.get(pool, "")]).rstrip() for pool in every}
    heights = apart(points, wide=CHARACTER * max(map(len, names.values())))
    behind = axes(x, y, f"{cost} / {short(reference)}'s", title, above=12.0)
    if joined:
        front = not_beaten({pool: (times, mean) for pool, (times, mean, *_) in every.items()})
        line = " ".join("{:.1f},{:.1f}".format(*points[pool]) for pool in front)
        behind.append(tag("polyline", points=line, class_="front"))
    labels, marks = [], []
    for pool, (times, mean, low, high) in every.items():
        (at, up), own = points[pool], {"class_": colour.get(pool), "data_pool": pool}
        if np.isfinite(low):
            ends_of = {"x1": at, "x2": at, "y1": y(low), "y2": y(high)}
            behind.append(tag("g", tag("line", **ends_of, class_="estimate"), **own))
        label = tag("text", names[pool], x=at + 7, y=heights[pool] + 4, class_="name")
        labels.append(tag("g", label, **own))
        note = f" {notes[pool]}" if pool in notes else ""
        tip = f"{pool}: {signed(mean)}, {times:.2f} × the {cost} of {reference}{note}"
        mark = tag("circle", cx=at, cy=up, r=4.5, class_="mean")
        marks.append(tag("g", mark, **own, data_tip=tip))
    return behind + labels + marks


def apart(
    places: Mapping[str, tuple[float, float]], line: float = 11.0, wide: float = 66.0
) -> dict[str, float]:
    """Heights of labels at these places, from above, moved down where they would overlap.

    They are at most so ``wide``.

    >>> apart({"a": (0.0, 5.0), "b": (10.0, 7.0), "c": (200.0, 8.0)})
    {'a': 5.0, 'b': 16.0, 'c': 8.0}
    """
    found: dict[str, float] = {}
    for name, (x, y) in sorted(places.items(), key=lambda item: item[1][1]):
        near = [found[other] for other in found if abs(places[other][0] - x) < wide]
        found[name] = max([y, *(height + line for height in near if y - height < line)])
    return {name: found[name] for name in places}


def not_beaten(places: Mapping[str, tuple[float, float]]) -> list[str]:
    """Of cost and value, those that no other beats in both, the cheapest first.

    >>> not_beaten({"a": (1.0, 0.0), "b": (2.0, 1.0), "c": (3.0, 0.5), "d": (1.0, -1.0)})
    ['a', 'b']
    """
    found: list[str] = []
    for name in sorted(places, key=lambda name: (places[name][0], -places[name][1])):
        if not found or places[name][1] > places[found[-1]][1]:
            found.append(name)
    return found
