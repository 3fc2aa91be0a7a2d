"""``lcpool audit``: the paper's claims one by one, from a folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lcpool.cli.errors import one_line_errors


def audit(
    results: Annotated[
        Path, typer.Argument(help="Folder with paper/runs-fresh.csv and what else was measured.")
    ] = Path("results"),
    out: Annotated[
        Path, typer.Option(help="The document; its picture is written beside it.")
    ] = Path("docs/paper-audit.md"),
) -> None:
    """Say what the results make of the paper's claims, and which pooling to take."""
    with one_line_errors("stopped."):
        from lcpool.report import Audit

        for path in Audit.read(results).write(out):
            typer.echo(f"wrote {path}")
