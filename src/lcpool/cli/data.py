"""``lcpool data``: which datasets are here, fetch them, and check them against the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lcpool.cli.errors import say

if TYPE_CHECKING:
    from rich.table import Table

    from lcpool.data.table import Figure

app = typer.Typer(no_args_is_help=True, help="Datasets: list, get, and check against the paper.")

MADE = "needs no file: made when it is asked for"

Root = Annotated[
    Path | None,
    typer.Option(help="Folder to look in first and to download to; before $LCPOOL_DATA."),
]


@app.command("list")
def list_datasets(root: Root = None) -> None:
    """Show the known datasets and where they lie; any other of TU's works by its name too."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from lcpool.data.load import BUILTIN, find_dataset, known_datasets
    from lcpool.data.table import paper_datasets

    table = Table("dataset", "in the paper", "where")
    for name in known_datasets():
        place = MADE if name == BUILTIN else find_dataset(name, root)
        where = escape(str(place)) if place else f"[dim]not here: lcpool data get {name}[/]"
        table.add_row(name, "yes" if name in paper_datasets() else "", where)
    Console().print(table)


@app.command()
def get(
    names: Annotated[list[str], typer.Argument(help="Names of TU datasets, such as PROTEINS.")],
    root: Root = None,
) -> None:
    """Download the datasets that are not here yet."""
    from lcpool.data import DatasetError
    from lcpool.data.load import BUILTIN, known_name, locate

    failed = False
    for name in names:
        try:
            made = known_name(name) == BUILTIN
            typer.echo(f"{name}: {MADE if made else locate(name, root)}")
        except DatasetError as error:
            failed = True
            say(str(error))
    raise typer.Exit(int(failed))


@app.command()
def check(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names or paths; the paper's six by default.")
    ] = None,
    root: Root = None,
) -> None:
    """Print the paper's table of datasets next to what was read; fail where they disagree."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from lcpool.data.table import QUANTITIES, paper_datasets

    headers = (quantity.removeprefix("node_").replace("_", "\n") for quantity in QUANTITIES)
    table = Table("dataset", "", *headers, box=SIMPLE_HEAD, collapse_padding=True)
    verdicts = [_check_one(table, name, root) for name in names or paper_datasets()]
    Console().print(table)
    raise typer.Exit(int(not all(verdicts)))


def _check_one(table: Table, name: str, root: Path | None) -> bool:
    """Add a dataset to the table: a row as the paper has it, and a row as it was read."""
    from rich.markup import escape

    from lcpool.data import DatasetError
    from lcpool.data.load import BUILTIN, find_dataset, known_name, read_dataset
    from lcpool.data.table import check as check_figures

    try:
        if known_name(name) != BUILTIN and find_dataset(name, root) is None:
            raise DatasetError(f"{name}: not here; lcpool data get {name}")
        figures = check_figures(read_dataset(name, root))
    except DatasetError as error:
        say(str(error))
        table.add_row(escape(name), "[red]missing[/]", end_section=True)
        return False
    table.add_row(escape(name), "paper", *(_number(figure, figure.paper) for figure in figures))
    read = [_number(figure, figure.read) for figure in figures]
    colours = ["green" if figure.agrees else "bold red" for figure in figures]
    cells = (f"[{colour}]{cell}[/]" for colour, cell in zip(colours, read, strict=True))
    table.add_row("", "read", *cells, end_section=True)
    return all(figure.agrees for figure in figures)


def _number(figure: Figure, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if figure.quantity.startswith("avg") else f"{value:.0f}"
