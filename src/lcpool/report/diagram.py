"""The critical-difference diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from lcpool.report.plots import colours
from lcpool.report.statistics import ALPHA, FEWEST_RUNS, Array, critical_difference
from lcpool.report.svg import Scale, picture, room, short, tag

if TYPE_CHECKING:
    from lcpool.report.api import Report

AXIS = 180.0


def diagrams(report: Report) -> list[tuple[str, Markup]]:
    """The ranking over the datasets, with what other runs would make of it, and each backbone's.

    None for a single dataset, of which ranks are no sample.
    """
    c, colour = report.ranked, colours(report)
    if c.empty or len(c.datasets) < 2:
        return []
    bands = None
    if c.fewest_runs >= FEWEST_RUNS:
        drawn = c.average_ranks(c.resampled())
        bands = np.quantile(drawn, [ALPHA / 2, 1 - ALPHA / 2], axis=0).T
    overall = c.average_ranks(c.means)
    found = [("all, by dataset", diagram(c.pools, overall, c.critical_difference, colour, bands))]
    if len(c.backbones) == 1:
        return found
    for (backbone, conv), average in zip(c.backbones, c.backbone_ranks(c.means), strict=True):
        n = int(c.where(backbone=backbone, conv=conv).sum())
        if n > 1:
            cd = critical_difference(len(c.pools), n)
            found.append((f"{backbone}, {conv}", diagram(c.pools, average, cd, colour)))
    return found


def diagram(
    pools: tuple[str, ...],
    average: Array,
    cd: float | None,
    colour: dict[str, str],
    bands: Array | None = None,
) -> Markup:
    """Average ranks on an axis, 1 at the left; bars join poolings that cannot be told apart.

    Args:
        pools: their names.
        average: their average ranks.
        cd: the critical difference, if there is one.
        colour: their classes.
        bands: for each, between which ranks it would lie with other runs.
    """
    order = np.argsort(average, kind="stable")
    side = room(pools) + 32  # for a name and its rank, to the left and to the right of the axis
    width = AXIS + 2 * side
    x = Scale(1, max(len(pools), 2), side + 6, width - side - 6)
    bars = [] if cd is None else cliques(average[order], cd)
    axis, first = 34.0, 48.0 + 7 * len(bars)
    parts = [tag("line", x1=x(1), x2=x(x.high), y1=axis, y2=axis, class_="axis")]
    for rank in range(1, int(x.high) + 1):
        parts.append(tag("line", x1=x(rank), x2=x(rank), y1=axis - 4, y2=axis, class_="axis"))
        parts.append(tag("text", str(rank), x=x(rank), y=axis - 7, class_="tick middle"))
    if cd is not None:
        end = min(x(1 + cd), width)
        parts.append(tag("line", x1=x(1), x2=end, y1=14.0, y2=14.0, class_="cd"))
        parts.append(tag("text", f"CD {cd:.2f}", x=x(1), y=9.0))
    for i, (low, high) in enumerate(bars):
        y = axis + 7 + 7 * i
        parts.append(tag("line", x1=x(low) - 2, x2=x(high) + 2, y1=y, y2=y, class_="clique"))
    left = (len(order) + 1) // 2
    for place, index in enumerate(order):
        on_left = place < left
        # Half a row lower at the right, so that bands do not lie on each other.
        row = place if on_left else len(order) - 0.5 - place
        band = None if bands is None else bands[index]
        pool, rank = pools[index], average[index]
        end = side if on_left else width - side
        marks = _leader(pool, rank, x, (axis, first + 17 * row), end, band)
        parts.append(tag("g", *marks, class_=colour[pool], data_tip=_tip(pool, rank, band)))
    listed = ", ".join(f"{pools[i]} {average[i]:.2f}" for i in order)
    return picture(width, first + 17 * left + 4, f"Average ranks: {listed}", *parts)


def _leader(
    pool: str, rank: float, x: Scale, ys: tuple[float, float], end: float, band: Array | None
) -> list[Markup]:
    """A line from a rank on the axis down to the pooling's name beside it."""
    axis, y = ys
    path = f"M{x(rank):.1f} {axis:g}V{y:.1f}H{end:g}"
    text, left = f"{short(pool)} {rank:.2f}", end < x.start
    where: dict[str, object] = {"x": end - 4, "class_": "end"} if left else {"x": end + 4}
    marks = [tag("path", d=path, class_="leader"), tag("text", text, y=y + 4, **where)]
    if band is not None:
        marks.append(tag("line", x1=x(band[0]), x2=x(band[1]), y1=y, y2=y, class_="band"))
    return marks


def _tip(pool: str, rank: float, band: Array | None) -> str:
    text = f"{pool}: average rank {rank:.2f}"
    return text if band is None else f"{text}; with other runs {band[0]:.2f} to {band[1]:.2f}"


def cliques(ranks: Array, cd: float) -> list[tuple[float, float]]:
    """The longest stretches of sorted ranks, two at least, within the critical difference.

    >>> cliques(np.array([1.0, 2.0, 2.5, 6.0]), cd=1.2)
    [(1.0, 2.0), (2.0, 2.5)]
    """
    found: list[tuple[float, float]] = []
    for i, low in enumerate(ranks):
        within = ranks[i:][ranks[i:] <= low + cd]
        if len(within) > 1 and (not found or within[-1] > found[-1][1]):
            found.append((float(low), float(within[-1])))
    return found
