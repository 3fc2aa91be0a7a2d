"""The audit's pictures: LCPool against each rival, and accuracy against time and connectivity."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from lcpool.report.page import alone
from lcpool.report.plots import WIDTH, colours, tag
from lcpool.report.verdict_plots import forests, trade_off
from paper.choosing import relative, stay_connected
from paper.report import PaperReport

ACROSS, GAP, TITLE = 3, 24.0, 16.0
TIMES = (2 * WIDTH + GAP, 240.0)  # width and height of accuracy against time


def overview(
    report: PaperReport, costs: pd.DataFrame | None, structure: pd.DataFrame | None
) -> str | None:
    """Both as one image; None where there is nothing to compare.

    Args:
        report: with a verdict on each rival.
        costs: of an epoch, by dataset and pooling, if they were measured.
        structure: of graphs before and after pooling, if it was measured.
    """
    found, parts = forests(report), list[Markup]()
    if not found:
        return None
    tall = max(one.height for one in found) + TITLE + GAP / 2
    for i, one in enumerate(found):
        place = f"translate({(WIDTH + GAP) * (i % ACROSS):g} {TITLE + tall * (i // ACROSS):g})"
        name = tag("text", one.pool, x=0.0, y=-5.0, class_="title")
        parts.append(tag("g", name, *one.parts, transform=place))
    bottom = TITLE + tall * -(-len(found) // ACROSS)
    if costs is not None and (drawn := _against_time(report, costs, structure)):
        parts.append(tag("g", *drawn, transform=f"translate(0 {bottom:g})"))
        bottom += TIMES[1]
    width = (WIDTH + GAP) * min(len(found), ACROSS)
    label = "; ".join(one.label for one in found)
    return alone(width, bottom, label, *parts)


def _against_time(
    report: PaperReport, costs: pd.DataFrame, structure: pd.DataFrame | None
) -> list[Markup]:
    """Seconds of an epoch in multiples of LCPool's; beside a name, graphs that stay connected."""
    v = report.verdicts
    times = relative(costs, "seconds_per_epoch", v.reference)
    places = {
        r.pool: (times[r.pool].mean, -r.mean, -r.high, -r.low) for r in v.rivals if r.pool in times
    }
    shares = {} if structure is None else stay_connected(structure)
    notes = {pool: f"({share.mean:.0f} %)" for pool, share in shares.items()}
    title = "accuracy − LCPool's, points; in brackets, connected graphs that stay so"
    if not places:
        return []
    return trade_off(places, v.reference, colours(report), title, notes, "time of an epoch", TIMES)
