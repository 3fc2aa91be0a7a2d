"""``lcpool report``: tables, statistics and a page of what a sweep has trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lcpool.cli.errors import one_line_errors

if TYPE_CHECKING:
    from rich.console import Console

    from lcpool.report import Report
    from lcpool.report.tables import Mean


def report(
    results: Annotated[
        list[Path],
        typer.Argument(help="Stores of 'lcpool bench', or CSV files exported from them."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write report.html and the tables to.",
            show_default="report, beside the results",
        ),
    ] = None,
    rule: Annotated[
        str, typer.Option(help="Epochs chosen by validation accuracy or loss.")
    ] = "accuracy",
    split: Annotated[
        str | None,
        typer.Option(help="shared or fresh.", show_default="fresh, if there are such runs"),
    ] = None,
    pools: Annotated[
        list[str] | None,
        typer.Option(
            "--pools",
            "-p",
            help="The poolings to compare, as the tables name them; commas between several.",
            show_default="all",
        ),
    ] = None,
    datasets: Annotated[
        list[str] | None,
        typer.Option("--datasets", "-d", help="The datasets, likewise.", show_default="all"),
    ] = None,
) -> None:
    """Say which pooling is best and whether the difference is real, in tables and on a page."""
    with one_line_errors("stopped."):
        from rich.console import Console

        from lcpool.report import Report
        from lcpool.sweep.results import Results

        runs, console = Results.read(*results), Console(highlight=False)
        folder = out or results[0].parent / "report"
        made = Report.of(runs, rule, split, pools or None, datasets or None)
        written = made.write(folder)
        _print(made, console)
        for path in written:
            console.print(f"wrote {path}", markup=False, soft_wrap=True)


def _print(made: Report, console: Console) -> None:
    """The answer, accuracies and ranks, and what they are worth."""
    from lcpool.report.findings import provenance

    found, source = made.findings(), provenance(made)
    console.print(f"runs: {source['runs']}", markup=False, soft_wrap=True)
    if "chosen" in source:
        console.print(f"chosen: {source['chosen']}", markup=False, soft_wrap=True)
    console.print(f"split: {source['split']}; epoch: {source['epoch']}", markup=False)
    _print_table(made, console)
    for name in ("answer", "constant", "ranking", "power", "missing"):
        for sentence in found[name]:
            console.print(sentence, markup=False, soft_wrap=True)


def _print_table(made: Report, console: Console) -> None:
    """Accuracy on each dataset, mean over its backbones, and the average rank over several."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from lcpool.report.tables import size_rows, summary

    found = summary(made)
    if not found.rows:
        return
    names = [f"{d} (not ranked)" if d in found.unranked else d for d in found.datasets]
    several = any(row.rank is not None for row in found.rows)
    table = Table("accuracy, %", *map(escape, names), box=SIMPLE_HEAD)
    if several:
        table.add_column("average rank")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in found.rows:
        means = (_mean(row.means.get(dataset)) for dataset in found.datasets)
        ranks = ["–" if row.rank is None else f"{row.rank:.2f}"] if several else []
        table.add_row(escape(row.pool), *means, *ranks)
    sizes = size_rows([found.held_out[dataset] for dataset in found.datasets])
    for name, values in sizes.items():
        table.add_row(name, *values, *([""] if several else []), style="dim")
    console.print(table)


def _mean(mean: Mean | None) -> str:
    """An accuracy, of how many backbones where some are missing, and "!" for a constant network."""
    if mean is None:
        return "–"
    part = f" ({mean.groups} of {mean.of})" if mean.groups < mean.of else ""
    return f"{mean.accuracy:.2f}{part}{' !' if mean.constant else ''}"
