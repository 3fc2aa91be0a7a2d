"""The file of a trained network: plain values and tensors, of which nothing is executed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lcpool.atomic import read_whole, write_atomically
from lcpool.data import Split
from lcpool.models import Architecture, network_class
from lcpool.train.protocol import seeded
from lcpool.train.tensors import load_tensors, tensors_of

if TYPE_CHECKING:
    from lcpool.train.model import Model

FORMAT = 5
HOW_TO_SAVE = "Models are written by Model.save and by lcpool train --save."


def write_model(model: Model, path: Path) -> None:
    """Write the network and what it needs to predict."""
    values = {
        "lcpool": FORMAT,
        "architecture": asdict(model.network.architecture),
        "classes": list(model.classes),
        "mean_nodes": model.mean_nodes,
        "dataset": model.dataset,
        "degrees": model.degrees,
        "num_features": model.num_features,
        "edge_dim": model.network.edge_dims[0],
        "num_outputs": model.num_outputs,
        "kind": model.kind,
        "target_names": list(model.target_names),
        "scale": None if model.scale is None else model.scale.cpu(),
        "metric": model.metric,
        "run": model.run,
        "digest": model.digest,
        "categories": list(model.categories),
        "words": [list(words) for words in model.words],
        "edge_categories": list(model.edge_categories),
        "edge_words": [list(words) for words in model.edge_words],
        "split": None if model.split is None else list(model.split),
        "tensors": {name: value.cpu() for name, value in tensors_of(model.network).items()},
    }
    write_atomically(values, path)


def read_model(cls: type[Model], path: Path, trust: bool) -> Model:
    """What :func:`write_model` wrote; :meth:`Model.load` says what is raised."""
    try:
        values = read_whole(path)
    except ValueError as error:
        raise ValueError(f"{path} is no lcpool model: {error} {HOW_TO_SAVE}") from error
    version = values.get("lcpool") if isinstance(values, dict) else None
    if not isinstance(version, int) or version != FORMAT:
        raise ValueError(
            f"{path} is no lcpool model of format {FORMAT}; train models of earlier versions "
            f"again. {HOW_TO_SAVE}"
        )
    named = values.get("architecture")
    parts = {"pooling": "pool", "convolution": "conv", "network": "backbone"}
    said = {kind: str(named.get(key)) for kind, key in parts.items() if isinstance(named, dict)}
    for kind, name in said.items():
        if ":" in name and not trust:
            raise ValueError(
                f"{path} has the {kind} '{name}', whose module would be imported. If you trust "
                f"the file and the module, pass trust=True (lcpool predict --trust)."
            )
    try:
        architecture, classes = Architecture(**values["architecture"]), tuple(values["classes"])
        features, mean_nodes = values["num_features"], values["mean_nodes"]
        edge_dim = values["edge_dim"]
        with seeded(0):
            outputs = values["num_outputs"]
            made = network_class(architecture.backbone)
            network = made(features, outputs, mean_nodes, architecture, edge_dim=edge_dim)
        load_tensors(network, values["tensors"])
        own = {name: values[name] for name in ("kind", "scale", "metric", "run", "digest")}
        split = None if values["split"] is None else Split(*values["split"])
        model = cls(
            network, classes, mean_nodes, values["dataset"], values["degrees"],
            target_names=tuple(values["target_names"]), split=split,
            categories=tuple(values["categories"]),
            words=tuple(map(tuple, values["words"])),
            edge_categories=tuple(values["edge_categories"]),
            edge_words=tuple(map(tuple, values["edge_words"])), **own,
        )  # fmt: skip
        _check(model)
        return model
    except Exception as error:  # of any kind, as the values may be anything
        raise ValueError(
            f"{path} does not fit: it is damaged, or was saved with another "
            f"{' or '.join(map(repr, said.values()))} than there is now "
            f"({type(error).__name__}: {error})"
        ) from error


def _check(model: Model) -> None:
    """Raise unless what was read from a file fits together."""
    names, scale, k = model.target_names, model.scale, model.num_outputs
    scaled = None if scale is None else (list(scale.shape), bool(scale.isfinite().all()))
    fits = {
        "metric": model.task.metric(model.metric).name == model.metric,
        "classes": len(model.classes) == (k if model.kind == "classes" else 0)
        and {type(label) for label in model.classes} in ({int}, {str}, set()),
        "target_names": len(names) in (0, k) and all(isinstance(name, str) for name in names),
        "scale": scaled == (([2, k], True) if model.kind == "values" else None),
        "dataset": isinstance(model.dataset, str),
        "degrees": isinstance(model.degrees, bool),
        "run": model.run is None or isinstance(model.run, int),
        "digest": isinstance(model.digest, str),
        "split": all(part.dtype == torch.int64 for part in model.split or ()),
        "categories": all(isinstance(size, int) and size > 0 for size in model.categories)
        and sum(model.categories) <= model.num_features,
        "words": not model.words or tuple(map(len, model.words)) == model.categories,
        "edge_categories": all(isinstance(n, int) and n > 0 for n in model.edge_categories),
        "edge_words": not model.edge_words
        or tuple(map(len, model.edge_words)) == model.edge_categories,
    }
    if wrong := [name for name, is_right in fits.items() if not is_right]:
        raise ValueError(f"its '{wrong[0]}' has a wrong value.")
