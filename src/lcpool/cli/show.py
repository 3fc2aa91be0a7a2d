"""``lcpool show``: a page of what a saved model pooled and predicted."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lcpool.cli.errors import one_line_errors, say
from lcpool.cli.options import Device, Root, Trust, check_file
from lcpool.cli.own import import_from_here

if TYPE_CHECKING:
    from lcpool.data import GraphSet
    from lcpool.train import Model
    from lcpool.view.page import About


def show(
    dataset: Annotated[str, typer.Argument(help="A TU name, a folder or zip, or 'builtin'.")],
    model: Annotated[Path, typer.Option(help="A file of 'lcpool train --save'.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("show.html"),
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = True,
    device: Device = None,
    root: Root = None,
    trust: Trust = False,
) -> None:
    """Write a page of what a saved model pooled and predicted, graph by graph.

    It needs no network and no other file.
    """
    with one_line_errors("stopped."):
        from rich.console import Console
        from rich.progress import track

        from lcpool.atomic import whole_file
        from lcpool.data import load_dataset
        from lcpool.train import Model
        from lcpool.train.device import pick_device
        from lcpool.view.page import page

        check_file("--out", out)
        if trust:
            import_from_here()
        place = pick_device(device)
        loaded = Model.load(model, trust=trust)
        loaded.network.to(place)
        graphs = load_dataset(dataset, root=root)
        if loaded.network.architecture.pool == "nopool":
            say(f"{model} does not pool: the page shows its predictions alone.")
        console = Console(stderr=True)
        pooled = track(
            loaded.each_pooled(graphs), "pooling", len(graphs), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        with whole_file(out) as file:
            for piece in page(pooled, about(loaded, graphs)):
                file.write(piece.encode())
        say(f"{len(graphs)} graphs are in {out}")
        if browser and not webbrowser.open(out.absolute().as_uri()):
            say(f"no browser was found: open {out} in one.")


def about(model: Model, graphs: GraphSet) -> About:
    """What the page says of the dataset and of the model."""
    from lcpool.view.page import About

    a = model.network.architecture
    pools = a.pool if a.poolings == 1 else f"{a.poolings} × {a.pool}"
    pools = "no pooling" if a.pool == "nopool" else pools
    elsewhere = "" if model.dataset == graphs.name else f", trained on {model.dataset}"
    words = f"{pools}, {a.backbone} network of {a.conv}{elsewhere}"
    return About(graphs.name, words, model.kind, model.columns, model.parts(graphs))
