"""Tables of accuracies: one for each backbone, poolings down, datasets across."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from lcpool.report.heldout import HeldOut, constant_mark, held_out, in_words, size_rows
from lcpool.report.rankings import Rank, Ranking
from lcpool.report.styles import Latex, Markdown
from lcpool.report.words import count, listed

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
    parts += map(style.sentence, (*in_words(report.cells), *report.not_ranked()))
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
