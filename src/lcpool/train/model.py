"""A trained network that predicts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from lcpool.data import GraphSet, Split, load_dataset
from lcpool.data.columns import with_categories, with_words
from lcpool.data.convert import are_integers, convert, lacks_features, single_graphs
from lcpool.data.graphset import features_are_degrees, with_degrees
from lcpool.data.load import Graphs
from lcpool.models import Backbone
from lcpool.notebook import card
from lcpool.settings import TaskName, changed, unnamed
from lcpool.train.metrics import METRICS
from lcpool.train.model_file import read_model, write_model
from lcpool.train.tasks import TASKS, Task
from lcpool.view.levels import PooledGraph, levels_of, recorded

# Names of classes, labels or values that a notebook shows.
MOST_NAMES = 8
# Graphs evaluated at a time (per run): without gradients they take little memory.
EVAL_BATCH = 128


class Features(NamedTuple):
    """What the features of nodes, or of edges, are."""

    width: int
    categories: tuple[int, ...]
    words: tuple[tuple[str, ...], ...]


def fingerprint(graphs: GraphSet) -> str:
    """A digest of the content of all graphs."""
    # Whole numbers can be classes or values.
    digest = hashlib.sha256(b"" if graphs.task == "classes" else graphs.task.encode())
    for column in (graphs.x, graphs.edge_index, graphs.node_ptr, graphs.edge_ptr, graphs.targets):
        digest.update(str(tuple(column.shape)).encode())
        digest.update(column.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


@dataclass
class Model:
    """A trained network that predicts.

    Attributes:
        network: the network.
        classes: the labels of the training data, sorted; class number c is ``classes[c]``. Empty
            if it predicts labels or values.
        mean_nodes: the training data's mean number of nodes; the size of some networks follows it.
        dataset: the name of the training data.
        degrees: whether it had no features, so that degrees took their place.
        kind: what is predicted: "classes", "labels" or "values".
        target_names: names of the labels or values, if the training data had them.
        scale: for values, mean and standard deviation of the training graphs, ``[2, values]``.
        metric: the name of the metric that chose its epoch; ``score`` computes it.
        run: the number of its run, or None.
        split: the numbers of the graphs that this run was trained, validated and tested on.
        digest: a checksum of the training data, to recognise it.
        categories: those of its features (:attr:`lcpool.data.GraphSet.categories`).
        words: what these are called (:attr:`lcpool.data.GraphSet.words`).
        edge_categories: those of the edge attributes.
        edge_words: what these are called.
    """

    network: Backbone
    classes: tuple[int, ...] | tuple[str, ...]
    mean_nodes: float
    dataset: str
    degrees: bool = False
    kind: TaskName = "classes"
    target_names: tuple[str, ...] = ()
    scale: Tensor | None = None
    metric: str = "accuracy"
    run: int | None = None
    split: Split | None = None
    digest: str = ""
    categories: tuple[int, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    edge_categories: tuple[int, ...] = ()
    edge_words: tuple[tuple[str, ...], ...] = ()

    def __repr__(self) -> str:
        a = self.network.architecture
        return (
            f"Model({self.dataset!r}, {a.pool}, {a.backbone}, {a.conv}, "
            f"{self.num_features} features, {self.num_outputs} {self.kind})"
        )

    def _repr_html_(self) -> str:
        a, split = self.network.architecture, self.split
        weights = sum(parameter.numel() for parameter in self.network.parameters())
        names = self.columns[:MOST_NAMES]
        more = f" and {self.num_outputs - len(names)} more" if self.num_outputs > len(names) else ""
        degrees = ", the degrees" if self.degrees else ""
        facts = {
            "predicts": f"{self.num_outputs} {self.kind}: {', '.join(names)}{more}",
            "network": ", ".join(
                [a.pool, a.backbone, a.conv, *changed(unnamed(asdict(a))).values()]
            ),
            "reads": f"{self.num_features} features per node{degrees}",
            "parameters": f"{weights:,}",
            "epoch chosen by": METRICS[self.metric].title,
        }
        if split is not None:
            parts = zip(split.sizes, ("trained", "validated", "tested"), strict=True)
            facts["graphs"] = ", ".join(f"{size} {verb}" for size, verb in parts if size)
        return card(f"Model of {self.dataset}", facts)

    @property
    def num_features(self) -> int:
        """Features per node that the network takes."""
        return self.network.get_parameter("pre.0.weight").size(1)

    @property
    def num_outputs(self) -> int:
        """How many numbers the network gives per graph, one per class, label or value."""
        *_, bias = self.network.post.parameters()
        return bias.size(0)

    @property
    def task(self) -> Task:
        return TASKS[self.kind]

    @property
    def columns(self) -> list[str]:
        """A name for each column of :meth:`outputs`."""
        numbered = [f"{self.kind[:-1]}_{c}" for c in range(self.num_outputs)]
        return [str(name) for name in self.classes or self.target_names or numbered]

    @classmethod
    def of(cls, network: Backbone, graphs: GraphSet) -> Model:
        """A network that was trained on ``graphs``."""
        mean_nodes = float(graphs.node_counts.double().mean())
        return cls(
            network, graphs.classes, mean_nodes, graphs.name, features_are_degrees(graphs),
            kind=graphs.task, target_names=graphs.target_names,
            metric=TASKS[graphs.task].default, digest=fingerprint(graphs),
            categories=graphs.categories, words=graphs.words,
            edge_categories=graphs.edge_categories, edge_words=graphs.edge_words,
        )  # fmt: skip

    def predict(self, graphs: Graphs) -> Tensor | list[str]:
        """What the model says of each graph, on the CPU.

        - classes: its label, one of ``classes``, ``[graphs]``: a tensor, or a list of words;
        - labels: 1 where a label is more probable than not, else 0, ``[graphs, labels]``;
        - values: the numbers, ``[graphs, values]``.

        Raises:
            ValueError: if the graphs do not have the features that the network was trained on.
        """
        return self.read(self.outputs(graphs))

    def read(self, outputs: Tensor) -> Tensor | list[str]:
        """What :meth:`predict` returns, from what :meth:`outputs` does."""
        if self.kind == "values":
            return outputs
        if self.kind == "labels":
            return (outputs > 0).long()
        numbers = outputs.argmax(-1)
        if isinstance(self.classes[0], str):
            return [str(self.classes[number]) for number in numbers.tolist()]
        return torch.tensor(self.classes)[numbers]

    def probabilities(self, graphs: Graphs) -> Tensor:
        """The probability of each class or label for each graph, ``[graphs, classes]``, on the CPU.

        Column c belongs to the label ``classes[c]``, or to label number c.

        Raises:
            ValueError: for a model of values, which have none; and as for :meth:`predict`.
        """
        return self.task.probabilities(self.outputs(graphs))

    @torch.no_grad()
    def outputs(self, graphs: Graphs) -> Tensor:
        """What the network gives for each graph, on the CPU: scores, or values in their own units.

        ``[graphs, columns]``. Softmax of the scores of classes, and sigmoid of those of labels, are
        probabilities.
        """
        columns = self._columns(graphs)
        if columns is None:
            return torch.empty(0, self.num_outputs)
        return torch.cat(list(self._passes(columns)))

    @torch.no_grad()
    def _passes(self, graphs: GraphSet) -> Iterator[Tensor]:
        """:meth:`outputs` of :data:`EVAL_BATCH` graphs after the other."""
        device = next(self.network.parameters()).device
        batchable = self._with_features(graphs).to(device)
        self.network.eval()
        scale = None if self.scale is None else self.scale.to(device).unsqueeze(0)
        for part in torch.split(torch.arange(len(batchable)), EVAL_BATCH):
            scores = self.network(batchable.batch(part)).logits
            yield self.task.outputs(scores, scale, 1).squeeze(0).cpu()

    def pooled(self, graphs: Graphs) -> list[PooledGraph]:
        """What the network's poolings make of each graph, and what is predicted of it.

        Each :class:`~lcpool.view.PooledGraph` has a :class:`~lcpool.view.Level` per pooling: the
        kept nodes, their scores, the clusters, the edges and which of them are new.
        :func:`lcpool.draw` draws it.

        Raises:
            ValueError: as for :meth:`predict`.

        Example:
            >>> from lcpool.data import builtin
            >>> from lcpool.train import train
            >>> graphs = builtin(num_graphs=40)
            >>> model = train(graphs, "lcpool", runs=1, epochs=1, hidden=8, device="cpu").model
            >>> first = model.pooled(graphs)[0]
            >>> (level,) = first.levels
            >>> level.num_nodes == level.perm.numel() == -(-first.graph.num_nodes // 2)
            True
        """
        return list(self.each_pooled(graphs))

    def each_pooled(self, graphs: Graphs) -> Iterator[PooledGraph]:
        """:meth:`pooled`, one graph after the other, for more of them than the memory holds."""
        if isinstance(graphs, Iterator):
            graphs = list(graphs)
        columns = self._columns(graphs)
        if columns is None:
            return
        rows = [] if isinstance(graphs, str | os.PathLike | GraphSet) else single_graphs(graphs)
        if not rows or not all(isinstance(row, Data) for row in rows):
            rows = columns.to_graphs()
        numbered, truth = enumerate(rows), self._truth(columns)
        with recorded(self.network.pools) as calls:
            for outputs in self._passes(columns):
                levels = zip(*(levels_of(*call) for call in calls), strict=True)
                calls.clear()
                given = self.read(outputs)
                told = given if isinstance(given, list) or given.dim() > 1 else given.tolist()
                probable: Sequence[Tensor | None] = [None] * len(outputs)
                if self.kind != "values":
                    probable = [*self.task.probabilities(outputs)]
                for at, prediction in enumerate(told):
                    number, graph = next(numbered)
                    yield PooledGraph(
                        graph, next(levels, ()), number, prediction, probable[at], truth[number]
                    )

    def _truth(self, graphs: GraphSet) -> Sequence[Any]:
        """What is known of each graph, as :meth:`predict` would give it; None if nothing is."""
        if graphs.task == self.kind == "classes":
            return graphs.known()
        if graphs.task == self.kind and graphs.num_outputs == self.num_outputs:
            return [*graphs.y.cpu()]
        return [None] * len(graphs)

    def score(self, graphs: Graphs, metric: str | None = None) -> float:
        """How well the targets ``y`` of the graphs are predicted.

        Args:
            graphs: the graphs.
            metric: as the setting of this name; by default the one that chose the model's epoch.
                Accuracy is a fraction here.

        Raises:
            ValueError: if there are no graphs, if they have no targets or other ones than the model
                predicts, or as for :meth:`predict`.

        Example:
            >>> from lcpool.data import builtin
            >>> from lcpool.train import train
            >>> graphs = builtin(num_graphs=40)
            >>> model = train(graphs, "nopool", runs=1, epochs=1, hidden=8, device="cpu").model
            >>> model.score(graphs) == float((model.predict(graphs) == graphs.y).double().mean())
            True
        """
        wanted = self.task.metric(metric or self.metric)
        columns = self._columns(graphs)
        if columns is None:
            raise ValueError("there are no graphs to score.")
        target = self._targets(columns)
        return self.task.final(wanted, self.outputs(columns), target)

    def parts(self, graphs: GraphSet) -> list[str]:
        """The part of the split that each graph is in: "train", "val", "test" or nothing.

        Nothing for all of them, unless they are the graphs that the model was trained on.
        """
        found = [""] * len(graphs)
        if self.split is not None and self.digest == fingerprint(graphs):
            for name, part in zip(self.split._fields, self.split, strict=True):
                for g in part.tolist():
                    found[g] = name
        return found

    def _targets(self, graphs: GraphSet) -> Tensor:
        """What is true of the graphs, in the terms of the model: its classes may be others."""
        if graphs.unlabelled:
            raise ValueError(
                f"{graphs.name}: the graphs have no labels (y) to score by; predict needs none."
            )
        if graphs.task != self.kind:
            raise ValueError(
                f"the model predicts {self.kind} ({self.dataset}), but {graphs.name} has "
                f"{graphs.task}: pass GraphSet.from_graphs(graphs, task='{self.kind}')."
            )
        if self.kind != "classes":
            if graphs.num_outputs != self.num_outputs:
                raise ValueError(
                    f"the model predicts {self.num_outputs} {self.kind} ({self.dataset}), but "
                    f"{graphs.name} has {graphs.num_outputs}."
                )
            return graphs.targets.cpu()
        known = {label: number for number, label in enumerate(self.classes)}
        labels = graphs.known()
        for g, label in enumerate(labels):
            if label not in known:
                listed = ", ".join(map(str, self.classes))
                raise ValueError(
                    f"{graphs.name}: graph {g} has label {label}, which the model does not know; "
                    f"its classes are {listed} ({self.dataset})."
                )
        return torch.tensor([known[label] for label in labels])

    def _columns(self, graphs: Graphs) -> GraphSet | None:
        """The graphs in columns, or None if there are none."""
        if isinstance(graphs, str | os.PathLike):
            graphs = load_dataset(graphs)
        if isinstance(graphs, GraphSet):
            return graphs if len(graphs) else None
        found = single_graphs(graphs)
        for g, graph in enumerate(found):
            # Degrees that fill in for missing features may be as wide, but mean nothing here.
            if not self.degrees and lacks_features(graph):
                raise ValueError(
                    f"the network was trained on features ({self.dataset}); graph {g} has none "
                    f"('x', or attributes of nodes)."
                )
        if not found:
            return None
        if not all(isinstance(graph, Data) for graph in found):
            return convert(graphs, found, None, None, self._kind(found))
        columns = GraphSet.from_graphs(found, task=self._kind(found))
        known = {"x": self.categories, "edge_attr": self.edge_categories}
        kept = (
            sizes if are_integers(found, key, len(sizes)) else () for key, sizes in known.items()
        )
        return with_categories(columns, *kept)

    def _kind(self, graphs: list[Data]) -> TaskName | None:
        """How to read ``y`` of graphs: as the training data's, if it is of that kind at all."""
        words = any(isinstance(getattr(graph, "y", None), str) for graph in graphs)
        return None if words or self.kind == "classes" else self.kind

    def _with_features(self, graphs: GraphSet) -> GraphSet:
        """The graphs with features as in training: words in its columns, or degrees as wide.

        Raises an error if the network cannot read their features of nodes or edges.
        """
        edge_dim = self.network.edge_dims[0]
        words = () if self.degrees else self.words
        graphs = with_words(graphs, words, () if edge_dim is None else self.edge_words)
        if not self.degrees:
            known = Features(self.num_features, self.categories, self.words)
            found = Features(graphs.num_features, graphs.categories, graphs.words)
            self._check_kind("features per node ('x')", known, found)
        elif features_are_degrees(graphs):
            graphs = with_degrees(graphs, self.num_features)
        else:
            raise ValueError(
                f"the network was trained on degrees, as {self.dataset} has no features; "
                f"graph 0 has 'x' with something else."
            )
        if edge_dim is not None:
            known = Features(edge_dim, self.edge_categories, self.edge_words)
            found = Features(graphs.num_edge_features, graphs.edge_categories, graphs.edge_words)
            self._check_kind("attributes per edge ('edge_attr')", known, found)
        return graphs

    def _check_kind(self, what: str, known: Features, found: Features) -> None:
        """Raise unless features have the width, the categories and the words of training."""
        if known.width != found.width:
            raise ValueError(
                f"the network was trained on {known.width} {what} ({self.dataset}), but these "
                f"graphs have {found.width}."
            )
        if found.categories and found.categories != known.categories:
            raise ValueError(
                f"the network was trained on {what} of {known.categories} categories "
                f"({self.dataset}), but these graphs have {found.categories}. PyG graphs "
                f"themselves, in a list, get those of the network."
            )
        for ours, theirs in zip(known.words, found.words, strict=False):
            if ours != theirs:
                other = sorted(set(ours) ^ set(theirs))
                how = f"{other[0]!r} is only in one of the two" if other else "their order differs"
                raise ValueError(
                    f"the network was trained on {what} with other words ({self.dataset}): {how}. "
                    f"Give both datasets the same words: in tables, a column of pandas' type "
                    f"category with the same categories."
                )

    def save(self, path: str | Path) -> None:
        """Write the network and what it needs to predict; :meth:`load` reads it back."""
        write_model(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, trust: bool = False) -> Model:
        """Read a saved network; nothing in the file is executed (``weights_only``).

        Args:
            path: the file.
            trust: allow the file to name classes of your own as pooling, convolution or network
                (``module:Class``). Their modules are imported, which executes their code.

        Raises:
            OSError: if the file cannot be opened.
            ValueError: if it is not a model, a class of your own needs ``trust``, or has changed
                since it was saved.
        """
        return read_model(cls, Path(path), trust)
