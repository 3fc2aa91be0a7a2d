"""The plots of the page, as SVG: all runs, ranks, learning curves, costs.

Colours and fonts come from the page's style sheet: plots follow light and dark, and print.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from lcpool.report.cells import CELL, GROUP
from lcpool.report.statistics import Array
from lcpool.words import duration, figure, memory

if TYPE_CHECKING:
    from lcpool.report.api import Report

# The style sheet has this many colours; further poolings begin again.
COLOURS = 10
POINTS = 80  # of a learning curve

# What a cell costs: the title of the axis, its unit, and the text of a value.
COSTS: dict[str, tuple[str, float, Callable[[float], str]]] = {
    "seconds": ("seconds per run", 1.0, duration),
    "peak_memory": ("memory of the runs trained as one, MiB", 2.0**20, memory),
}
# A circle, a square, a triangle and a diamond, for the backbones; as text and as a path.
SHAPES = (
    ("●", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"),
    ("■", "M-3.5-3.5h7v7h-7z"),
    ("▲", "M0-4.5l4.5 8h-9z"),
    ("◆", "M0-5l5 5l-5 5l-5-5z"),
)
AXIS = 180.0
# Of a picture, in its own units; the page scales it.
WIDTH = 300.0
LABEL = 22  # characters of a name in a picture, at most


class Panel(NamedTuple):
    """A plot of one dataset, or of one group."""

    names: dict[str, str]  # what it shows, by the names of the filters
    svg: Markup


def colours(report: Report) -> dict[str, str]:
    """The CSS class of each pooling's colour."""
    pools = dict.fromkeys(report.cells["pool"])
    return {pool: f"p{i % COLOURS}" for i, pool in enumerate(pools)}


def shapes(report: Report) -> dict[tuple[str, str], tuple[str, str]]:
    """The shape of each backbone with its convolution."""
    pairs = dict.fromkeys(zip(report.cells["backbone"], report.cells["conv"], strict=True))
    return dict(zip(pairs, itertools.cycle(SHAPES), strict=False))


def spread(report: Report) -> list[Panel]:
    """Every run of every cell with mean ± std, and the published figure; a panel per group."""
    panels, accuracies = [], dict(iter(report.runs.groupby(CELL)["value"]))
    for dataset, cells in report.cells.groupby("dataset", sort=False):
        runs = report.runs["value"][report.runs["dataset"] == dataset]
        ends = [cells["mean"] - cells["std"], cells["mean"] + cells["std"]]
        shown = pd.concat([runs, cells["reference_mean"], *ends]).dropna()
        if shown.empty:
            continue
        x = Scale.over(list(shown), room(cells["pool"]), WIDTH - 8)
        for names, group in cells.groupby(GROUP, sort=False):
            rows = [
                _spread_row(report, cell, accuracies[*names, cell["pool"]], x, 16.0 + 18 * i)
                for i, cell in enumerate(group.to_dict("records"))
            ]
            bottom = 10.0 + 18 * len(rows)
            axis = bottom_axis(x, 4, bottom, f"test {report.measure.heading}")
            label = f"Test {report.measure.title} of every run: {', '.join(names)}"
            drawn = picture(WIDTH, bottom + 30, label, axis, *rows)
            panels.append(Panel(dict(zip(GROUP, names, strict=True)), drawn))
    return panels


def _spread_row(
    report: Report, cell: dict[str, Any], accuracies: pd.Series, x: Scale, y: float
) -> Markup:
    pool, mean, std = cell["pool"], cell["mean"], cell["std"]
    above, below = y - 3, y + 4  # Runs below their mean, where no line hides them.
    marks = [tag("text", short(pool), x=x.start - 6, y=y + 4, class_="end label")]
    marks += [tag("circle", cx=x(a), cy=below, r=2.0, class_="run") for a in accuracies.dropna()]
    if np.isfinite(std):
        ends = {"x1": x(mean - std), "x2": x(mean + std)}
        marks.append(tag("line", **ends, y1=above, y2=above, class_="bar"))
    if np.isfinite(mean):
        marks.append(tag("circle", cx=x(mean), cy=above, r=3.4, class_="mean"))
    m = report.measure
    tip = f"{pool}: {m.figure(mean, std)}{m.metric.unit}, {cell['runs']} runs"
    if pd.notna(cell["reference_mean"]):
        published = cell["reference_mean"], cell["reference_std"]
        marks.append(diamond(x(published[0]), above))
        tip += f"; {report.reference.name} {figure(*published)} %"
    # A target for the pointer between the marks.
    marks.append(tag("rect", x=0.0, y=y - 9, width=WIDTH, height=18.0, class_="touch"))
    return tag("g", *marks, class_=colours(report)[pool], data_pool=pool, data_tip=tip)


def diamond(x: float, y: float, class_: str = "published") -> Markup:
    """The mark of a published figure, or of an average."""
    return tag("path", d=f"M{x:.1f} {y - 5:g}l4 5l-4 5l-4-5z", class_=class_)


def learning(report: Report) -> list[Panel]:
    """The metric on validation graphs by epoch, mean over runs; a line per pooling."""
    colour, panels = colours(report), []
    m = replace(report.measure, metric=report.measure.selected_by)
    for names, group in report.runs.groupby(GROUP, sort=False):
        curves = {
            pool: [report.results.curves[key] for key in keys if key in report.results.curves]
            for pool, keys in group.groupby("pool", sort=False)["key"]
        }
        lines = {
            pool: _mean_curve(of_pool, m.metric.factor)
            for pool, of_pool in curves.items()
            if of_pool
        }
        lines = {pool: line for pool, line in lines.items() if len(line)}
        if not lines:
            continue
        everything = np.vstack(list(lines.values()))
        x = Scale(0, max(everything[:, 0].max(), 1), 34, WIDTH - 8, whole=True)
        y = Scale.over(list(everything[:, 1]), 150, 18)
        drawn = [
            tag("polyline", points=" ".join(f"{x(e):.1f},{y(a):.1f}" for e, a in line),
                class_=f"curve {colour[pool]}", data_pool=pool,
                data_tip=f"{pool}: {line[-1, 1]:.{m.digits - 1}f}{m.metric.unit} in epoch "
                         f"{line[-1, 0]:.0f}")
            for pool, line in lines.items()
        ]  # fmt: skip
        label = f"Validation {m.title} by epoch: {', '.join(names)}"
        grid = axes(x, y, "epoch", f"validation {m.heading}")
        whole = picture(WIDTH, 180, label, *grid, *drawn)
        panels.append(Panel(dict(zip(GROUP, names, strict=True)), whole))
    return panels


def _mean_curve(curves: Sequence[NDArray[np.float32]], factor: float) -> Array:
    """Epoch and metric, as long as half of the runs train; at most POINTS of them."""
    length = int(np.median([len(curve) for curve in curves]))
    padded = itertools.zip_longest(*(curve[:length, 2] for curve in curves), fillvalue=np.nan)
    table = np.array(list(padded), dtype=np.float64).reshape(length, len(curves))
    epochs = np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(int))
    epochs = epochs[~np.isnan(table[epochs]).all(axis=1)]  # some metrics cannot always be computed
    return np.column_stack([epochs + 1, factor * np.nanmean(table[epochs], axis=1)])


def costs(report: Report, column: str) -> list[Panel]:
    """The metric against ``seconds`` or ``peak_memory``; a mark per cell, a panel per dataset."""
    title, unit, write = COSTS[column]
    m = report.measure
    colour, shape, panels = colours(report), shapes(report), []
    for dataset, cells in report.cells.groupby("dataset", sort=False):
        known = cells[(cells[column] > 0) & cells["mean"].notna()]
        if known.empty:
            continue
        x = Scale.over(list(known[column] / unit), 34, WIDTH - 14, log=True)
        y = Scale.over(list(known["mean"]), 150, 18)
        marks = []
        for cell in known.to_dict("records"):
            pool, network = cell["pool"], (cell["backbone"], cell["conv"])
            place = f"translate({x(cell[column] / unit):.1f} {y(cell['mean']):.1f})"
            tip = (
                f"{pool}, {' '.join(network)}: {m.figure(cell['mean'], cell['std'])}{m.metric.unit}"
            )
            marks.append(tag(
                "path", d=shape[network][1], transform=place, class_=f"mark {colour[pool]}",
                data_pool=pool, data_backbone=network[0], data_conv=network[1],
                data_tip=f"{tip}, {write(cell[column])}",
            ))  # fmt: skip
        label = f"{m.capital} against {title}: {dataset}"
        drawn = picture(WIDTH, 180, label, *axes(x, y, title, f"test {m.heading}"), *marks)
        panels.append(Panel({"dataset": dataset}, drawn))
    return panels


def diagram(report: Report) -> Markup | None:
    """Average ranks over the datasets on an axis, 1 at the left; None for one dataset.

    Bars join poolings that cannot be told apart: within the critical difference.
    """
    c, colour, cd = report.ranked, colours(report), report.ranked.critical_difference
    if cd is None:
        return None
    pools = sorted(c.pools, key=c.rank.__getitem__)
    side = room(pools) + 32  # for a name and its rank, to the left and to the right of the axis
    width = AXIS + 2 * side
    x = Scale(1, max(len(pools), 2), side + 6, width - side - 6)
    bars = cliques([c.rank[pool] for pool in pools], cd)
    axis, first = 34.0, 48.0 + 7 * len(bars)
    parts = [tag("line", x1=x(1), x2=x(x.high), y1=axis, y2=axis, class_="axis")]
    for tick in range(1, int(x.high) + 1):
        parts.append(tag("line", x1=x(tick), x2=x(tick), y1=axis - 4, y2=axis, class_="axis"))
        parts.append(tag("text", str(tick), x=x(tick), y=axis - 7, class_="tick middle"))
    parts.append(tag("line", x1=x(1), x2=min(x(1 + cd), width), y1=14.0, y2=14.0, class_="cd"))
    parts.append(tag("text", f"CD {cd:.2f}", x=x(1), y=9.0))
    for i, (low, high) in enumerate(bars):
        y = axis + 7 + 7 * i
        parts.append(tag("line", x1=x(low) - 2, x2=x(high) + 2, y1=y, y2=y, class_="clique"))
    left = (len(pools) + 1) // 2
    for place, pool in enumerate(pools):
        rank, on_left = c.rank[pool], place < left
        y = first + 17 * (place if on_left else len(pools) - 1 - place)
        end, text_x = (side, side - 4) if on_left else (width - side, width - side + 4)
        # A line from the rank on the axis down to the pooling's name beside it.
        line = tag("path", d=f"M{x(rank):.1f} {axis:g}V{y:.1f}H{end:g}", class_="leader")
        name = tag("text", f"{short(pool)} {rank:.2f}", x=text_x, y=y + 4,
                   class_="end" if on_left else None)  # fmt: skip
        tip = f"{pool}: average rank {rank:.2f}"
        parts.append(tag("g", line, name, class_=colour[pool], data_tip=tip))
    listed = ", ".join(f"{pool} {c.rank[pool]:.2f}" for pool in pools)
    return picture(width, first + 17 * left + 4, f"Average ranks: {listed}", *parts)


def cliques(ranks: Sequence[float], cd: float) -> list[tuple[float, float]]:
    """The longest stretches of sorted ranks, two at least, within the critical difference.

    >>> cliques([1.0, 2.0, 2.5, 6.0], cd=1.2)
    [(1.0, 2.0), (2.0, 2.5)]
    """
    found: list[tuple[float, float]] = []
    for i, low in enumerate(ranks):
        within = [rank for rank in ranks[i:] if rank <= low + cd]
        if len(within) > 1 and (not found or within[-1] > found[-1][1]):
            found.append((low, within[-1]))
    return found


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """An element; text and attributes are escaped, ``data_pool`` is written ``data-pool``.

    >>> tag("text", "a < b", x=1.50, class_="tick")
    Markup('<text x="1.5" class="tick">a &lt; b</text>')
    """
    written = Markup("")
    for key, value in attributes.items():
        if value is not None:
            text = f"{round(value, 1):g}" if isinstance(value, float) else value
            written += Markup(' {}="{}"').format(key.strip("_").replace("_", "-"), text)
    inside = Markup("").join(children)  # escapes what is not Markup
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), written, inside)


@dataclass(frozen=True)
class Scale:
    """From values to places along an axis."""

    low: float  # the value at ``start``
    high: float  # the value at ``end``
    start: float
    end: float
    log: bool = False
    whole: bool = False  # whether ticks are whole numbers

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, log: bool = False) -> Scale:
        """A scale that shows all values, with a little room around them."""
        low, high = min(values), max(values)
        if log:
            return cls(low / 1.3, high * 1.3, start, end, log)
        room = 0.06 * (high - low) or 1.0
        return cls(low - room, high + room, start, end)

    def __call__(self, value: float) -> float:
        """The place of a value."""
        part = (value - self.low) / (self.high - self.low)
        if self.log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values within the scale, about ``most`` of them.

        >>> Scale(0, 100, 0, 1).ticks()
        [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
        >>> Scale(0.5, 20, 0, 1, log=True).ticks()
        [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
        >>> Scale(0, 2, 0, 1, whole=True).ticks()
        [0.0, 1.0, 2.0]
        """
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for rounds in ((1, 2, 5), (1,)):
                ticks = [m * 10.0**p for p in powers for m in rounds]
                inside = [tick for tick in ticks if self.low <= tick <= self.high]
                if 1 < len(inside) <= most + 1:
                    return inside
            if len(inside) > 1:
                return inside[:: math.ceil(len(inside) / most)]
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / most))
        step *= next(m for m in (1, 2, 5, 10) if (self.high - self.low) / (step * m) <= most)
        step = max(step, 1.0) if self.whole else step
        ends = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [step * i for i in range(ends[0], ends[1] + 1)]


def picture(
    width: float, height: float, label: str, *children: str, **attributes: object
) -> Markup:
    """An image that scales with the page; ``label`` is for screen readers."""
    return tag(
        "svg", *children, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label,
        **attributes,
    )  # fmt: skip


def axes(x: Scale, y: Scale, x_title: str, y_title: str, above: float = 10.0) -> list[Markup]:
    """Grid lines and numbers of two axes, and their titles; ``above`` is the height of y's."""
    ends, places = {"x1": x.start, "x2": x.end}, {f"{tick:g}": y(tick) for tick in y.ticks()}
    lines = [tag("line", **ends, y1=at, y2=at, class_="grid") for at in places.values()]
    lines += [
        tag("text", tick, x=x.start - 4, y=at + 3.5, class_="tick end")
        for tick, at in places.items()
    ]
    return [*lines, tag("text", y_title, x=0.0, y=above), bottom_axis(x, y.end, y.start, x_title)]


def bottom_axis(x: Scale, top: float, bottom: float, title: str) -> Markup:
    """Grid lines, numbers below them, and a title."""
    places = [x(tick) for tick in x.ticks()]
    lines = [tag("line", x1=at, x2=at, y1=top, y2=bottom, class_="grid") for at in places]
    for tick, at in zip(x.ticks(), places, strict=True):
        lines.append(tag("text", f"{tick:g}", x=at, y=bottom + 12.0, class_="tick middle"))
    lines.append(tag("text", title, x=(x.start + x.end) / 2, y=bottom + 25.0, class_="middle"))
    return Markup("").join(lines)


def short(name: str, length: int = LABEL) -> str:
    """A name that fits a label; of a longer one the middle is left out.

    >>> short("lcpool"), short("topkpool (ratio=0.25)", 16)
    ('lcpool', 'topkpo…tio=0.25)')
    """
    end = (length - 1) * 3 // 5
    return name if len(name) <= length else f"{name[: length - 1 - end]}…{name[-end:]}"


def room(names: Iterable[str]) -> float:
    """The width of the longest label."""
    return 6.0 * max(len(short(name)) for name in names) + 8
