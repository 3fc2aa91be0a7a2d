"""The page: one HTML file that needs nothing else, neither network nor server."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from lcpool.report.answer import FRESH, why_no_test
from lcpool.report.cells import GROUP
from lcpool.report.comparison import OURS, RESAMPLES
from lcpool.report.diagram import diagrams
from lcpool.report.findings import findings, provenance
from lcpool.report.heldout import constant_mark
from lcpool.report.pairs import pairs_over_splits
from lcpool.report.plots import colours, costs, learning, shapes, spread
from lcpool.report.rankings import misprints, rankings
from lcpool.report.sheets import Sheet, cells_sheet, datasets_sheet, splits_sheet
from lcpool.report.statistics import ALPHA, FEWEST_RUNS
from lcpool.report.tables import highlighted, layouts
from lcpool.report.words import figure, signed

if TYPE_CHECKING:
    from lcpool.report.api import Report

FILTERS = {
    "dataset": "Datasets",
    "backbone": "Backbones",
    "conv": "Convolutions",
    "pool": "Poolings",
}


def page(report: Report, audit: str | None = None) -> str:
    """The report as HTML; ``audit`` is an address that the claims link to.

    Names of datasets and poolings can be anything: the template escapes all it is given, and the
    page's security policy lets no script run but its own.
    """
    style, script = stylesheet(), _file("page.js")
    environment = Environment(
        loader=DictLoader({"page": _file("page.html.j2")}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = lambda cell: figure(cell["mean"], cell["std"])
    environment.filters["signed"] = signed
    environment.filters["constant_mark"] = constant_mark
    environment.tests["known"] = pd.notna
    return environment.get_template("page").render(
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}",
        audit=audit,
        **_content(report),
    )


def _content(report: Report) -> dict[str, Any]:
    """Everything that the template shows."""
    values = {name: list(dict.fromkeys(report.cells[name])) for name in FILTERS}
    return {
        "report": report,
        "alpha": ALPHA,
        "resamples": RESAMPLES,
        "fewest": FEWEST_RUNS,
        "shapes": {", ".join(of): symbol for of, (symbol, _) in shapes(report).items()},
        "colours": colours(report),
        "filters": {name: (FILTERS[name], of) for name, of in values.items() if len(of) > 1},
        "findings": findings(report),
        "provenance": provenance(report),
        "layouts": layouts(report.cells),
        "highlighted": highlighted(report),
        "rankings": rankings(report),
        "misprints": misprints(),
        "diagrams": diagrams(report),
        "spread": spread(report),
        "learning": learning(report),
        "time": costs(report, "seconds"),
        "memory": costs(report, "peak_memory"),
        "cells": cells_sheet(report),
        "differences": _differences(report),
        "no_test": _no_test(report),
    }


def _differences(report: Report) -> list[tuple[str, str, Sheet | None]]:
    """Tables of one pooling against the others: caption, id, and the table if there is one.

    The first in rank, on each dataset; and LCPool, of which the paper speaks, in each group.
    """
    c, found = report.ranked, []
    if not c.empty:
        first = c.order[0]
        title = f"{first}, which comes first, against the others"
        found = [
            (f"{title}, over the datasets", "over-datasets", datasets_sheet(c, first, True)),
            (f"{title}, on each dataset over its splits", "over-splits",
             splits_sheet(c, first, True, ["dataset"])),
        ]  # fmt: skip
    if report.claims and OURS in report.paper.pools:
        title = f"{OURS}, of which the paper speaks, against the others"
        found += [
            (f"{title}, over the datasets", "ours-over-datasets",
             datasets_sheet(report.paper, OURS, False)),
            (f"{title}, in each group over its splits", "ours-over-splits",
             splits_sheet(report.paper, OURS, False, GROUP)),
        ]  # fmt: skip
    return found


def _no_test(report: Report) -> str:
    """Why there is no test on single datasets; nothing where there is."""
    c = report.ranked
    if c.empty:
        return ""
    if not c.fresh:
        return (
            "Tests on a single dataset need fresh splits, for runs that share a split say nothing "
            f"about other graphs: {FRESH}."
        )
    pairs = pairs_over_splits(c, c.order[0], True, ["dataset"])
    return why_no_test(int(pairs["splits"].min())) if pairs["p"].isna().all() else ""


def stylesheet() -> str:
    """Of the page, and of pictures that stand alone."""
    return _file("page.css")


def _file(name: str) -> str:
    return resources.files("lcpool.report").joinpath("template", name).read_text("utf-8")


def _hash(text: str) -> str:
    """Names a script or style in a content security policy."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
