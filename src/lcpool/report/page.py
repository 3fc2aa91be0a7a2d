"""The page: one HTML file that needs nothing else, neither network nor server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from lcpool.report.cells import GROUP
from lcpool.report.comparison import Comparison, pairs_over_datasets, pairs_over_splits
from lcpool.report.findings import FRESH, provenance, why_no_test
from lcpool.report.plots import colours, costs, diagrams, learning, shapes, spread
from lcpool.report.statistics import ALPHA, FEWEST_RUNS
from lcpool.report.tables import constant_mark, highlighted, layouts
from lcpool.report.words import count, duration, figure, memory, p_value, signed

if TYPE_CHECKING:
    from lcpool.report.api import Report

FILTERS = {
    "dataset": "Datasets",
    "backbone": "Backbones",
    "conv": "Convolutions",
    "pool": "Poolings",
}
EXPLAINED = {
    "dataset": "The graphs that were classified.",
    "backbone": "hierarchical adds the readouts of all convolutions, plain takes the last.",
    "conv": "The graph convolution.",
    "pooling": "The pooling operator; in parentheses, options that differ between runs.",
}


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


class Entry(NamedTuple):
    """What stands in a table: its text, what it is sorted by, and a class for its looks."""

    text: str
    value: str | None = None
    look: str = ""


@dataclass(frozen=True)
class Sheet:
    """A table that sorts.

    Attributes:
        columns: headings, with what they mean.
        rows: the names by which a row is filtered, and its entries.
        names: how many columns from the left are names.
    """

    columns: dict[str, str]
    rows: list[tuple[dict[str, str], list[Entry]]]
    names: int


# A caption, an id, and the table if there is one.
Difference = tuple[str, str, Sheet | None]


def cells_sheet(report: Report) -> Sheet:
    """A row for each cell, beside the published figure."""
    name = "" if report.reference is None else report.reference.name
    columns = {
        **EXPLAINED,
        "accuracy": "Mean test accuracy in percent ± standard deviation over runs. Bold: the "
        "highest of its group.",
        "95 % interval": f"Of the mean, for {FEWEST_RUNS} runs or more. {_interval_words(report)}",
        "constant": "Runs that predict one class for all test graphs.",
        "largest class": "How many percent of the test graphs are of the largest class, mean over "
        "runs: the accuracy of predicting it for all of them.",
        name: f"What the {name} reports for this cell.",
        "difference": f"Ours − {name}, in points.",
        "tolerance": "The largest difference that counts as agreement: two standard errors, of the "
        "test graphs and of the runs.",
        "agrees": "Whether the difference is within the tolerance.",
        "runs": "Runs with a result; in parentheses, those that diverged before there was any.",
        "epochs": "Epochs trained, mean over runs.",
        "time": "Seconds a run: its share of the time of the runs trained as one with it.",
        "memory": "Peak memory of the runs trained as one, on a GPU.",
    }
    rows = [(_names(cell), _cell_entries(cell)) for cell in report.cells.to_dict("records")]
    return _without_empty(Sheet(columns, rows, len(EXPLAINED)))


def _without_empty(sheet: Sheet) -> Sheet:
    """Without columns that say nothing in any row."""
    kept = [i for i, column in enumerate(zip(*(entries for _, entries in sheet.rows), strict=True))
            if i < sheet.names or any(entry.value is not None for entry in column)]  # fmt: skip
    headings = list(sheet.columns.items())
    rows = [(names, [entries[i] for i in kept]) for names, entries in sheet.rows]
    return Sheet(dict(headings[i] for i in kept), rows, sheet.names)


def _cell_entries(cell: dict[str, Any]) -> list[Entry]:
    lost = f" ({cell['lost']} lost)" if cell["lost"] else ""
    agrees = cell["agrees"]
    look = "" if pd.isna(agrees) else "agree" if agrees else "differ"
    return [
        *_name_entries(cell),
        _entry(
            cell["mean"], lambda mean: figure(mean, cell["std"]), "best" if cell["best"] else ""
        ),
        _entry(cell["low"], lambda low: f"{low:.2f} to {cell['high']:.2f}"),
        _entry(
            cell["constant"],
            lambda runs: f"{runs:.0f} of {cell['constant_of']}",
            "differ" if cell["constant"] > 0 else "",
        ),
        _entry(cell["largest_class"], "{:.1f}".format),
        _entry(cell["reference_mean"], lambda mean: figure(mean, cell["reference_std"])),
        _entry(cell["difference"], signed),
        _entry(cell["tolerance"], "{:.2f}".format),
        _entry(agrees, lambda found: "yes" if found else "no", look),
        _entry(cell["runs"], lambda runs: f"{runs:.0f}{lost}"),
        _entry(cell["epochs"], "{:.0f}".format),
        _entry(cell["seconds"], duration),
        _entry(cell["peak_memory"], memory),
    ]


def datasets_sheet(c: Comparison, reference: str, picked: bool) -> Sheet | None:
    """The reference against each other pooling over the datasets; None for one dataset."""
    pairs = pairs_over_datasets(c, reference, picked)
    if pairs.empty:
        return None
    columns = {
        "pooling": f"The pooling that {reference} is compared with.",
        "difference": f"{reference} − pooling in points: each dataset's mean over its backbones, "
        "then the mean over datasets.",
        "95 % interval": "Student's, over the datasets.",
        "better on": f"On how many datasets {reference} is better.",
        "p": "Wilcoxon's signed-rank test over the datasets, two-sided, exact for up to 13.",
        "p, Holm": f"The same, {_correction(pairs, picked)}.",
        "p, Nemenyi": "Of the difference of average ranks, corrected for all pairs.",
        "smallest detectable difference": "In points: the smallest mean difference that Student's "
        "t-test over these datasets would call significant, corrected for the same number of "
        "comparisons. Wilcoxon's test, which is made here, sees less among few datasets.",
    }
    rows = [
        (
            {"pool": pair["pool"]},
            [
                Entry(pair["pool"], pair["pool"]),
                *_difference_entries(pair),
                _entry(pair["better"], f"{{:.0f}} of {pair['datasets']}".format),
                _entry(pair["p"], p_value),
                *(_corrected(pair[name]) for name in ("p_holm", "p_nemenyi")),
                _entry(pair["smallest"], "{:.2f}".format),
            ],
        )
        for pair in pairs.to_dict("records")
    ]
    return Sheet(columns, rows, 1)


def splits_sheet(c: Comparison, reference: str, picked: bool, by: list[str]) -> Sheet | None:
    """The reference against each other pooling at each place, over its fresh splits.

    None where no test is possible.
    """
    pairs = pairs_over_splits(c, reference, picked, by)
    if pairs.empty or pairs["p"].isna().all():
        return None
    named = [*by, "pool"]
    over = "" if "backbone" in by else ", mean over the backbones"
    columns = {
        **{title: EXPLAINED[title] for title in (*by, "pooling")},
        "difference": f"{reference} − pooling in points, mean over splits that both were "
        f"trained on{over}.",
        "95 % interval": "Of the corrected resampled t-test.",
        "p": "Corrected resampled t-test (Nadeau and Bengio): splits of one dataset overlap, and "
        "the variance is taken as s²·(1/n + n_test/n_train). A dash: fewer than "
        f"{FEWEST_RUNS} runs, or the same difference in all.",
        "p, Holm": f"The same, {_correction(pairs, picked)}.",
        "smallest detectable difference": "In points: the smallest mean difference that this test "
        "would call significant among so many comparisons, as much as the splits differ.",
    }
    rows = [
        (
            {name: pair[name] for name in named},
            [*(Entry(pair[name], pair[name]) for name in named), *_difference_entries(pair),
             _entry(pair["p"], p_value), _corrected(pair["p_holm"]),
             _entry(pair["smallest"], "{:.2f}".format)],
        )
        for pair in pairs.to_dict("records")
    ]  # fmt: skip
    return Sheet(columns, rows, len(named))


def _correction(pairs: pd.DataFrame, picked: bool) -> str:
    tests = f"corrected for {count(int(pairs['tests'].iloc[0]), 'comparison')}"
    why = "the reference was picked by these same figures"
    return f"{tests}: of all pairs, for {why}" if picked else tests


def _interval_words(report: Report) -> str:
    if report.split == "fresh":
        return "Widened, as splits of one dataset overlap (Nadeau and Bengio)."
    return "Over first parameters and orders alone: all runs share one split."


def _names(row: dict[str, Any]) -> dict[str, str]:
    return {name: row[name] for name in (*GROUP, "pool")}


def _name_entries(row: dict[str, Any]) -> Iterable[Entry]:
    return (Entry(name, name) for name in _names(row).values())


def _difference_entries(pair: dict[str, Any]) -> list[Entry]:
    # No difference of two percentages is beyond these.
    low, high = max(pair["low"], -100.0), min(pair["high"], 100.0)
    return [
        _entry(pair["difference"], signed),
        _entry(pair["low"], lambda _: f"{signed(low)} to {signed(high)}"),
    ]


def _corrected(p: float) -> Entry:
    """Bold where it is significant; a p that is not corrected never is."""
    return _entry(p, p_value, "significant" if p < ALPHA else "")


def _entry(value: Any, write: Callable[[float], str], look: str = "") -> Entry:
    """A number as it is to be read, and as it is sorted; a dash, and last, where there is none."""
    if pd.isna(value):
        return Entry("–")
    return Entry(write(float(value)), f"{float(value):.6g}", look)
