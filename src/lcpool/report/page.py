"""The page: one HTML file that needs nothing else, neither network nor server."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from lcpool.data.splits import Scheme
from lcpool.pages import environment, inline, text
from lcpool.report.cells import GROUP
from lcpool.report.comparison import Comparison, pairs_over_splits
from lcpool.report.findings import MANY, provenance, why_no_test
from lcpool.report.plots import colours, costs, diagram, learning, picture, shapes, spread, tag
from lcpool.report.schemes import correction, name_of_test
from lcpool.report.statistics import ALPHA, FEWEST_RUNS
from lcpool.report.tables import constant_mark, highlighted, layouts, rank_rows
from lcpool.report.verdict import SURE
from lcpool.report.verdict_plots import forest, pareto
from lcpool.words import count, duration, figure, memory, p_value, signed

if TYPE_CHECKING:
    from lcpool.report.api import Report

# Columns that name a row: heading and explanation.
NAMES = {
    "dataset": ("dataset", "The graphs that were classified."),
    "backbone": ("backbone", "hierarchical adds the readouts of all convolutions, plain uses the "
                 "last one."),
    "conv": ("conv", "The graph convolution."),
    "pool": ("pooling", "The pooling operator; in parentheses, settings that differ."),
}  # fmt: skip


def page(report: Report, template: str | None = None, more_style: str = "", **content: Any) -> str:
    """The report as HTML.

    Names can be anything: the template escapes all text, and the page's security policy lets no
    other script run. A ``template`` that extends "page" can show more ``content`` in a style of its
    own.
    """
    script = text("lcpool.report", "page.js", "+tip.js", "wide.js")
    found = environment({"page": text("lcpool.report", "page.html.j2"), "more": template or ""})
    m = report.measure
    found.filters |= {"figure": m.figure, "signed": m.signed, "constant_mark": constant_mark}
    found.tests["known"] = pd.notna
    return found.get_template("more" if template else "page").render(
        **inline(style() + more_style, script),
        **_content(report),
        **content,
    )


def _content(report: Report) -> dict[str, Any]:
    """Everything that the template shows."""
    values = {name: list(dict.fromkeys(report.cells[name])) for name in NAMES}
    return {
        "report": report,
        "reference": report.reference.name,
        "alpha": ALPHA,
        "names": NAMES,
        "shapes": {", ".join(of): symbol for of, (symbol, _) in shapes(report).items()},
        "colours": colours(report),
        "filters": {name: of for name, of in values.items() if len(of) > 1},
        "findings": report.findings(),
        "provenance": provenance(report),
        "layouts": layouts(report.cells),
        "highlighted": highlighted(report),
        "ranks": rank_rows(report.ranked),
        "diagram": diagram(report),
        "spread": spread(report),
        "learning": learning(report),
        "time": costs(report, "seconds"),
        "memory": costs(report, "peak_memory"),
        "cells": cells_sheet(report),
        "differences": report.differences(),
        "verdicts": verdicts_sheet(report),
        "forest": forest(report),
        "pareto": pareto(report),
        "no_test": why_no_test(report.ranked),
    }


def style() -> str:
    """The style sheet of the page and of its pictures."""
    return text("lcpool.report", "+base.css", "page.css", "+tip.css", "print.css")


def alone(width: float, height: float, label: str, *children: str) -> str:
    """An image as a file of its own, with the style sheet that the page would lend it."""
    css = f"width: {width:.0f}px; background: var(--ground); font-family: system-ui, sans-serif"
    sheet = tag("style", Markup(style()))
    named = {"xmlns": "http://www.w3.org/2000/svg", "style": css}
    return f"{picture(width, height, label, sheet, *children, **named)}\n"


Row = dict[str, Any]


class Heading(NamedTuple):
    """A column of figures."""

    title: str
    tip: str  # what it means
    column: str  # of the data, by which the table is sorted
    write: Callable[[Any, Row], str]  # the text of an entry, from the value and the row
    look: Callable[[Row], str] = lambda row: ""  # its CSS class


class Sheet(NamedTuple):
    """A table that sorts."""

    names: list[str]  # the columns that name a row, by which it is filtered
    headings: list[Heading]  # the other columns
    rows: list[Row]


# A caption, an id, and the table if there is one.
DifferenceTable = tuple[str, str, Sheet | None]


def _sheet(table: pd.DataFrame, names: list[str], headings: list[Heading]) -> Sheet:
    """A row per row of the table, without columns that are empty."""
    shown = [heading for heading in headings if table[heading.column].notna().any()]
    return Sheet(names, shown, table.to_dict("records"))


def cells_sheet(report: Report) -> Sheet:
    """A row per cell."""
    name = report.reference.name
    overlap = "Widened, as splits of one dataset overlap (Nadeau and Bengio)."
    if not any(Scheme.of(name).varies for name in report.runs["split"].unique()):
        overlap = "Over initial parameters and orders only: all runs share one split."
    m = report.measure
    headings = [
        Heading(m.title, f"Mean {m.described[0].lower()}{m.described[1:]} ± standard deviation "
                f"over runs. Bold: the {m.best} of its group.", "mean",
                lambda mean, row: m.figure(mean, row["std"]),
                lambda row: "best" if row["best"] else ""),
        Heading("95 % interval", f"Of the mean, from {FEWEST_RUNS} runs on. {overlap}", "low",
                lambda low, row: f"{low:.{m.digits}f} to {row['high']:.{m.digits}f}"),
        Heading("constant", "Runs that predict the same class for all test graphs.", "constant",
                lambda runs, row: f"{runs:.0f} of {row['constant_of']}",
                lambda row: "differ" if row["constant"] > 0 else ""),
        Heading("largest class", "Percent of the test graphs in the largest class, mean over runs: "
                "the accuracy of always predicting it.", "largest_class", _only("{:.1f}".format)),
        Heading(name, f"The {name}'s figure for this cell.", "reference_mean",
                lambda mean, row: figure(mean, row["reference_std"])),
        Heading("difference", f"Ours − {name}, in points.", "difference", _only(signed)),
        Heading("tolerance", "The largest difference that counts as agreement: two standard "
                "errors, of the test graphs and of the runs.", "tolerance", _only("{:.2f}".format)),
        Heading("agrees", "Whether the difference is within the tolerance.", "agrees",
                lambda agrees, row: "yes" if agrees else "no",
                lambda row: "agree" if row["agrees"] else "differ"),
        Heading("runs", "Runs with a result; in parentheses, those that diverged before.", "runs",
                lambda runs, row: f"{runs}" + (f" ({row['lost']} lost)" if row["lost"] else "")),
        Heading("epochs", "Epochs trained, mean over runs.", "epochs", _only("{:.0f}".format)),
        Heading("time", "Seconds per run: its share of the time of the runs trained as one.",
                "seconds", _only(duration)),
        Heading("memory", "Peak GPU memory of the runs trained as one.", "peak_memory",
                _only(memory)),
    ]  # fmt: skip
    return _sheet(report.cells, [*GROUP, "pool"], headings)


def verdicts_sheet(report: Report) -> Sheet | None:
    """The reference against each other pooling; None where nothing can be compared."""
    v, m = report.verdicts, report.measure
    if not v.rivals:
        return None
    about = f"{v.reference} − pooling on the average dataset, in {m.points}"
    percent = _only(lambda p: f"{100 * p:.1f} %")
    headings = [
        Heading("verdict", f"What has a probability of {SURE:g} at least.", "better",
                lambda better, row: row["verdict"],
                lambda row: "" if row["verdict"] == "undecided" else "significant"),
        *(Heading(name, f"The probability that {about}, is {where} the margin of {v.margin:g}.",
                  name, percent)
          for name, where in (("worse", "below"), ("equal", "within"), ("better", "above"))),
        Heading("ahead", "The probability that the difference is above zero, by however little.",
                "ahead", percent),
        Heading("difference", f"{about}: mean of the posterior.", "difference", _only(signed)),
        Heading("95 % interval", "Of the posterior.", "low",
                lambda low, row: f"{signed(low)} to {signed(row['high'])}"),
        Heading("plain mean", "Over the datasets, each with the same weight.", "unweighted",
                _only(signed)),
        *(Heading(f"{name} on a new dataset", "The probability on one new dataset of the kind that "
                  "was tried, which differs from the average one.", f"new_{name}", percent)
          for name in ("worse", "better")),
        Heading("found with probability 0.8", "The true difference that these datasets and runs "
                "would have found to be better than the margin, by simulation.", "detectable",
                _only("{:.1f}".format)),
        Heading("more datasets", "How many more datasets like these would decide with probability "
                "0.8, if the difference stays as it is.", "more_datasets",
                _only(lambda n: f"{n:.0f}" if n <= MANY else f"> {MANY}")),
        Heading("datasets", "That both have results on.", "datasets", _only(str)),
        Heading("R̂", "Whether the sampler's chains agree: below 1.05.", "rhat",
                _only("{:.3f}".format)),
        Heading("ESS", "How many independent draws the sampler's are worth.", "ess",
                _only("{:.0f}".format)),
    ]  # fmt: skip
    return _sheet(v.table, ["pool"], headings)


def splits_sheet(c: Comparison, by: list[str], named: str | None = None) -> Sheet | None:
    """The reference against each other pooling, per dataset or group, over its splits.

    The reference is the first in rank, or the one that is named. None where no test is possible.
    """
    pairs = pairs_over_splits(c, by, named)
    if pairs.empty or pairs["p"].isna().all():
        return None
    reference, m, scheme = pairs["reference"].iloc[0], c.measure, c.schemes[c.varied[0]]
    over = "" if "backbone" in by else ", mean over the networks"
    most = 100.0 if m.metric.percent else math.inf  # of a difference of two percentages
    tests = count(int(pairs["tests"].iloc[0]), "comparison")
    why = "" if named else ": all pairs, because the reference was picked by these same figures"
    headings = [
        Heading("difference", f"{reference} − pooling {m.differences}, mean over the splits that "
                f"both were trained on{over}.", "difference", _only(m.signed)),
        Heading("95 % interval", f"Of {name_of_test(scheme)}.", "low",
                lambda low, row: f"{m.signed(max(low, -most))} to "
                                 f"{m.signed(min(row['high'], most))}"),
        Heading("p", f"{correction(scheme)} A dash: fewer than {FEWEST_RUNS} runs, or the same "
                "difference in all.", "p", _only(p_value)),
        Heading("p, Holm", f"The same, corrected for {tests}{why}.", "p_holm", _only(p_value),
                lambda row: "significant" if row["p_holm"] < ALPHA else ""),
        Heading("smallest detectable difference", f"{m.unit}: the smallest mean difference that "
                "this test would call significant, with this spread and this many comparisons.",
                "smallest", _only(f"{{:.{m.digits}f}}".format)),
    ]  # fmt: skip
    return _sheet(pairs, [*by, "pool"], headings)


def _only(write: Callable[[Any], str]) -> Callable[[Any, Row], str]:
    """What is written from the value alone."""
    return lambda value, row: write(value)
