"""``lcpool data``: list, download and check datasets."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from lcpool.cli.errors import FAILED, one_line_errors, say

app = typer.Typer(no_args_is_help=True, help="List, download and check datasets.")

Root = Annotated[
    Path | None,
    typer.Option(help="Folder to search first, before $LCPOOL_DATA, and to download to."),
]


@app.command("list")
def list_datasets(root: Root = None) -> None:
    """Show the datasets on this machine, and those that can be downloaded."""
    from lcpool.data.load import BUILTIN, TU_DATASETS, data_folders, local_datasets

    here = dict.fromkeys(BUILTIN, "(made when it is used)")

    def add(folder: Path) -> None:
        for name, path in local_datasets(folder):
            here.setdefault(name, str(path))

    status = _each(add, data_folders(root))
    for name, where in here.items():
        typer.echo(f"{name:<20} {where}")
    known = {name.lower() for name in here}
    others = " ".join(name for name in TU_DATASETS if name.lower() not in known)
    typer.echo("\nto download with lcpool data get NAME, among others:")
    typer.echo(textwrap.fill(others, 100, break_on_hyphens=False))
    raise typer.Exit(status)


@app.command()
def get(
    names: Annotated[list[str], typer.Argument(help="Names of TU datasets, such as PROTEINS.")],
    root: Root = None,
) -> None:
    """Download datasets that are not on this machine yet."""
    from lcpool.data.load import check_name, dataset_files, is_builtin, locate

    def get_one(name: str) -> None:
        where = "needs no file"
        if not is_builtin(name):
            where = str(path := locate(check_name(name), root))
            dataset_files(path)
        typer.echo(f"{name}: {where}")

    raise typer.Exit(_each(get_one, names))


@app.command()
def check(
    names: Annotated[list[str], typer.Argument(help="Names or paths of datasets.")],
    root: Root = None,
    splits_file: Annotated[
        Path | None, typer.Option(help="Check the splits of a .json, .npz or .csv file, too.")
    ] = None,
) -> None:
    """Show the size of datasets, and what may be odd in them."""
    from lcpool.data.checks import DatasetError, EdgeCounts, oddities
    from lcpool.data.duplicates import find_duplicates
    from lcpool.data.load import (
        check_name,
        dataset_files,
        find_dataset,
        is_builtin,
        load_dataset,
    )
    from lcpool.data.tu import TUFiles, count_edge_lines

    def check_one(name: str) -> None:
        path = None if is_builtin(name) else find_dataset(name, root)
        if path is None and not is_builtin(name):
            name = check_name(name)
            raise DatasetError(f"{name}: not on this machine; to download: lcpool data get {name}")
        graphs = load_dataset(path or name, splits=splits_file)
        # An edge and its reverse edge count as one.
        nodes, edges = graphs.x.size(0) / len(graphs), EdgeCounts.of(graphs).pairs / len(graphs)
        typer.echo(
            f"{graphs.name}: {len(graphs)} graphs, {graphs.num_outputs} {graphs.task}, {nodes:.2f} "
            f"nodes and {edges:.2f} edges per graph, {graphs.num_features} node features, "
            f"{graphs.num_edge_features} edge features"
        )
        if graphs.splits:
            sizes = "; ".join("/".join(map(str, split.sizes)) for split in graphs.splits[:3])
            more = "; …" if len(graphs.splits) > 3 else ""
            typer.echo(f"  predefined splits, {len(graphs.splits)}: {sizes}{more} graphs")
        for sentence in (*oddities(graphs), *find_duplicates(graphs).sentences(graphs)):
            typer.echo(f"  {sentence}")
        text = path and isinstance(dataset_files(path), TUFiles)
        if path and text and (dropped := count_edge_lines(path) - graphs.edge_index.size(1)):
            typer.echo(f"  {dropped} repeated edges and self-loops in the file are left out")

    raise typer.Exit(_each(check_one, names))


def _each(action: Callable[[Any], None], items: Iterable[Any]) -> int:
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
