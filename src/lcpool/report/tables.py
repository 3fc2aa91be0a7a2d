"""Tables of accuracies and ranks, as Markdown, LaTeX and CSV, and for the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from lcpool.report.cells import GROUP, HeldOut, held_out
from lcpool.report.comparison import Comparison
from lcpool.report.findings import constants_in_words
from lcpool.report.statistics import rounded
from lcpool.report.words import count, figure, listed

if TYPE_CHECKING:
    from lcpool.report.api import Report

# Only where figures are compared with published ones.
REFERENCE = ["reference_mean", "reference_std", "difference", "tolerance", "agrees"]
# Of ``tables.csv``; the 95 % interval of the mean reaches from low to high.
COLUMNS = [
    "dataset", "backbone", "conv", "pool", "split", "rule", "settings", "runs", "lost", "mean",
    "std", "low", "high", "best", *REFERENCE, "epochs", "seconds", "peak_memory",
    "stack", "num_train", "num_test",
]  # fmt: skip
WHOLE = ["peak_memory", "num_train", "num_test"]
# Only where they are known.
LATER = ["largest_class", "constant", "constant_of"]
Backbone = tuple[str, str]
ALL: Backbone = ("all", "by dataset")
# Characters that LaTeX gives a meaning.
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"{\char34}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    # After the end of a row, [ and * belong to it; hyphens and quotes would join.
    **{character: f"{{{character}}}" for character in "[]*-`'"},
}  # fmt: skip
# Of figures beside their names, what fits a line of the class article.
LATEX_COLUMNS = 7


@dataclass(frozen=True)
class Layout:
    """One table of accuracies.

    Attributes:
        backbone: its backbone.
        conv: its convolution.
        pools: the rows.
        datasets: the columns.
        cells: by pooling and dataset, what is known; a cell that was not trained is not there.
        held_out: by dataset, the graphs that accuracies are measured on.
    """

    backbone: str
    conv: str
    pools: list[str]
    datasets: list[str]
    cells: dict[tuple[str, str], dict[str, Any]]
    held_out: dict[str, HeldOut]

    @property
    def sizes(self) -> dict[str, list[str]]:
        """Rows below the accuracies."""
        return size_rows([self.held_out[dataset] for dataset in self.datasets])


def layouts(cells: pd.DataFrame) -> list[Layout]:
    """The tables of all backbones."""
    found = []
    for (backbone, conv), part in cells.groupby(["backbone", "conv"], sort=False):
        rows = part.to_dict("records")
        by_name = {(row["pool"], row["dataset"]): row for row in rows}
        pools, datasets = (list(dict.fromkeys(part[name])) for name in ("pool", "dataset"))
        found.append(Layout(backbone, conv, pools, datasets, by_name, held_out(part)))
    return found


def csv(report: Report) -> str:
    """A row for each cell."""
    later = LATER if report.cells[LATER[:2]].notna().any(axis=None) else []
    table = report.cells.assign(split=report.split, rule=report.rule)[[*COLUMNS, *later]]
    table[WHOLE] = table[WHOLE].round().astype("Int64")
    if report.reference is None:
        table = table.drop(columns=REFERENCE)
    else:
        name = report.reference.name
        table = table.rename(columns=lambda column: column.replace("reference", name))
    return str(table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def ranks_csv(report: Report) -> str:
    """A row for each average rank, beside others of the same where there are."""
    found = report.rankings()
    rows = [
        {
            **dict(zip(("table", "backbone", "conv"), (ranking.title, *name), strict=True)),
            "pool": pool,
            "rank": rank.ours,
            **dict(zip(ranking.others, rank.others, strict=False)),
        }
        for ranking in found
        for name, row in ranking.rows.items()
        for pool, rank in zip(ranking.pools, row, strict=True)
    ]
    others = dict.fromkeys(name for ranking in found for name in ranking.others)
    table = pd.DataFrame(rows, columns=["table", "backbone", "conv", "pool", "rank", *others])
    return str(table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def markdown(report: Report) -> str:
    """For a repository or an issue; published figures stand small under ours."""
    style = Markdown()
    return f"# Test accuracy\n\n{description(report, style)}\n\n{_written(report, style)}"


def latex(report: Report) -> str:
    """For a paper; needs no packages."""
    style = Latex()
    return f"{style.note(description(report, style))}\n\n{_written(report, style)}"


def highlighted(report: Report, escape: Callable[[str], str] = str) -> str:
    """What is bold."""
    aside = [escape(pool) for pool in sorted(report.aside)]
    return "the highest of each dataset is bold" + (f", {listed(aside)} aside" if aside else "")


def description(report: Report, style: Markdown | Latex) -> str:
    """What the figures are, and how many agree with published ones."""
    agreeing, judged = report.agreeing
    text = (
        f"Test accuracy in percent, mean ± standard deviation over runs ({report.split} split, "
        f"epoch chosen by validation {report.rule}); {highlighted(report, style.escape)}."
    )
    if judged and report.reference is not None:
        text += (
            f" Below stands the {report.reference.name}'s figure, {style.marks}: {agreeing} of "
            f"{count(judged, 'published cell')} agree."
        )
    return " ".join(text.split())


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
        if style.sizes:
            rows += [[f"*{name}*", *sizes] for name, sizes in layout.sizes.items()]
        title = f"Accuracy, {style.escape(layout.backbone)} backbone, {style.escape(layout.conv)}"
        parts.append(style.table(title, ["", *map(style.escape, layout.datasets)], rows))
    parts += [part for ranking in report.rankings() for part in _ranking(ranking, style)]
    parts += map(style.sentence, (*constants_in_words(report.cells), *report.not_ranked()))
    return "\n\n".join(parts) + "\n"


def _cell(cell: dict[str, Any] | None, style: Markdown | Latex) -> str:
    if cell is None:
        return style.figure(math.nan, math.nan)
    text = style.figure(cell["mean"], cell["std"])
    text = style.bold(text) if cell["best"] else text
    if cell["constant"] > 0:
        text = style.above(text, constant_mark(cell))
    if pd.isna(cell["reference_mean"]):
        return text
    mark = "" if pd.isna(cell["agrees"]) else style.agree if cell["agrees"] else style.differ
    return style.above(text, style.figure(cell["reference_mean"], cell["reference_std"]) + mark)


def _ranking(ranking: Ranking, style: Markdown | Latex) -> list[str]:
    rows = [
        [style.lines(*map(style.escape, name)), *_ranks(row, style)]
        for name, row in ranking.rows.items()
    ]
    table = style.table(ranking.title, ["", *map(style.escape, ranking.pools)], rows)
    return [table, style.note(f"Below ours: {ranking.note}")] if ranking.others else [table]


def _ranks(row: list[Rank], style: Markdown | Latex) -> list[str]:
    least, texts = min(rank.ours for rank in row), []
    for rank in row:
        text = f"{rank.ours:.2f}"
        text = style.bold(text) if rank.ours == least else text
        if rank.others:
            text = style.above(text, rank.beside)
        texts.append(text)
    return texts


class Rank(NamedTuple):
    """An average rank, and the same by other figures."""

    ours: float
    others: tuple[float, ...] = ()

    @property
    def beside(self) -> str:
        """The others as text."""
        return " / ".join(f"{rank:.2f}" for rank in self.others)


@dataclass(frozen=True)
class Ranking:
    """A table of average ranks.

    Attributes:
        title: what it is of.
        pools: the columns.
        rows: by backbone and convolution, the rank of each pooling; last, over all the datasets.
        others: names of the ranks that stand beside ours, if there are any.
        note: what they are.
        tip: the same in short.
    """

    title: str
    pools: tuple[str, ...]
    rows: dict[Backbone, list[Rank]]
    others: tuple[str, ...] = ()
    note: str = ""
    tip: str = ""


def rankings(c: Comparison) -> list[Ranking]:
    """What is ranked; nothing for a single group, where a rank says no more than the accuracy."""
    if c.empty or len(c.groups) < 2:
        return []
    rows = {name: [Rank(rank) for rank in row] for name, row in rank_rows(c).items()}
    return [Ranking("Average rank", c.pools, rows)]


def rank_rows(c: Comparison) -> dict[Backbone, list[float]]:
    """Average ranks by backbone and convolution, and over all the datasets."""
    rows = dict(zip(c.backbones, c.backbone_ranks(c.means).tolist(), strict=True))
    overall = {ALL: c.average_ranks(c.means).tolist()}
    return overall if len(rows) == 1 else {**rows, **overall}


def size_rows(datasets: Sequence[HeldOut]) -> dict[str, list[str]]:
    """Below the accuracies on these datasets: how many test graphs, and the largest class if known.

    >>> size_rows([HeldOut(300, 300, 95.0), HeldOut(47, 47, None)])
    {'test graphs': ['300', '47'], 'largest class, %': ['95.0', '–']}
    """
    rows = {"test graphs": [of.size for of in datasets]}
    if any(of.largest is not None for of in datasets):
        rows["largest class, %"] = [of.share for of in datasets]
    return rows


def constant_mark(cell: Mapping[str, Any]) -> str:
    """Of a cell with runs that predict one class: how many."""
    return f"{cell['constant']:.0f} of {cell['constant_of']} constant"


class Mean(NamedTuple):
    """Accuracy on a dataset, mean over backbones.

    Attributes:
        accuracy: in percent.
        groups: over how many backbones.
        of: how many backbones the dataset has.
        constant: how many runs predict one class for all test graphs, as far as that is known.
    """

    accuracy: float
    groups: int
    of: int
    constant: int = 0


class Row(NamedTuple):
    """A pooling: its average rank, if it is ranked over several datasets, and its accuracies."""

    pool: str
    rank: float | None
    means: dict[str, Mean]


@dataclass(frozen=True)
class Summary:
    """Poolings by rank, then those that are not ranked, with the accuracies that they have.

    Attributes:
        datasets: the columns; those that are not ranked come last.
        unranked: the datasets among them that are not ranked.
        rows: the poolings, the first in rank first.
        held_out: by dataset, the graphs that accuracies are measured on.
    """

    datasets: list[str]
    unranked: frozenset[str]
    rows: list[Row]
    held_out: dict[str, HeldOut]


def summary(report: Report) -> Summary:
    """Everything that was trained, but for the variant that stands outside the ranking."""
    c = report.ranked
    ranked = [] if c.empty else c.datasets
    cells = report.cells[~report.cells["pool"].isin(report.aside) & report.cells["mean"].notna()]
    # Where a backbone is left out of the ranking, its accuracies are not in these means either.
    groups = set(c.groups.itertuples(index=False, name=None))
    named = zip(cells["dataset"], cells[GROUP].itertuples(index=False, name=None), strict=True)
    kept = [dataset not in ranked or group in groups for dataset, group in named]
    cells = cells[np.array(kept, dtype=bool)]
    others = [name for name in dict.fromkeys(cells["dataset"]) if name not in ranked]
    num_groups = cells.drop_duplicates(GROUP)["dataset"].value_counts()
    of_pool = {
        pool: {
            name: Mean(
                float(rounded(own["mean"].mean())),
                len(own),
                int(num_groups[name]),
                int(own["constant"].sum()),
            )
            for name, own in part.groupby("dataset", sort=False)
        }
        for pool, part in cells.groupby("pool", sort=False)
    }
    order = [] if c.empty else c.order
    rank: dict[str, float] = {}
    if len(ranked) > 1:
        rank = dict(zip(c.pools, c.average_ranks(c.means).tolist(), strict=True))
    pools = [*order, *(pool for pool in of_pool if pool not in order)]
    rows = [Row(pool, rank.get(pool), of_pool[pool]) for pool in pools]
    return Summary([*ranked, *others], frozenset(others), rows, held_out(cells))


class Markdown:
    """GitHub's Markdown."""

    agree, differ = " ✓", " ✗"
    marks = "with ✓ where the two agree and ✗ where they do not"
    sizes = True  # Tables of accuracies end with the sizes of the test sets.

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

    def lines(self, *texts: str) -> str:
        """A name of several parts."""
        return ", ".join(texts)

    def table(self, title: str, header: list[str], rows: list[list[str]]) -> str:
        """A heading and a table."""
        return f"## {title}\n\n{self.grid(header, rows)}"

    def grid(self, header: list[str], rows: list[list[str]]) -> str:
        """The table alone."""
        lines = [header, ["---"] * len(header), *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def note(self, text: str) -> str:
        """A paragraph."""
        return text

    def sentence(self, text: str) -> str:
        """A paragraph of plain text."""
        return self.escape(text)


class Latex:
    """A floating ``table``; where columns are many, several."""

    agree, differ = "", r"$^\dagger$"
    marks = "with a dagger where the two do not agree"
    sizes = False

    def escape(self, name: str) -> str:
        """A name as it is; what pdfLaTeX has no character for, by its number (U+6570)."""
        return "".join(_character(character) for character in " ".join(name.split()))

    def figure(self, mean: float, std: float) -> str:
        """Mean ± std, the latter small."""
        return re.sub(r" ± (.*)", r"{\\tiny$\\pm$\1}", figure(mean, std)).replace("–", "--")

    def bold(self, text: str) -> str:
        """Highlighted."""
        return rf"\textbf{{{text}}}"

    def above(self, text: str, small: str) -> str:
        """Two lines in one cell, the second small."""
        return rf"\shortstack{{{text}\\{{\tiny {small}}}}}"

    def lines(self, *texts: str) -> str:
        """A name of several parts, one a line."""
        return r"\shortstack[l]{" + r"\\".join(texts) + "}"

    def table(self, title: str, header: list[str], rows: list[list[str]]) -> str:
        """Floating tables with captions, each with LATEX_COLUMNS beside the names at most."""
        parts = range(1, max(len(header), 2), LATEX_COLUMNS)
        return "\n\n".join(
            _float(title, [[row[0], *row[i : i + LATEX_COLUMNS]] for row in (header, *rows)])
            for i in parts
        )

    def note(self, text: str) -> str:
        """A comment."""
        return f"% {text}"

    def sentence(self, text: str) -> str:
        """A comment of plain text."""
        return f"% {' '.join(text.split())}"


def _character(character: str) -> str:
    if character.isascii() and character.isprintable():
        return LATEX.get(character, character)
    # Of others, LaTeX knows the letters of Western Europe without a package, but for four.
    known = "À" <= character <= "ÿ" and character not in "ÐÞðþ×÷"
    return character if known else f"U+{ord(character):04X}"


def _float(title: str, lines: list[list[str]]) -> str:
    header, *rows = (" & ".join(line) + r" \\" for line in lines)
    body = "\n".join(rows)
    return (
        f"\\begin{{table}}[htbp]\n\\caption{{{title}}}\n"
        "\\footnotesize\n\\setlength{\\tabcolsep}{3pt}\n\\centering\n"
        f"\\begin{{tabular}}{{{'l' + 'c' * (len(lines[0]) - 1)}}}\n\\hline\n"
        f"{header} \\hline\n{body}\n\\hline\n\\end{{tabular}}\n\\end{{table}}"
    )
