"""``lcpool`` and its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from lcpool.cli import bench, data
from lcpool.cli.errors import one_line_errors
from lcpool.cli.predict import predict
from lcpool.cli.report import report
from lcpool.cli.show import show
from lcpool.cli.train import train

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")
app.add_typer(data.app, name="data")
app.command(no_args_is_help=True)(train)
app.command(no_args_is_help=True)(predict)
app.command(no_args_is_help=True)(show)
app.add_typer(bench.app, name="bench")
app.command()(report)


def show_version(asked: bool) -> None:
    """Print the version and exit."""
    if asked:
        from lcpool import __version__

        typer.echo(f"lcpool {__version__}")
        raise typer.Exit


@app.callback()
def lcpool(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Graph pooling by local cluster selection."""


@app.command()
def demo(
    graph: Annotated[
        bool, typer.Option("--graph", help="Pool one graph with every operator instead.")
    ] = False,
) -> None:
    """Train several poolings on the built-in dataset and rank them."""
    with one_line_errors("stopped."):
        import torch

        from lcpool.demo import show_graph, show_ranking

        torch.set_num_threads(1)  # More gain little here, and lose on a busy machine.
        show_graph() if graph else show_ranking()
