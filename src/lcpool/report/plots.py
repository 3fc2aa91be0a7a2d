"""The pictures of the page: spread, ranks, learning curves, costs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from lcpool.report.cells import GROUP
from lcpool.report.statistics import Array
from lcpool.report.svg import WIDTH, Scale, bottom_axis, left_axis, picture, room, short, tag
from lcpool.report.words import count, duration, figure, memory

if TYPE_CHECKING:
    from lcpool.report.api import Report

# The style sheet has this many colours; further poolings begin again.
COLOURS = 10
POINTS = 80  # of a learning curve

# What a cell costs: in words, the unit of the axis, and how to write one.
COSTS: dict[str, tuple[str, float, Callable[[float], str]]] = {
    "seconds": ("seconds a run", 1.0, duration),
    "peak_memory": ("memory of the runs trained as one, MiB", 2.0**20, memory),
}
# A circle, a square, a triangle and a diamond, for the backbones; as text and as a path.
SHAPES = (
    ("●", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"),
    ("■", "M-3.5-3.5h7v7h-7z"),
    ("▲", "M0-4.5l4.5 8h-9z"),
    ("◆", "M0-5l5 5l-5 5l-5-5z"),
)


# The colours of poolings and the shapes of backbones.
Looks = tuple[dict[str, str], dict[tuple[str, str], tuple[str, str]]]


@dataclass(frozen=True)
class Panel:
    """A picture of one dataset, or of one backbone on it.

    Attributes:
        names: what it is of, by the names of the filters.
        svg: the picture.
        note: what it does not show.
    """

    names: dict[str, str]
    svg: Markup
    note: str = ""

    @property
    def title(self) -> str:
        """In words."""
        return ", ".join(self.names.values())


def colours(report: Report) -> dict[str, str]:
    """The class of each pooling's colour."""
    pools = dict.fromkeys(report.cells["pool"])
    return {pool: f"p{i % COLOURS}" for i, pool in enumerate(pools)}


def shapes(report: Report) -> dict[tuple[str, str], tuple[str, str]]:
    """The shape of each backbone with its convolution."""
    return dict(zip(dict.fromkeys(_backbones(report.cells)), itertools.cycle(SHAPES), strict=False))


def spread(report: Report) -> list[Panel]:
    """Every run of every cell with mean ± std, and the published figure, a panel a group."""
    panels = []
    for dataset, cells in report.cells.groupby("dataset", sort=False):
        runs = report.runs[report.runs["dataset"] == dataset]
        ends = [cells["mean"] - cells["std"], cells["mean"] + cells["std"]]
        published = cells["reference_mean"].astype(float)
        shown = pd.concat([runs["accuracy"], published, *ends]).dropna()
        if shown.empty:
            continue
        left = room(cells["pool"])
        x = Scale.over(list(shown), left, WIDTH - 8)
        for names, group in cells.groupby(GROUP, sort=False):
            accuracies = {
                pool: list(part.dropna())
                for pool, part in _members(runs, names).groupby("pool")["accuracy"]
            }
            rows = [
                _spread_row(report, cell, accuracies[cell["pool"]], x, 16.0 + 18 * i)
                for i, cell in enumerate(group.to_dict("records"))
            ]
            bottom = 16.0 + 18 * len(rows) - 6
            axis = bottom_axis(x, 4, bottom, "test accuracy, %")
            label = f"Test accuracy of every run: {', '.join(names)}"
            drawn = picture(WIDTH, bottom + 30, label, axis, *rows)
            panels.append(Panel(dict(zip(GROUP, names, strict=True)), drawn))
    return panels


def _spread_row(
    report: Report, cell: dict[str, Any], accuracies: list[float], x: Scale, y: float
) -> Markup:
    pool, mean, std = cell["pool"], cell["mean"], cell["std"]
    above, below = y - 3, y + 4  # The runs under their mean, where no line hides them.
    marks = [tag("text", short(pool), x=x.start - 6, y=y + 4, class_="end label")]
    marks += [tag("circle", cx=x(a), cy=below, r=2.0, class_="run") for a in accuracies]
    if np.isfinite(std):
        ends = {"x1": x(mean - std), "x2": x(mean + std)}
        marks.append(tag("line", **ends, y1=above, y2=above, class_="bar"))
    if accuracies:
        marks.append(tag("circle", cx=x(mean), cy=above, r=3.4, class_="mean"))
    tip = f"{pool}: {figure(mean, std)} %, {cell['runs']} runs"
    if report.reference is not None and pd.notna(cell["reference_mean"]):
        at = x(cell["reference_mean"])
        marks.append(diamond(at, above))
        published = figure(cell["reference_mean"], cell["reference_std"])
        tip += f"; {report.reference.name} {published} %"
    # Something to point at between the marks.
    marks.append(tag("rect", x=0.0, y=y - 9, width=WIDTH, height=18.0, class_="touch"))
    return tag("g", *marks, class_=colours(report)[pool], data_pool=pool, data_tip=tip)


def diamond(x: float, y: float) -> Markup:
    """The mark of a published figure."""
    return tag("path", d=f"M{x:.1f} {y - 5:g}l4 5l-4 5l-4-5z", class_="paper")


def learning(report: Report) -> list[Panel]:
    """Validation accuracy by epoch, mean over the runs, a line a pooling, a panel a group."""
    colour, panels = colours(report), []
    for names, group in report.runs.groupby(GROUP, sort=False):
        lines = {
            pool: _mean_curve(report, part) for pool, part in group.groupby("pool", sort=False)
        }
        lines = {pool: line for pool, line in lines.items() if len(line)}
        if not lines:
            continue
        everything = np.vstack(list(lines.values()))
        x = Scale(0, max(everything[:, 0].max(), 1), 34, WIDTH - 8, whole=True)
        y = Scale.over(list(everything[:, 1]), 150, 18)
        drawn = [
            tag("polyline", points=_path(line, x, y), class_=f"curve {colour[pool]}",
                data_pool=pool, data_tip=f"{pool}: {line[-1, 1]:.1f} % in epoch {line[-1, 0]:.0f}")
            for pool, line in lines.items()
        ]  # fmt: skip
        axes = (
            left_axis(y, x.start, x.end, "validation accuracy, %"),
            bottom_axis(x, 18, 150, "epoch"),
        )
        label = f"Validation accuracy by epoch: {', '.join(names)}"
        whole = picture(WIDTH, 180, label, *axes, *drawn)
        panels.append(Panel(dict(zip(GROUP, names, strict=True)), whole))
    return panels


def _mean_curve(report: Report, runs: pd.DataFrame) -> Array:
    """Epoch and accuracy, while at least half of the runs still train; at most POINTS of them."""
    curves = [
        report.results.curves[key][:, 2] for key in runs["key"] if key in report.results.curves
    ]
    if not curves:
        return np.empty((0, 2))
    length = int(np.median([len(curve) for curve in curves]))
    table = np.full((len(curves), length), np.nan)
    for row, curve in zip(table, curves, strict=True):
        row[: len(curve)] = curve[:length]
    epochs = np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(int))
    return np.column_stack([epochs + 1, 100 * np.nanmean(table[:, epochs], axis=0)])


def _path(line: Array, x: Scale, y: Scale) -> str:
    return " ".join(f"{x(epoch):.1f},{y(accuracy):.1f}" for epoch, accuracy in line)


def costs(report: Report, column: str) -> list[Panel]:
    """Accuracy against ``seconds`` or ``peak_memory``, a mark a cell, a panel a dataset."""
    title, unit, write = COSTS[column]
    looks, panels = (colours(report), shapes(report)), []
    for dataset, cells in report.cells.groupby("dataset", sort=False):
        measured = cells[cells[column].notna() & cells["mean"].notna()]
        known = measured[measured[column] > 0]  # On an axis of ratios there is no zero.
        if known.empty:
            continue
        none = len(measured) - len(known)
        note = f"{count(none, 'cell')} not shown: too little to measure." if none else ""
        x = Scale.over(list(known[column] / unit), 34, WIDTH - 14, log=True)
        y = Scale.over(list(known["mean"]), 150, 18)
        marks = [
            _cost_mark(cell, x(cell[column] / unit), y(cell["mean"]), write(cell[column]), looks)
            for cell in known.to_dict("records")
        ]
        axes = (
            left_axis(y, x.start, x.end, "test accuracy, %"),
            bottom_axis(x, 18, 150, title),
        )
        label = f"Accuracy against {title}: {dataset}"
        drawn = picture(WIDTH, 180, label, *axes, *marks)
        panels.append(Panel({"dataset": dataset}, drawn, note))
    return panels


def _cost_mark(cell: dict[str, Any], x: float, y: float, cost: str, looks: Looks) -> Markup:
    pool, backbone, conv = cell["pool"], cell["backbone"], cell["conv"]
    colour, shape = looks
    tip = f"{pool}, {backbone} {conv}: {figure(cell['mean'], cell['std'])} %, {cost}"
    return tag(
        "path", d=shape[backbone, conv][1], transform=f"translate({x:.1f} {y:.1f})",
        class_=f"mark {colour[pool]}", data_pool=pool, data_backbone=backbone, data_conv=conv,
        data_tip=tip,
    )  # fmt: skip


def _members(runs: pd.DataFrame, names: tuple[str, ...]) -> pd.DataFrame:
    """The runs of a group."""
    return runs[(runs[GROUP] == list(names)).all(axis=1)]


def _backbones(cells: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(cells["backbone"], cells["conv"], strict=True))
