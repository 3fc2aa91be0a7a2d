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
from lcpool.report.comparison import Comparison
from lcpool.report.diagram import diagrams
from lcpool.report.findings import provenance
from lcpool.report.heldout import constant_mark
from lcpool.report.pairs import pairs_over_splits
from lcpool.report.plots import colours, costs, learning, shapes, spread
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


# A caption, an id, and the table if there is one.
Difference = tuple[str, str, Sheet | None]


def page(report: Report, template: str | None = None, **content: Any) -> str:
    """The report as HTML.

    Names of datasets and poolings can be anything: the template escapes all it is given, and the
    page's security policy lets no script run but its own.

    Args:
        report: what to show.
        template: a template that extends "page", if there is more to show.
        content: what else that template shows.
    """
    style, script = stylesheet(), _file("page.js")
    environment = Environment(
        loader=DictLoader({"page": _file("page.html.j2"), "more": template or ""}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = lambda cell: figure(cell["mean"], cell["std"])
    environment.filters["signed"] = signed
    environment.filters["constant_mark"] = constant_mark
    environment.tests["known"] = pd.notna
    return environment.get_template("more" if template else "page").render(
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}",
        **_content(report),
        **content,
    )


def _content(report: Report) -> dict[str, Any]:
    """Everything that the template shows."""
    values = {name: list(dict.fromkeys(report.cells[name])) for name in FILTERS}
    return {
        "report": report,
        "reference": "" if report.reference is None else report.reference.name,
        "alpha": ALPHA,
        "fewest": FEWEST_RUNS,
        "shapes": {", ".join(of): symbol for of, (symbol, _) in shapes(report).items()},
        "colours": colours(report),
        "filters": {name: (FILTERS[name], of) for name, of in values.items() if len(of) > 1},
        "findings": report.findings(),
        "provenance": provenance(report),
        "layouts": layouts(report.cells),
        "highlighted": highlighted(report),
        "rankings": report.rankings(),
        "diagrams": diagrams(report),
        "spread": spread(report),
        "learning": learning(report),
        "time": costs(report, "seconds"),
        "memory": costs(report, "peak_memory"),
        "cells": cells_sheet(report),
        "differences": report.differences(),
        "no_test": _no_test(report),
    }


def first_against_others(c: Comparison) -> list[Difference]:
    """The first in rank against the others: over the datasets, and on each over its splits."""
    if c.empty:
        return []
    first = c.order[0]
    title = f"{first}, which comes first, against the others"
    return [
        (f"{title}, over the datasets", "over-datasets", datasets_sheet(c, first, True)),
        (f"{title}, on each dataset over its splits", "over-splits",
         splits_sheet(c, first, True, ["dataset"])),
    ]  # fmt: skip


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
