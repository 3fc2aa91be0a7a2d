"""``lcpool data``: list, download and check datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from lcpool.cli.errors import FAILED, one_line_errors, say

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, help="List, download and check datasets.")

Root = Annotated[
    Path | None,
    typer.Option(help="Folder to search first, before $LCPOOL_DATA, and to download to."),
]


@app.command("list")
def list_datasets(root: Root = None) -> None:
    """Show the datasets on this machine, and those that can be downloaded."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from lcpool.data.load import BUILTIN, TU_DATASETS, data_folders, local_datasets

    here = {BUILTIN: "made when it is used"}

    def add(folder: Path) -> None:
        for name, path in local_datasets(folder):
            here.setdefault(name, str(path))

    failed = _each(add, data_folders(root))
    table = Table("dataset", "where")
    for row in here.items():
        table.add_row(*map(Text, row))
    console, known = Console(), {name.lower() for name in here}
    console.print(table)
    console.print("To download, by lcpool data get NAME, among others:")
    console.print(*(name for name in TU_DATASETS if name.lower() not in known), highlight=False)
    raise typer.Exit(failed)


@app.command()
def get(
    names: Annotated[list[str], typer.Argument(help="Names of TU datasets, such as PROTEINS.")],
    root: Root = None,
) -> None:
    """Download datasets that are not on this machine yet."""
    from lcpool.data.load import check_name, is_builtin, locate
    from lcpool.data.tu_files import Source

    def get_one(name: str) -> None:
        where = "needs no file"
        if not is_builtin(name):
            where = str(path := locate(check_name(name), root))
            Source.at(path)
        typer.echo(f"{name}: {where}")

    raise typer.Exit(_each(get_one, names))


@app.command()
def check(
    names: Annotated[list[str], typer.Argument(help="Names or paths of datasets.")],
    root: Root = None,
) -> None:
    """Show the size of datasets, and what may be odd in them."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from lcpool.data.checks import DatasetError, EdgeCounts, oddities
    from lcpool.data.load import check_name, find_dataset, is_builtin, load_dataset
    from lcpool.data.tu import count_edge_lines

    columns = ("graphs", "classes", "nodes\nper graph", "edges\nper graph", "features")
    table = Table("dataset", *columns, box=SIMPLE_HEAD)
    odd: list[str] = []

    def check_one(name: str) -> None:
        path = None if is_builtin(name) else find_dataset(name, root)
        if path is None and not is_builtin(name):
            name = check_name(name)
            raise DatasetError(f"{name}: not on this machine; to download: lcpool data get {name}")
        graphs = load_dataset(path or name)
        # An edge and its reverse edge count as one.
        totals = (graphs.x.size(0), EdgeCounts.of(graphs).pairs)
        means = (f"{total / len(graphs):.2f}" for total in totals)
        sizes = (str(len(graphs)), str(graphs.num_classes), *means, str(graphs.num_features))
        table.add_row(Text(graphs.name), *sizes)
        odd.extend(f"{graphs.name}: {sentence}." for sentence in oddities(graphs))
        if path and (dropped := count_edge_lines(path) - graphs.edge_index.size(1)):
            odd.append(f"{graphs.name}: {dropped} repeated edges and self-loops were dropped.")

    failed, console = _each(check_one, names), Console()
    console.print(table)
    for line in odd:
        console.print(Text(line), soft_wrap=True)
    raise typer.Exit(failed)


def _each(action: Callable[[T], None], items: Iterable[T]) -> int:
    """Call ``action`` with each item; report errors, and return the exit status."""
    status = 0
    with one_line_errors("stopped."):
        for item in items:
            try:
                action(item)
            except (ValueError, OSError) as error:
                say(str(error))
                status = FAILED
    return status
