"""What a training gives: figures of every run, and a network to use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from lcpool.data import GraphSet
from lcpool.data.degrees import features_are_degrees, with_degrees
from lcpool.data.files import read_whole, write_atomically
from lcpool.data.load import single_graphs
from lcpool.models import Architecture, Backbone
from lcpool.settings import flat
from lcpool.train.loop import EVAL_BATCH, Run
from lcpool.train.protocol import RULES, Protocol
from lcpool.train.seeding import seeded
from lcpool.train.tensors import take_over, tensors_of

FORMAT = 3
HOW_TO_SAVE = "Models are written by Model.save and by lcpool train --save."


@dataclass
class Model:
    """A trained network that predicts.

    Attributes:
        network: the network.
        classes: the labels of the training data, sorted; class number c is ``classes[c]``.
        mean_nodes: the training data's mean number of nodes, part of some networks' shape.
        dataset: the name of the training data.
        degrees: whether its nodes had no features but their degrees.
    """

    network: Backbone
    classes: tuple[int, ...]
    mean_nodes: float
    dataset: str
    degrees: bool = False

    def __repr__(self) -> str:
        return (
            f"Model({self.dataset!r}, {_in_words(self.network.architecture)}, "
            f"{self.num_features} features, {len(self.classes)} classes)"
        )

    @property
    def num_features(self) -> int:
        """Features of a node that the network takes."""
        first = self.network.pre[0]
        assert isinstance(first, nn.Linear)
        return first.in_features

    @classmethod
    def of(cls, network: Backbone, graphs: GraphSet) -> Model:
        """A network that was trained on ``graphs``."""
        mean_nodes = float(graphs.node_counts.double().mean())
        return cls(network, graphs.classes, mean_nodes, graphs.name, features_are_degrees(graphs))

    def predict(self, graphs: GraphSet | Iterable[Data]) -> Tensor:
        """The predicted label of each graph, one of ``classes``, on the CPU.

        Raises:
            ValueError: if the graphs' features are not of the kind the network was trained on.
        """
        return self._labels(self.probabilities(graphs))

    def probabilities(self, graphs: GraphSet | Iterable[Data]) -> Tensor:
        """The probability of each class for each graph, ``[graphs, classes]``, on the CPU.

        Column c belongs to the label ``classes[c]``.
        """
        found = _one_by_one(graphs)
        if not len(found):
            return torch.empty(0, len(self.classes))
        return self._probabilities(self._with_features(found))

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
        found = _one_by_one(graphs)
        if not len(found):
            raise ValueError("there are no graphs to score.")
        columns = self._with_features(found)
        self._require_labels(columns)
        right = self._labels(self._probabilities(columns)) == columns.y.cpu()
        return int(right.sum()) / len(columns)

    def _labels(self, probabilities: Tensor) -> Tensor:
        return torch.tensor(self.classes)[probabilities.argmax(-1)]

    @torch.no_grad()
    def _probabilities(self, graphs: GraphSet) -> Tensor:
        batchable = graphs.to(next(self.network.parameters()).device)
        self.network.eval()
        parts = torch.split(torch.arange(len(batchable)), EVAL_BATCH)
        logits = [self.network(batchable.batch(part)).logits for part in parts]
        return torch.cat(logits).softmax(-1).cpu()

    def _with_features(self, graphs: GraphSet | list[Data]) -> GraphSet:
        """The graphs with features of the kind and width that the network was trained on."""
        if not (self.degrees or isinstance(graphs, GraphSet)):
            self._require_x(graphs)
        columns = graphs if isinstance(graphs, GraphSet) else GraphSet.from_graphs(graphs)
        if self.degrees:
            # Features that are the degrees are what the graphs would be given without any.
            if not features_are_degrees(columns):
                raise ValueError(
                    f"the network was trained on degrees, for want of features ({self.dataset}); "
                    f"graph 0 has 'x', and not the degrees in it."
                )
            return with_degrees(columns, self.num_features)
        if columns.num_features != self.num_features:
            raise ValueError(
                f"the network was trained on {self.num_features} features a node ({self.dataset}), "
                f"but these graphs have {columns.num_features}."
            )
        return columns

    def _require_x(self, graphs: list[Data]) -> None:
        """Refuse graphs without features: their degrees may be as wide, and mean nothing here."""
        for g, graph in enumerate(graphs):
            if isinstance(graph, Data) and graph.x is None:
                raise ValueError(
                    f"the network was trained on features ({self.dataset}); graph {g} has no 'x'."
                )

    def _require_labels(self, graphs: GraphSet) -> None:
        """Refuse to score graphs without labels, or with labels that cannot be predicted."""
        if not graphs.classes:
            raise ValueError(
                f"{graphs.name}: the graphs have no labels (y) to score by; predict needs none."
            )
        unknown = (~torch.isin(graphs.y.cpu(), torch.tensor(self.classes))).nonzero()
        if len(unknown):
            g = int(unknown[0])
            known = ", ".join(map(str, self.classes))
            raise ValueError(
                f"{graphs.name}: graph {g} has label {int(graphs.y[g])}, which the model does not "
                f"know; its classes are {known} ({self.dataset})."
            )

    def save(self, path: str | Path) -> None:
        """Write the network, its shape and its classes; :meth:`load` reads them back."""
        values = {
            "lcpool": FORMAT,
            "architecture": asdict(self.network.architecture),
            "classes": list(self.classes),
            "mean_nodes": self.mean_nodes,
            "dataset": self.dataset,
            "degrees": self.degrees,
            "num_features": self.num_features,
            "tensors": {name: value.cpu() for name, value in tensors_of(self.network).items()},
        }
        write_atomically(values, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Read a saved network; nothing in the file is executed (``weights_only``).

        Raises:
            OSError: if the file cannot be opened.
            ValueError: if it holds no model, or the network's own pooling is another one now.
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
        architecture = Architecture(**values["architecture"])
        size = (values["num_features"], len(values["classes"]), values["mean_nodes"])
        with seeded(0):
            network = Backbone(*size, architecture)
        try:
            take_over(network, values["tensors"])
        except ValueError as error:
            raise ValueError(
                f"{path} was saved with another '{architecture.pool}' than there is now: {error}"
            ) from error
        shape = (tuple(values["classes"]), values["mean_nodes"], values["dataset"])
        return cls(network, *shape, values["degrees"])


@dataclass(frozen=True)
class Result:
    """The runs of one cell.

    Attributes:
        dataset: the name of the data.
        architecture: the network.
        protocol: how it was trained.
        runs: what became of each run.
        seconds: wall time of training, all runs together.
        device: where it was trained.
        stack: how many runs were trained as one.
        best: the network of the run with the best validation accuracy, None if all diverged.
    """

    dataset: str
    architecture: Architecture
    protocol: Protocol
    runs: list[Run]
    seconds: float
    device: str
    stack: int
    best: Model | None

    def __repr__(self) -> str:
        counted = len(self.accuracies())
        spread = f" ± {self.std():.2f}" if counted > 1 else ""
        figure = f"{self.mean():.2f}{spread} %" if counted else "all diverged"
        runs = "1 run" if len(self.runs) == 1 else f"{len(self.runs)} runs"
        return f"Result({self.dataset!r}, {_in_words(self.architecture)}, {runs}, {figure})"

    @property
    def model(self) -> Model:
        """The run with the best validation accuracy, ready to predict."""
        if self.best is None:
            raise ValueError(
                f"all {len(self.runs)} runs diverged: there is no accuracy, and no model. Try a "
                f"lower learning rate than {self.protocol.lr}, and look for huge features."
            )
        return self.best

    @property
    def num_test(self) -> int:
        """The number of test graphs of a run."""
        return self.runs[0].num_test

    @property
    def largest_class(self) -> float:
        """What a network that always says the largest class would get on the test graphs.

        In percent, the mean over the runs whose accuracies count; NaN if all runs diverged.
        """
        shares = [100 * run.largest_class for run in self.runs if not run.lost]
        return float(torch.tensor(shares, dtype=torch.float64).mean())

    def constant_runs(self, rule: str = "accuracy") -> list[int]:
        """Numbers of the runs whose network gives one and the same class to all test graphs."""
        return [run.number for run in self.runs if not run.lost and run.constant[rule]]

    def accuracies(self, rule: str = "accuracy") -> Tensor:
        """Test accuracies in percent, of all runs but those that diverged at once."""
        found = [100 * run.test[rule][0] for run in self.runs if not run.lost]
        return torch.tensor(found, dtype=torch.float64)

    def mean(self, rule: str = "accuracy") -> float:
        """Mean test accuracy in percent; NaN if all runs diverged."""
        return float(self.accuracies(rule).mean())

    def std(self, rule: str = "accuracy") -> float:
        """Standard deviation over runs, in percentage points (n − 1); 0 for a single run."""
        values = self.accuracies(rule)
        return float(values.std(correction=min(1, len(values) - 1)))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the network, as plain values; accuracies and shares in percent."""
        return {
            "dataset": self.dataset,
            "settings": flat(self.architecture, self.protocol),
            "mean": {rule: self.mean(rule) for rule in RULES},
            "std": {rule: self.std(rule) for rule in RULES},
            "num_test": self.num_test,
            "largest_class": self.largest_class,
            "runs": [run.to_dict() for run in self.runs],
            "seconds": self.seconds,
            "device": self.device,
            "stack": self.stack,
        }


def _one_by_one(graphs: GraphSet | Iterable[Data]) -> GraphSet | list[Data]:
    return graphs if isinstance(graphs, GraphSet) else single_graphs(graphs)


def _in_words(architecture: Architecture) -> str:
    return f"{architecture.pool}, {architecture.backbone}, {architecture.conv}"
