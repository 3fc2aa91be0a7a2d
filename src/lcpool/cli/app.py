"""``lcpool``, with a command or a group of commands for each job."""

from __future__ import annotations

import typer

from lcpool.cli import data

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")
app.add_typer(data.app, name="data")


@app.callback()
def lcpool() -> None:
    """Graph pooling by local cluster selection."""


@app.command()
def demo() -> None:
    """Pool a built-in graph with every operator and show what each did."""
    from lcpool.demo import main

    main()
