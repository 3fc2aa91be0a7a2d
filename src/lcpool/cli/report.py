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
        typer.Argument(
            help="Stores of lcpool bench (bench.sqlite), or CSV files exported from them."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write to.", show_default="report, beside the results"),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            help="The rule that chose the epochs: a validation metric, or loss.",
            show_default="the metric",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="The metric to report: accuracy, macro_f1, rmse or another that the runs have.",
            show_default="the metric that chose the epochs",
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="The runs to report, by their splits: fresh, shared, stratified, 10-fold, …",
            show_default="fresh, if there are any",
        ),
    ] = None,
    pools: Annotated[
        list[str] | None,
        typer.Option("--pools", "-p", help="Poolings to compare, with commas.", show_default="all"),
    ] = None,
    datasets: Annotated[
        list[str] | None,
        typer.Option("--datasets", "-d", help="Datasets to compare on.", show_default="all"),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Compare this pooling with each of the others.",
            show_default="the one with the highest mean",
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Poolings that differ by at most so many points count as equal.", show_default="1"
        ),
    ] = None,
) -> None:
    """Say which pooling is best and whether the difference is real, in tables and on a page."""
    with one_line_errors("stopped."):
        from rich.console import Console

        from lcpool.report import Report
        from lcpool.sweep.results import Results

        made = Report.of(
            Results.read(*results), rule, split, pools or None, datasets or None, metric=metric,
            against=against, margin=margin,
        )  # fmt: skip
        written = made.write(out or results[0].parent / "report")
        console = Console(highlight=False)
        _print(made, console)
        for path in written:
            console.print(f"wrote {path}", markup=False, soft_wrap=True)


def _print(made: Report, console: Console) -> None:
    """The answer first, then accuracies and ranks, and their limits."""
    from lcpool.progress import table
    from lcpool.report.api import SHOWN
    from lcpool.report.findings import provenance
    from lcpool.report.tables import summary, verdict_rows

    found, source = made.findings(), provenance(made)
    limits = [
        words
        for name in ("constant", "power", "sensitivity", "ranking", "missing")
        for words in found[name]
    ]
    known = [name for name in SHOWN if name in source]
    # Accuracy on each dataset, mean over its networks, and the average rank.
    header, rows, sizes = summary(made)
    drawn = table(header, rows)
    for row in sizes:
        drawn.add_row(*row, style="dim")
    for sentence in found["answer"]:
        console.print(sentence, markup=False, soft_wrap=True)
    if judged := verdict_rows(made)[1]:
        console.print(table(verdict_rows(made)[0], judged))
    if rows:
        console.print(drawn)
    for line in (*limits, *(f"{name}: {source[name]}" for name in known)):
        console.print(line, markup=False, soft_wrap=True)
