"""Tables of accuracies and ranks: CSV, Markdown, LaTeX, and for the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from lcpool.report.cells import GROUP
from lcpool.report.comparison import Comparison
from lcpool.report.findings import constants_in_words
from lcpool.report.measure import Measure
from lcpool.report.statistics import rounded
from lcpool.spreadsheet import protected
from lcpool.words import between, count, figure, listed, signed

if TYPE_CHECKING:
    from lcpool.report.api import Report

# Of ``tables.csv``; the 95 % interval of the mean is from low to high.
CELL_COLUMNS = [
    "dataset", "backbone", "conv", "pool", "split", "rule", "settings", "runs", "lost", "mean",
    "std", "low", "high", "best", "reference_mean", "reference_std", "difference", "tolerance",
    "agrees", "epochs", "seconds", "peak_memory", "stack", "num_train", "num_test",
    "largest_class", "constant", "constant_of",
]  # fmt: skip
WHOLE = ["peak_memory", "num_train", "num_test"]
# Left out where they are unknown.
IF_KNOWN = {
    "reference_mean": ["reference_mean", "reference_std", "difference", "tolerance", "agrees"],
    "constant": ["largest_class", "constant", "constant_of"],
}
Backbone = tuple[str, str]
ALL: Backbone = ("all", "by dataset")


def csv(report: Report) -> str:
    """A row per cell."""
    metric = report.measure.metric.name
    columns = CELL_COLUMNS if metric == "accuracy" else ["metric", *CELL_COLUMNS]
    table = report.cells.assign(split=report.split, rule=report.rule, metric=metric)[columns]
    table[WHOLE] = table[WHOLE].round().astype("Int64")
    for known, columns in IF_KNOWN.items():
        if table[known].isna().all():
            table = table.drop(columns=columns)
    name = report.reference.name
    return _csv(table.rename(columns=lambda column: column.replace("reference", name)))


def ranks_csv(report: Report) -> str:
    """A row per average rank."""
    rows = [
        (*name, pool, rank)
        for name, row in rank_rows(report.ranked).items()
        for pool, rank in zip(report.ranked.pools, row, strict=True)
    ]
    return _csv(pd.DataFrame(rows, columns=["backbone", "conv", "pool", "rank"]))


def verdicts_csv(report: Report) -> str:
    """A row per pooling that the reference was compared with; see :class:`Verdicts`."""
    v = report.verdicts
    empty = pd.DataFrame(columns=["reference", "pool"])
    return _csv(v.table.assign(margin=v.margin) if v.rivals else empty)


def sensitivity_csv(report: Report) -> str:
    """A row per other analysis and pooling."""
    empty = pd.DataFrame(columns=["analysis", "pool"])
    return _csv(report.sensitivity if len(report.sensitivity) else empty)


def verdict_rows(report: Report) -> tuple[list[str], list[list[str]]]:
    """The verdicts for reading: headings and a row per pooling, the greatest lead last."""
    v = report.verdicts
    header = [f"{v.reference} against", "verdict", "worse / equal / better, %",
              f"difference, {report.measure.points}", "plain mean"]  # fmt: skip
    rows = []
    for rival in v.rivals:
        shares, word, mean = "–", "–", signed(rival.mean, 1)
        if pd.notna(rival.regions.equal):
            shares = " / ".join(f"{100 * p:.1f}" for p in rival.regions)
            word, mean = rival.word, f"{mean} ({signed(rival.low, 1)} to {signed(rival.high, 1)})"
        rows.append([rival.pool, word, shares, mean, signed(rival.unweighted, 1)])
    return header, rows


def _csv(table: pd.DataFrame) -> str:
    return str(protected(table).to_csv(index=False, float_format="%.6g", lineterminator="\n"))


class Layout(NamedTuple):
    """One table of accuracies, poolings down, datasets across."""

    backbone: str
    conv: str
    pools: list[str]
    datasets: list[str]
    cells: dict[tuple[str, str], dict[str, Any]]  # by pooling and dataset, if it was trained
    sizes: dict[str, list[str]]  # the last rows, about the test graphs


def layouts(cells: pd.DataFrame) -> list[Layout]:
    """A table for each backbone and convolution."""
    found = []
    for (backbone, conv), part in cells.groupby(["backbone", "conv"], sort=False):
        by_name = {(row["pool"], row["dataset"]): row for row in part.to_dict("records")}
        pools, datasets = (list(dict.fromkeys(part[name])) for name in ("pool", "dataset"))
        found.append(Layout(backbone, conv, pools, datasets, by_name, size_rows(part, datasets)))
    return found


def size_rows(cells: pd.DataFrame, datasets: Sequence[str]) -> dict[str, list[str]]:
    """The number of test graphs of each dataset, and the share of the largest class if known."""
    parts = [cells[cells["dataset"] == dataset] for dataset in datasets]
    largest = [part["largest_class"].mean() for part in parts]
    rows = {"test graphs": [between(part["num_test"], 0) for part in parts]}
    if pd.notna(largest).any():
        rows["largest class, %"] = ["–" if pd.isna(share) else f"{share:.1f}" for share in largest]
    return rows


def rank_rows(c: Comparison) -> dict[Backbone, list[float]]:
    """Average ranks by backbone and convolution, and last over all datasets.

    Nothing for a single group, where a rank says no more than the accuracy.
    """
    if c.empty or len(c.groups) < 2:
        return {}
    rows = dict(zip(c.backbones, c.backbone_ranks(c.means).tolist(), strict=True))
    overall = {ALL: list(c.rank.values())}
    return overall if len(rows) == 1 else {**rows, **overall}


def summary(report: Report) -> tuple[list[str], list[list[str]], list[list[str]]]:
    """For the terminal: headings, a row per pooling, the best first, and rows about the datasets.

    Accuracies are means over the networks of a dataset; ``(1 of 2)`` says that some have no result,
    and ``!`` that runs predict a single class.
    """
    c = report.ranked
    ranked, order = ([], []) if c.empty else (c.datasets, c.order)
    cells = report.cells[~report.cells["pool"].isin(report.aside) & report.cells["mean"].notna()]
    # Where a network of a dataset is not ranked, its accuracies are not in the means either.
    kept = pd.MultiIndex.from_frame(cells[GROUP]).isin(pd.MultiIndex.from_frame(c.groups))
    cells = cells[kept | ~cells["dataset"].isin(ranked)]
    others = [name for name in cells["dataset"].unique() if name not in ranked]
    datasets = [*ranked, *others]
    networks = cells.drop_duplicates(GROUP)["dataset"].value_counts()
    parts = dict(iter(cells.groupby(["pool", "dataset"])))
    rows = [
        [pool, *(_mean(parts.get((pool, d)), networks[d], report.measure) for d in datasets)]
        for pool in dict.fromkeys([*order, *cells["pool"]])
    ]
    sizes = [[name, *values] for name, values in size_rows(cells, datasets).items()]
    header = [report.measure.heading, *ranked, *(f"{name} (not ranked)" for name in others)]
    if len(ranked) > 1:
        header.append("average rank")
        rows = [[*row, f"{c.rank[row[0]]:.2f}" if row[0] in c.rank else "–"] for row in rows]
        sizes = [[*row, ""] for row in sizes]
    return header, rows, sizes


def _mean(cells: pd.DataFrame | None, networks: int, measure: Measure) -> str:
    if cells is None:
        return "–"
    part = f" ({len(cells)} of {networks})" if len(cells) < networks else ""
    mean = measure.figure(float(rounded(cells["mean"].mean())), math.nan)
    return f"{mean}{part}{' !' if cells['constant'].sum() else ''}"


def markdown(report: Report) -> str:
    """For a repository or an issue."""
    return _written(report, Markdown())


def latex(report: Report) -> str:
    """For a paper; needs the package booktabs."""
    return _written(report, Latex())


def highlighted(report: Report) -> str:
    """What is bold."""
    aside = f" (without {listed(sorted(report.aside))})" if report.aside else ""
    return f"the {report.measure.best} of each dataset is bold{aside}"


def _description(report: Report, style: Markdown | Latex) -> str:
    """What the figures are, and how many agree with published ones."""
    agreeing, judged = report.agreeing
    text = (
        f"{report.measure.described}, mean ± standard deviation over runs ({report.split} split, "
        f"epoch chosen by validation {report.rule_title}); {style.escape(highlighted(report))}."
    )
    if judged:
        text += (
            f" Below is the {report.reference.name}'s figure, {style.marks}: {agreeing} of "
            f"{count(judged, 'published cell')} agree."
        )
    return text


def _written(report: Report, style: Markdown | Latex) -> str:
    """All tables in one format."""
    parts = [style.first(_description(report, style), report.measure.title)]
    m = report.measure
    for layout in layouts(report.cells):
        rows = [
            [pool, *(_cell_text(layout.cells.get((pool, d)), style, m) for d in layout.datasets)]
            for pool in layout.pools
        ]
        rows += [[name, *sizes] for name, sizes in layout.sizes.items()]
        title = f"{m.capital}, {layout.backbone} backbone, {layout.conv}"
        parts.append(style.table(title, ["", *layout.datasets], rows))
    header, rows = verdict_rows(report)
    if rows:
        title = f"{report.verdicts.reference}: better, equal or worse"
        parts.append(style.table(title, header, rows))
        parts += [style.note(style.escape(text)) for text in report.findings()["answer"]]
    rows = [
        [", ".join(name), *(style.bold(f"{r:.2f}") if r == min(row) else f"{r:.2f}" for r in row)]
        for name, row in rank_rows(report.ranked).items()
    ]
    if rows:
        parts.append(style.table("Average rank", ["", *report.ranked.pools], rows))
    said = (*constants_in_words(report.cells), *report.not_ranked())
    parts += [style.note(style.escape(text)) for text in said]
    return "\n\n".join(parts) + "\n"


def _cell_text(cell: dict[str, Any] | None, style: Markdown | Latex, measure: Measure) -> str:
    if cell is None:
        return "–"
    text = measure.figure(cell["mean"], cell["std"])
    text = style.bold(text) if cell["best"] else text
    if cell["constant"] > 0:
        text = style.above(text, constant_mark(cell))
    if pd.isna(cell["reference_mean"]):
        return text
    mark = "" if pd.isna(cell["agrees"]) else style.agree if cell["agrees"] else style.differ
    return style.above(text, figure(cell["reference_mean"], cell["reference_std"]) + mark)


def constant_mark(cell: Mapping[str, Any]) -> str:
    """How many runs of a cell predict a single class."""
    return f"{cell['constant']:.0f} of {cell['constant_of']} constant"


class Markdown:
    """GitHub's Markdown."""

    agree, differ = " ✓", " ✗"
    marks = "✓ where the two agree and ✗ where they do not"
    first, note, bold = "# Test {1}\n\n{0}".format, "{}".format, "**{}**".format
    above = "{}<br><sub>{}</sub>".format  # two lines in one cell, the second small

    def escape(self, text: str) -> str:
        plain = text.replace("&", "&amp;").replace("<", "&lt;")
        return re.sub(r"([\\`*_{}\[\]#+!|~$:>-])", r"\\\1", " ".join(plain.split()))

    def table(self, title: str, header: list[str], rows: list[list[str]]) -> str:
        """A heading and a table; headings and first columns are names."""
        names = [[self.escape(row[0]), *row[1:]] for row in rows]
        return f"## {self.escape(title)}\n\n{self.grid([self.escape(h) for h in header], names)}"

    def grid(self, header: list[str], rows: list[list[str]]) -> str:
        """The table alone, of Markdown."""
        lines = [header, ["---"] * len(header), *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


class Latex:
    """LaTeX, written by pandas."""

    agree, differ = "", r"$^\dagger$"
    marks = "a dagger where the two do not agree"
    first, note, bold = "% {}".format, "% {}".format, r"\textbf{{{}}}".format
    above = r"\shortstack{{{}\\{{\tiny {}}}}}".format

    def escape(self, text: str) -> str:
        """Text on one line, for comments; pandas escapes names."""
        return " ".join(text.split())

    def table(self, title: str, header: list[str], rows: list[list[str]]) -> str:
        """A floating table under a heading that spans its columns."""
        columns = pd.MultiIndex.from_product([[title], map(self.escape, header[1:])])
        names = [self.escape(row[0]) for row in rows]
        style = pd.DataFrame([row[1:] for row in rows], names, columns).style
        style = style.format_index(escape="latex").format_index(escape="latex", axis=1)
        text: str = style.to_latex(
            position="htbp", position_float="centering", hrules=True, multicol_align="c",
            column_format="l" + "c" * len(columns),
        )  # fmt: skip
        return text.strip().replace("±", r"$\pm$")
