"""A trained network that predicts, and its file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from lcpool.atomic import read_whole, write_atomically
from lcpool.data import GraphSet
from lcpool.data.graphset import features_are_degrees, with_degrees
from lcpool.data.load import single_graphs
from lcpool.models import Architecture, Backbone
from lcpool.train.protocol import seeded

FORMAT = 3
HOW_TO_SAVE = "Models are written by Model.save and by lcpool train --save."
# Graphs evaluated at a time (per run): without gradients they take little memory.
EVAL_BATCH = 128


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, sharing memory with the network.

    Unlike ``state_dict``, it includes buffers that are not persistent, as they may change in
    training too, and tied parameters only once.
    """
    named = (*network.named_parameters(), *network.named_buffers())
    return {name: value.detach() for name, value in named}


def load_tensors(network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy the result of :func:`tensors_of` into a network; an error if it does not fit."""
    own = tensors_of(network)
    shapes = [{name: value.shape for name, value in of.items()} for of in (own, tensors)]
    if shapes[0] != shapes[1]:
        differ = sorted(name for name, _ in shapes[0].items() ^ shapes[1].items())
        raise ValueError(f"the networks differ in '{differ[0]}'.")
    for name, value in own.items():
        value.copy_(tensors[name])


@dataclass
class Model:
    """A trained network that predicts.

    Attributes:
        network: the network.
        classes: the labels of the training data, sorted; class number c is ``classes[c]``.
        mean_nodes: the training data's mean number of nodes; the size of some networks follows it.
        dataset: the name of the training data.
        degrees: whether it had no features, so that degrees took their place.
    """

    network: Backbone
    classes: tuple[int, ...]
    mean_nodes: float
    dataset: str
    degrees: bool = False

    def __repr__(self) -> str:
        a = self.network.architecture
        return (
            f"Model({self.dataset!r}, {a.pool}, {a.backbone}, {a.conv}, "
            f"{self.num_features} features, {len(self.classes)} classes)"
        )

    @property
    def num_features(self) -> int:
        """Features per node that the network takes."""
        return self.network.get_parameter("pre.0.weight").size(1)

    @classmethod
    def of(cls, network: Backbone, graphs: GraphSet) -> Model:
        """A network that was trained on ``graphs``."""
        mean_nodes = float(graphs.node_counts.double().mean())
        return cls(network, graphs.classes, mean_nodes, graphs.name, features_are_degrees(graphs))

    def predict(self, graphs: GraphSet | Iterable[Data]) -> Tensor:
        """The predicted label of each graph, one of ``classes``, on the CPU.

        Raises:
            ValueError: if the graphs do not have the features that the network was trained on.
        """
        return torch.tensor(self.classes)[self.probabilities(graphs).argmax(-1)]

    @torch.no_grad()
    def probabilities(self, graphs: GraphSet | Iterable[Data]) -> Tensor:
        """The probability of each class for each graph, ``[graphs, classes]``, on the CPU.

        Column c belongs to the label ``classes[c]``.
        """
        columns = self._columns(graphs)
        if columns is None:
            return torch.empty(0, len(self.classes))
        self._check_edge_attr(columns)
        batchable = self._with_features(columns).to(next(self.network.parameters()).device)
        self.network.eval()
        parts = torch.split(torch.arange(len(batchable)), EVAL_BATCH)
        logits = [self.network(batchable.batch(part)).logits for part in parts]
        return torch.cat(logits).softmax(-1).cpu()

    def score(self, graphs: GraphSet | Iterable[Data]) -> float:
        """The accuracy: the fraction of graphs whose label ``y`` is predicted.

        Raises:
            ValueError: if there are no graphs, if they have no labels or one that is not among
                ``classes``, or as for :meth:`predict`.

        Example:
            >>> from lcpool.data import builtin
            >>> from lcpool.train import train
            >>> graphs = builtin(num_graphs=40)
            >>> model = train(graphs, "nopool", runs=1, epochs=1, hidden=8, device="cpu").model
            >>> model.score(graphs) == float((model.predict(graphs) == graphs.y).double().mean())
            True
        """
        columns = self._columns(graphs)
        if columns is None:
            raise ValueError("there are no graphs to score.")
        if not columns.classes:
            raise ValueError(
                f"{columns.name}: the graphs have no labels (y) to score by; predict needs none."
            )
        y = columns.y.cpu()
        unknown = (~torch.isin(y, torch.tensor(self.classes))).nonzero()
        if len(unknown):
            g, known = int(unknown[0]), ", ".join(map(str, self.classes))
            raise ValueError(
                f"{columns.name}: graph {g} has label {int(y[g])}, which the model does not know; "
                f"its classes are {known} ({self.dataset})."
            )
        return int((self.predict(columns) == y).sum()) / len(y)

    def _columns(self, graphs: GraphSet | Iterable[Data]) -> GraphSet | None:
        """The graphs in columns, or None if there are none."""
        if isinstance(graphs, GraphSet):
            return graphs if len(graphs) else None
        found = single_graphs(graphs)
        for g, graph in enumerate(found):
            # Degrees that fill in for missing features may be as wide, but mean nothing here.
            if not self.degrees and isinstance(graph, Data) and graph.x is None:
                raise ValueError(
                    f"the network was trained on features ({self.dataset}); graph {g} has no 'x'."
                )
        return GraphSet.from_graphs(found) if found else None

    def _check_edge_attr(self, graphs: GraphSet) -> None:
        """Raise unless the graphs have the edge attributes that the network reads."""
        width = self.network.edge_dims[0]
        if width is not None and graphs.num_edge_features != width:
            raise ValueError(
                f"the network was trained on {width} attributes per edge ({self.dataset}), but "
                f"these graphs have {graphs.num_edge_features} ('edge_attr')."
            )

    def _with_features(self, graphs: GraphSet) -> GraphSet:
        """The graphs with features of the kind and width that the network was trained on."""
        if not self.degrees:
            if graphs.num_features != self.num_features:
                raise ValueError(
                    f"the network was trained on {self.num_features} features per node "
                    f"({self.dataset}), but these graphs have {graphs.num_features}."
                )
            return graphs
        if not features_are_degrees(graphs):
            raise ValueError(
                f"the network was trained on degrees, as {self.dataset} has no features; "
                f"graph 0 has 'x' with something else."
            )
        return with_degrees(graphs, self.num_features)

    def save(self, path: str | Path) -> None:
        """Write the network and what it needs to predict; :meth:`load` reads it back."""
        values = {
            "lcpool": FORMAT,
            "architecture": asdict(self.network.architecture),
            "classes": list(self.classes),
            "mean_nodes": self.mean_nodes,
            "dataset": self.dataset,
            "degrees": self.degrees,
            "num_features": self.num_features,
            "edge_dim": self.network.edge_dims[0],
            "tensors": {name: value.cpu() for name, value in tensors_of(self.network).items()},
        }
        write_atomically(values, Path(path))

    @classmethod
    def load(cls, path: str | Path, trust: bool = False) -> Model:
        """Read a saved network; nothing in the file is executed (``weights_only``).

        Args:
            path: the file.
            trust: allow the file to name classes of your own as its pooling or convolution
                (``module:Class``). Their modules are imported, which executes their code.

        Raises:
            OSError: if the file cannot be opened.
            ValueError: if it is not a model, a class of your own needs ``trust``, or has changed
                since it was saved.
        """
        try:
            values = read_whole(Path(path))
        except ValueError as error:
            raise ValueError(f"{path} is no lcpool model: {error} {HOW_TO_SAVE}") from error
        if not isinstance(values, dict) or values.get("lcpool") != FORMAT:
            raise ValueError(
                f"{path} is no lcpool model of format {FORMAT}; train models of earlier versions "
                f"again. {HOW_TO_SAVE}"
            )
        named = values.get("architecture")
        parts = {"pooling": "pool", "convolution": "conv"}
        said = {kind: str(named.get(key)) for kind, key in parts.items() if isinstance(named, dict)}
        for kind, name in said.items():
            if ":" in name and not trust:
                raise ValueError(
                    f"{path} has the {kind} '{name}', whose module would be imported. If you trust "
                    f"the file and the module, pass trust=True."
                )
        try:
            architecture, classes = Architecture(**values["architecture"]), tuple(values["classes"])
            features, mean_nodes = values["num_features"], values["mean_nodes"]
            edge_dim = values.get("edge_dim")  # not in files of earlier versions
            with seeded(0):
                network = Backbone(
                    features, len(classes), mean_nodes, architecture, edge_dim=edge_dim
                )
            load_tensors(network, values["tensors"])
            return cls(network, classes, mean_nodes, values["dataset"], values["degrees"])
        except Exception as error:  # of any kind, as the values may be anything
            raise ValueError(
                f"{path} does not fit: it is damaged, or was saved with another "
                f"{' or '.join(map(repr, said.values()))} than there is now "
                f"({type(error).__name__}: {error})"
            ) from error
