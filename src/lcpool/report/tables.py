"""The paper's tables in its layout: a table for each backbone, poolings down, datasets across."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from lcpool.report.comparison import VARIANT
from lcpool.report.words import count, figure

if TYPE_CHECKING:
    from lcpool.report.api import Report

COLUMNS = [
    "dataset", "backbone", "conv", "pool", "runs", "lost", "mean", "std", "half", "best",
    "paper_mean", "paper_std", "difference", "tolerance", "agrees", "epochs", "seconds",
    "peak_memory", "stack", "num_test",
]  # fmt: skip

# Characters that LaTeX gives a meaning.
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """One table of accuracies.

    Attributes:
        backbone: its backbone.
        conv: its convolution.
        pools: the rows.
        datasets: the columns.
        cells: by pooling and dataset, what is known; a cell that was not trained is not there.
    """

    backbone: str
    conv: str
    pools: list[str]
    datasets: list[str]
    cells: dict[tuple[str, str], dict[str, Any]]


def layouts(cells: pd.DataFrame) -> list[Layout]:
    """The tables of all backbones."""
    found = []
    for (backbone, conv), part in cells.groupby(["backbone", "conv"], sort=False):
        rows = part.to_dict("records")
        by_name = {(row["pool"], row["dataset"]): row for row in rows}
        pools, datasets = (list(dict.fromkeys(part[name])) for name in ("pool", "dataset"))
        found.append(Layout(backbone, conv, pools, datasets, by_name))
    return found


def ranking(report: Report) -> pd.DataFrame:
    """Average ranks: a row for each backbone, if there are several, and one over the datasets."""
    c = report.ranked
    if c.empty:
        return pd.DataFrame()
    rows, names = [c.average_ranks(c.means)], ["all, by dataset"]
    if len(c.backbones) > 1:
        rows = [*c.backbone_ranks(c.means), *rows]
        names = [*(f"{backbone}, {conv}" for backbone, conv in c.backbones), *names]
    return pd.DataFrame(rows, index=names, columns=list(c.pools))


def csv(report: Report) -> str:
    """A row for each cell."""
    return str(report.cells[COLUMNS].to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def markdown(report: Report) -> str:
    """For a repository or an issue; the paper's figures stand small under ours."""
    style = Markdown()
    return f"# Test accuracy\n\n{description(report, style)}\n\n{_written(report, style)}"


def latex(report: Report) -> str:
    """For a paper; needs no packages."""
    style = Latex()
    return f"% {description(report, style)}\n\n{_written(report, style)}"


def description(report: Report, style: Markdown | Latex) -> str:
    """What the figures are, and how many agree with the paper's."""
    agreeing, judged = report.agreeing
    text = (
        f"Test accuracy in percent, mean ± standard deviation over runs ({report.split} split, "
        f"epoch chosen by validation {report.rule}). The highest of each dataset is bold"
    )
    text += f", {VARIANT} aside." if VARIANT in set(report.cells["pool"]) else "."
    if judged:
        text += (
            f" Below stands the paper's figure, {style.marks}: {agreeing} of "
            f"{count(judged, 'published cell')} agree."
        )
    return text


class Markdown:
    """GitHub's Markdown."""

    agree, differ = " ✓", " ✗"
    marks = "with ✓ where the two agree and ✗ where they do not"

    def escape(self, name: str) -> str:
        """A name as it is, whatever is in it."""
        plain = name.replace("&", "&amp;").replace("<", "&lt;")
        return re.sub(r"([\\`*_{}\[\]()#+!|~$:>-])", r"\\\1", " ".join(plain.split()))

    def figure(self, mean: float, std: float) -> str:
        """Mean ± std."""
        return figure(mean, std)

    def bold(self, text: str) -> str:
        """Highlighted."""
        return f"**{text}**"

    def above(self, text: str, small: str) -> str:
        """Two lines in one cell, the second small."""
        return f"{text}<br><sub>{small}</sub>"

    def table(self, title: str, header: list[str], rows: list[list[str]]) -> str:
        """A heading and a table."""
        lines = [header, ["---"] * len(header), *rows]
        return f"## {title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


class Latex:
    """A ``table`` as the paper has them."""

    agree, differ = "", r"$^\dagger$"
    marks = "with a dagger where the two do not agree"

    def escape(self, name: str) -> str:
        """A name as it is, whatever is in it."""
        return "".join(LATEX.get(character, character) for character in " ".join(name.split()))

    def figure(self, mean: float, std: float) -> str:
        """Mean ± std, the latter small."""
        return re.sub(r" ± (.*)", r"{\\tiny$\\pm$\1}", figure(mean, std)).replace("–", "--")

    def bold(self, text: str) -> str:
        """Highlighted."""
        return rf"\textbf{{{text}}}"

    def above(self, text: str, small: str) -> str:
        """Two lines in one cell, the second small."""
        return rf"\shortstack{{{text}\\{{\tiny {small}}}}}"

    def table(self, title: str, header: list[str], rows: list[list[str]]) -> str:
        """A floating table with a caption."""
        body = "\n".join(" & ".join(row) + r" \\" for row in rows)
        columns = "l" + "c" * (len(header) - 1)
        return (
            "\\begin{table}[htbp]\n"
            f"\\caption{{{title}}}\n\\footnotesize\n\\centering\n"
            f"\\begin{{tabular}}{{{columns}}}\n\\hline\n{' & '.join(header)} \\\\ \\hline\n"
            f"{body}\n\\hline\n\\end{{tabular}}\n\\end{{table}}"
        )


def _written(report: Report, style: Markdown | Latex) -> str:
    """All tables in one format."""
    parts = []
    for layout in layouts(report.cells):
        rows = [
            [
                style.escape(pool),
                *(_cell(layout.cells.get((pool, d)), style) for d in layout.datasets),
            ]
            for pool in layout.pools
        ]
        title = f"Accuracy, {style.escape(layout.backbone)} backbone, {style.escape(layout.conv)}"
        parts.append(style.table(title, ["", *map(style.escape, layout.datasets)], rows))
    ranks = ranking(report)
    if len(ranks):
        rows = [
            [style.escape(name), *_lowest_bold(list(row), style)]
            for name, row in zip(ranks.index, ranks.to_numpy(), strict=True)
        ]
        parts.append(style.table("Average rank", ["", *map(style.escape, ranks.columns)], rows))
    return "\n\n".join(parts) + "\n"


def _cell(cell: dict[str, Any] | None, style: Markdown | Latex) -> str:
    if cell is None:
        return style.figure(math.nan, math.nan)
    text = style.figure(cell["mean"], cell["std"])
    text = style.bold(text) if cell["best"] else text
    if pd.isna(cell["paper_mean"]):
        return text
    mark = "" if pd.isna(cell["agrees"]) else style.agree if cell["agrees"] else style.differ
    return style.above(text, style.figure(cell["paper_mean"], cell["paper_std"]) + mark)


def _lowest_bold(row: list[float], style: Markdown | Latex) -> list[str]:
    least = min(row) + 1e-9
    return [style.bold(f"{rank:.2f}") if rank <= least else f"{rank:.2f}" for rank in row]
