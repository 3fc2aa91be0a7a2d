"""What a training gives: figures of every run, and a network to use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from lcpool.data import GraphSet
from lcpool.models import Architecture, Backbone
from lcpool.train.checkpoint import write_atomically
from lcpool.train.loop import EVAL_BATCH, Run
from lcpool.train.protocol import Protocol

FORMAT = 1


@dataclass
class Model:
    """A trained network that predicts.

    Attributes:
        network: the network.
        classes: the label that each class had in the data.
        mean_nodes: the training data's mean number of nodes, part of some networks' shape.
        dataset: the name of the training data.
    """

    network: Backbone
    classes: tuple[int, ...]
    mean_nodes: float
    dataset: str

    def predict(self, graphs: GraphSet | Iterable[Data]) -> Tensor:
        """The predicted label of each graph, in the labels of the training data."""
        labels = torch.tensor(self.classes)
        return labels[self.probabilities(graphs).argmax(-1)]

    @torch.no_grad()
    def probabilities(self, graphs: GraphSet | Iterable[Data]) -> Tensor:
        """The probability of each class for each graph, ``[graphs, classes]``, on the CPU."""
        batchable = graphs if isinstance(graphs, GraphSet) else GraphSet.from_graphs(graphs)
        width = self.network.pre[0].in_features
        if batchable.num_features != width:
            raise ValueError(
                f"the network was trained on {width} features a node ({self.dataset}), "
                f"but these graphs have {batchable.num_features}."
            )
        device = next(self.network.parameters()).device
        batchable = batchable.to(device)
        self.network.eval()
        parts = torch.split(torch.arange(len(batchable)), EVAL_BATCH)
        logits = [self.network(batchable.batch(part)).logits for part in parts]
        return torch.cat(logits).softmax(-1).cpu()

    def save(self, path: str | Path) -> None:
        """Write the network, its shape and its classes; :meth:`load` reads them back."""
        state = {name: value.cpu() for name, value in self.network.state_dict().items()}
        values = {
            "lcpool": FORMAT,
            "architecture": self.network.architecture.to_dict(),
            "classes": list(self.classes),
            "mean_nodes": self.mean_nodes,
            "dataset": self.dataset,
            "in_channels": self.network.pre[0].in_features,
            "state": state,
        }
        write_atomically(values, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Read a saved network; nothing in the file is executed (``weights_only``)."""
        values = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(values, dict) or values.get("lcpool") != FORMAT:
            raise ValueError(f"{path} is no lcpool model of format {FORMAT}.")
        network = Backbone(
            values["in_channels"],
            len(values["classes"]),
            values["mean_nodes"],
            Architecture.from_dict(values["architecture"]),
        )
        network.load_state_dict(values["state"])
        return cls(network, tuple(values["classes"]), values["mean_nodes"], values["dataset"])


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
        model: the run with the best validation accuracy, ready to predict.
    """

    dataset: str
    architecture: Architecture
    protocol: Protocol
    runs: list[Run]
    seconds: float
    device: str
    stack: int
    model: Model

    def accuracies(self, rule: str = "accuracy") -> Tensor:
        """Test accuracies in percent, of the runs that did not diverge."""
        found = [100 * run.test[rule][0] for run in self.runs if run.diverged is None]
        return torch.tensor(found, dtype=torch.float64)

    def mean(self, rule: str = "accuracy") -> float:
        """Mean test accuracy in percent."""
        return float(self.accuracies(rule).mean())

    def std(self, rule: str = "accuracy") -> float:
        """Standard deviation over runs, in percentage points (n − 1); 0 for a single run."""
        values = self.accuracies(rule)
        return float(values.std(correction=min(1, len(values) - 1)))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the network, as plain values."""
        return {
            "dataset": self.dataset,
            "architecture": self.architecture.to_dict(),
            "protocol": asdict(self.protocol),
            "mean": {rule: self.mean(rule) for rule in ("accuracy", "loss")},
            "std": {rule: self.std(rule) for rule in ("accuracy", "loss")},
            "runs": [asdict(run) for run in self.runs],
            "seconds": self.seconds,
            "device": self.device,
            "stack": self.stack,
        }
