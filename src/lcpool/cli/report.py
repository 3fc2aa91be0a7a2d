"""``lcpool report``: tables, statistics and a page of what a sweep has trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lcpool.cli.errors import one_line_errors

if TYPE_CHECKING:
    from rich.console import Console

    from lcpool.report import Report

COLOURS = {"supported": "green", "refuted": "red", "undecided": "yellow"}


def report(
    results: Annotated[
        Path, typer.Argument(help="A store of 'lcpool bench', or a CSV file exported from one.")
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
) -> None:
    """Say which pooling is best and whether the difference is real, in tables and on a page."""
    with one_line_errors("stopped."):
        from lcpool.report import Report
        from lcpool.sweep.results import Results

        made = Report.of(Results.read(results), rule, split)
        written = made.write(out or results.parent / "report")
        _print(made, written)


def _print(made: Report, written: list[Path]) -> None:
    """Ranks, what they are worth, agreement with the paper, claims, and where the rest is."""
    from rich.console import Console

    from lcpool.report.findings import findings, provenance

    console = Console(highlight=False)
    found, source = findings(made), provenance(made)
    console.print(f"runs: {source['runs']}", markup=False, soft_wrap=True)
    console.print(f"split: {source['split']}; epoch: {source['epoch']}", markup=False)
    _print_ranks(made, console)
    for name in ("ranking", "power", "missing", "agreement"):
        for sentence in found[name]:
            console.print(sentence, markup=False, soft_wrap=True)
    for claim in made.claims:
        console.print(f"[{COLOURS[claim.verdict]}]{claim.verdict:>9}[/]", end="  ")
        console.print(claim.says, markup=False, soft_wrap=True)
    for path in written:
        console.print(f"wrote {path}", markup=False, soft_wrap=True)


def _print_ranks(made: Report, console: Console) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from lcpool.report.tables import ranking

    ranks = ranking(made)
    if ranks.empty:
        return
    table = Table("average rank", *map(escape, ranks.index), box=SIMPLE_HEAD)
    for column in table.columns[1:]:
        column.justify = "right"
    for pool, row in ranks.sort_values(ranks.index[-1], axis=1).items():
        table.add_row(escape(str(pool)), *(f"{rank:.2f}" for rank in row))
    console.print(table)
