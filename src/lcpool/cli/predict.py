"""``lcpool predict``: what a saved model says of graphs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lcpool.cli.errors import one_line_errors, say
from lcpool.cli.options import Device, Root, Trust, check_file
from lcpool.cli.own import import_from_here

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from lcpool.data import GraphSet
    from lcpool.train import Model


def predict(
    model: Annotated[Path, typer.Argument(help="A file of 'lcpool train --save'.")],
    dataset: Annotated[str, typer.Argument(help="A TU or OGB name, a path, or 'builtin'.")],
    out: Annotated[
        Path | None, typer.Option(help="The CSV file to write.", show_default="stdout")
    ] = None,
    device: Device = None,
    root: Root = None,
    trust: Trust = False,
) -> None:
    """Write what a saved model says of each graph: predictions, and probabilities.

    Of the graphs it was trained on, it says in which part of its split they are.
    """
    with one_line_errors("stopped."):
        from lcpool.atomic import whole_file
        from lcpool.data import DatasetError, load_dataset
        from lcpool.spreadsheet import protected
        from lcpool.train import Model
        from lcpool.train.device import pick_device

        if trust:
            import_from_here()
        if out is not None:
            check_file("--out", out)
        place = pick_device(device)
        loaded = Model.load(model, trust=trust)
        loaded.network.to(place)
        try:
            graphs = load_dataset(dataset, root=root, task=loaded.kind)
        except DatasetError:  # Its targets are of another kind: it is predicted without them.
            graphs = load_dataset(dataset, root=root)
        table = predictions(loaded, graphs)
        text = protected(table).to_csv(index=False, lineterminator="\n")
        if out is None:
            typer.echo(text, nl=False)
        else:
            with whole_file(out) as file:
                file.write(text.encode())
            say(f"{len(table)} predictions are in {out}")
        for sentence in scores(loaded, graphs, table):
            say(sentence)


def predictions(model: Model, graphs: GraphSet) -> pd.DataFrame:
    """A row per graph: its number and part, its targets, what is predicted, probabilities."""
    import pandas as pd

    outputs = model.outputs(graphs)
    known = graphs.task == model.kind and bool(graphs.num_outputs)
    columns: dict[str, object] = {"graph": range(len(graphs)), "part": model.parts(graphs)}
    if model.kind == "classes":
        if known:
            columns["target"] = graphs.known()
        columns["predicted"] = _listed(model.read(outputs))
    else:
        if known and graphs.num_outputs == model.num_outputs:
            targets = graphs.y.double().T.tolist()
            columns |= {f"target_{n}": y for n, y in zip(model.columns, targets, strict=True)}
        given = model.read(outputs)
        assert not isinstance(given, list)
        columns |= {
            f"predicted_{n}": p for n, p in zip(model.columns, given.T.tolist(), strict=True)
        }
    if model.kind != "values":
        probable = model.task.probabilities(outputs).T.tolist()
        columns |= {f"probability_{n}": p for n, p in zip(model.columns, probable, strict=True)}
    table = pd.DataFrame(columns)
    return table if (table["part"] != "").any() else table.drop(columns="part")


def scores(model: Model, graphs: GraphSet, table: pd.DataFrame) -> list[str]:
    """The model's metric on each part of its split, or on all graphs; nothing without targets."""
    import torch

    metric, said = model.task.metric(model.metric), []
    parts = table["part"] if "part" in table else [""] * len(table)
    for name in dict.fromkeys(sorted(parts)):
        index = torch.tensor([g for g, part in enumerate(parts) if part == name])
        try:
            value = model.score(graphs.subset(index))
        except ValueError:  # Other targets than the model's, or none.
            return []
        if not math.isnan(value):
            part = f"{name} graphs".strip()
            said.append(f"{metric.title} of {len(index)} {part}: {metric.written(value)}")
    return said


def _listed(labels: Tensor | list[str]) -> list[int] | list[str]:
    if isinstance(labels, list):
        return labels
    numbers: list[int] = labels.tolist()
    return numbers
