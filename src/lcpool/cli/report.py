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
    """The answer, accuracies and ranks, what they are worth, the paper, and where the rest is."""
    from rich.console import Console

    from lcpool.report.findings import findings, provenance

    console = Console(highlight=False)
    found, source = findings(made), provenance(made)
    console.print(f"runs: {source['runs']}", markup=False, soft_wrap=True)
    console.print(f"split: {source['split']}; epoch: {source['epoch']}", markup=False)
    _print_table(made, console)
    for name in ("answer", "ranking", "power", "agreement", "missing"):
        for sentence in found[name]:
            console.print(sentence, markup=False, soft_wrap=True)
    for claim in made.claims:
        console.print(f"[{COLOURS[claim.verdict]}]{claim.verdict:>9}[/]", end="  ")
        console.print(claim.says, markup=False, soft_wrap=True)
    for path in written:
        console.print(f"wrote {path}", markup=False, soft_wrap=True)


def _print_table(made: Report, console: Console) -> None:
    """Accuracy on each dataset, mean over its backbones, and the average rank over several."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    c = made.ranked
    if c.empty:
        return
    table = Table("accuracy, %", *map(escape, c.datasets), box=SIMPLE_HEAD)
    accuracies = dict(zip(c.pools, c.blocks(c.means).T, strict=True))
    average = dict(zip(c.pools, c.average_ranks(c.means), strict=True))
    several = len(c.datasets) > 1
    if several:
        table.add_column("average rank")
    for column in table.columns[1:]:
        column.justify = "right"
    for pool in c.order:
        ranks = [f"{average[pool]:.2f}"] if several else []
        table.add_row(escape(pool), *(f"{a:.2f}" for a in accuracies[pool]), *ranks)
    console.print(table)
