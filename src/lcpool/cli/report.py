"""``lcpool report``: tables, statistics and a page of what a sweep has trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lcpool.cli.errors import one_line_errors

if TYPE_CHECKING:
    from rich.console import Console

    from lcpool.report import Report


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
            "--pools", "-p", show_default="all",
            help="Poolings to compare, named as in the tables; several with commas, or repeated.",
        ),
    ] = None,
    datasets: Annotated[
        list[str] | None,
        typer.Option("--datasets", "-d", help="Datasets to compare on.", show_default="all"),
    ] = None,
) -> None:  # fmt: skip
    """Say which pooling is best and whether the difference is real, in tables and on a page."""
    with one_line_errors("stopped."):
        from rich.console import Console

        from lcpool.report import Report
        from lcpool.sweep.results import Results

        made = Report.of(Results.read(*results), rule, split, pools or None, datasets or None)
        written = made.write(out or results[0].parent / "report")
        console = Console(highlight=False)
        _print(made, console)
        for path in written:
            console.print(f"wrote {path}", markup=False, soft_wrap=True)


def _print(made: Report, console: Console) -> None:
    """The answer first, then accuracies and ranks, and their limits."""
    from lcpool.report.findings import provenance

    found, source = made.findings(), provenance(made)
    for sentence in found["answer"]:
        console.print(sentence, markup=False, soft_wrap=True)
    _print_table(made, console)
    for name in ("constant", "ranking", "power", "missing"):
        for sentence in found[name]:
            console.print(sentence, markup=False, soft_wrap=True)
    for name in ("runs", "chosen", "split", "epoch"):
        if name in source:
            console.print(f"{name}: {source[name]}", markup=False, soft_wrap=True)


def _print_table(made: Report, console: Console) -> None:
    """Accuracy on each dataset, mean over its networks, and the average rank."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from lcpool.report.tables import summary

    header, rows, sizes = summary(made)
    table = Table(*map(escape, header), box=SIMPLE_HEAD)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*map(escape, row))
    for row in sizes:
        table.add_row(*row, style="dim")
    if rows:
        console.print(table)
