"""A set of graphs in columns, and the batches that are cut from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise, starmap
from numbers import Integral
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import cumsum

from lcpool.data.batches import GraphBatch, cut_batches
from lcpool.data.checks import DatasetError, check_columns, warn_once
from lcpool.data.splits import Split
from lcpool.data.targets import INTEGERS, targets
from lcpool.settings import TaskName

# Nodes with more neighbours than this share the last degree feature: hubs of social networks have
# thousands, and a column for each would hold almost nothing.
MAX_DEGREE = 127


@dataclass(frozen=True, eq=False)
class GraphSet:
    """Graphs in columns: graph g has the rows from ``ptr[g]`` to ``ptr[g + 1]``.

    Attributes:
        name: what the set is called.
        x: node features of all graphs, ``[nodes, features]``, float32.
        edge_index: source and target of each edge as rows of ``x``, ``[2, edges]``.
        node_ptr: where each graph's nodes begin, and the end, ``[graphs + 1]``.
        edge_ptr: the same for its edges.
        y: what is known of each graph, as ``task`` says.
            "classes": its label as in the data, ``[graphs]``, int64 (where labels are words, its
            number in ``classes``); -1 for all graphs, and no classes, if they have no labels.
            "labels": 0, 1 or NaN (missing) for each label, ``[graphs, labels]``, floats.
            "values": the numbers, NaN where one is missing, ``[graphs, values]``, floats.
        classes: the labels of "classes", sorted: whole numbers or words. A subset has the classes
            of the whole set.
        edge_attr: features of each edge, ``[edges, features]``, or None.
        task: what is predicted: "classes" (one of several), "labels" (several of 0 or 1) or
            "values" (numbers).
        target_names: the names of the columns of ``y`` for "labels" and "values", or empty.
        categories: how many categories each categorical feature has, or empty if there is none.
            The first ``sum(categories)`` columns of ``x`` are these features one-hot, one block
            of columns after the other: with (3, 2), a node of the categories 2 and 0 begins with
            0 0 1 1 0. A block of zeros is a category that is not known. The other columns are
            numbers.
        words: what the categories of each such feature are called, or empty if they are numbers.
        edge_categories: the same for the first columns of ``edge_attr``.
        edge_words: and what these categories are called.
        splits: the splits that came with the data, on the host, or none. A subset has none.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> triangle = Data(x=torch.ones(3, 2), edge_index=edge_index, y=7)
        >>> graphs = GraphSet.from_graphs([triangle, triangle])
        >>> graphs.batch(torch.tensor([1, 0, 1])).edge_index.tolist()
        [[0, 1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 0, 4, 5, 3, 7, 8, 6]]
    """

    name: str
    x: Tensor
    edge_index: Tensor
    node_ptr: Tensor
    edge_ptr: Tensor
    y: Tensor
    classes: tuple[int, ...] | tuple[str, ...]
    edge_attr: Tensor | None = None
    task: TaskName = "classes"
    target_names: tuple[str, ...] = ()
    categories: tuple[int, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    edge_categories: tuple[int, ...] = ()
    edge_words: tuple[tuple[str, ...], ...] = ()
    splits: tuple[Split, ...] = ()

    @classmethod
    def from_graphs(
        cls, graphs: Iterable[Data], name: str = "graphs", task: TaskName | None = None
    ) -> GraphSet:
        """Make a set of PyG graphs, or of a PyG dataset.

        Graphs without ``x`` get degree features (``degree_features``);
        without ``y`` they have no classes. An ``x`` or ``y`` that only some graphs have is an
        error.

        Args:
            graphs: the graphs.
            name: what the set is called.
            task: what ``y`` is. By default, one whole number or word per graph is a class, rows of
                several 0, 1 and NaN are labels, and other numbers are values.
        """
        rows = [graphs] if isinstance(graphs, Data) else list(graphs)
        if not rows or not all(isinstance(graph, Data) for graph in rows):
            kinds = ", ".join(sorted({type(graph).__name__ for graph in rows})) or "nothing"
            hint = " load_dataset takes others: networkx, tables, SMILES." if rows else ""
            raise DatasetError(f"{name}: expected PyG Data objects, got {kinds}.{hint}")
        edges, edge_counts = _gather_edges(name, rows)
        node_counts = torch.tensor([graph.num_nodes for graph in rows])
        x = _gather_rows(name, rows, "x", node_counts)
        x = degree_features(edges, int(node_counts.sum())) if x is None else x
        known = targets(name, [getattr(row, "y", None) for row in rows], len(rows), task)
        try:
            edge_attr = _gather_rows(name, rows, "edge_attr", edge_counts)
        except DatasetError as error:  # Few networks read it, and those say that it is missing.
            warn_once(f"{error} The graphs are used without 'edge_attr'.")
            edge_attr = None
        ptrs = cumsum(node_counts), cumsum(edge_counts)
        return cls(name, x, edges, *ptrs, edge_attr=edge_attr, **known)

    def __len__(self) -> int:
        return self.y.size(0)

    @property
    def shape(self) -> tuple[int]:
        """The number of graphs. Its being there tells scikit-learn to index sets as arrays."""
        return (len(self),)

    @overload
    def __getitem__(self, key: int) -> Data: ...
    @overload
    def __getitem__(self, key: Any) -> GraphSet: ...
    def __getitem__(self, key: Any) -> Data | GraphSet:
        """A graph by its number; by a slice, numbers or a mask, a set of graphs as PyG's datasets.

        >>> from lcpool.data import builtin
        >>> graphs = builtin(num_graphs=10)
        >>> graphs[-1].y.tolist(), len(graphs[2:7]), len(graphs[[0, 3]]), len(graphs[graphs.y > 0])
        ([1], 5, 2, 5)
        """
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # as scikit-learn writes it
        key = key.cpu().numpy() if isinstance(key, Tensor) else key
        key = np.array(key, np.int64) if isinstance(key, list) and not key else key
        index = torch.from_numpy(np.atleast_1d(np.arange(len(self))[key]))
        if isinstance(key, Integral):
            return self.subset(index).to_graphs()[0]
        return self.subset(index)

    def __iter__(self) -> Iterator[Data]:
        return iter(self.to_graphs())

    def __repr__(self) -> str:
        return (
            f"GraphSet({self.name!r}, {len(self)} graphs, {self.x.size(0)} nodes, "
            f"{self.edge_index.size(1)} edges, {self.num_features} features, "
            f"{self.num_outputs} {self.task})"
        )

    @property
    def num_features(self) -> int:
        return self.x.size(1)

    @property
    def num_edge_features(self) -> int:
        """Attributes per edge; 0 if there are none."""
        return 0 if self.edge_attr is None else self.edge_attr.shape[1:].numel()

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def unlabelled(self) -> bool:
        """Whether nothing is known of the graphs: no labels, and so no classes."""
        return self.task == "classes" and not self.classes

    @property
    def classes_are_words(self) -> bool:
        """Whether classes are called by words; ``y`` has their numbers then."""
        return self.task == "classes" and isinstance(next(iter(self.classes), None), str)

    @property
    def num_outputs(self) -> int:
        """How many numbers a network gives per graph, one per class, label or value."""
        return len(self.classes) if self.task == "classes" else self.y.size(1)

    @cached_property
    def targets(self) -> Tensor:
        """What a network is trained on.

        The class of each graph, counted from 0, ``classes[targets] == y`` (-1 without labels); or
        the labels or values, ``[graphs, columns]``, float32.
        """
        if self.task != "classes":
            return self.y.float()
        if self.unlabelled:
            return torch.full_like(self.y, -1)
        if self.classes_are_words:
            return self.y
        classes = torch.tensor(self.classes, device=self.y.device)
        found = torch.searchsorted(classes, self.y).clamp(max=len(self.classes) - 1)
        unknown = (classes[found] != self.y).nonzero()
        if len(unknown):
            g, known = int(unknown[0]), ", ".join(map(str, self.classes))
            label = f"{self.name}: graph {g} has label {int(self.y[g])}"
            raise DatasetError(f"{label}, which is none of the classes {known}.")
        return found

    @cached_property
    def node_counts(self) -> Tensor:
        """The number of nodes of each graph, on the host."""
        return self.node_ptr.cpu().diff()

    @cached_property
    def edge_counts(self) -> Tensor:
        """The number of edges of each graph, on the host."""
        return self.edge_ptr.cpu().diff()

    @cached_property
    def edge_ends(self) -> Tensor:
        """The sources of all edges, then their targets."""
        return self.edge_index.reshape(-1)

    @cached_property
    def undirected(self) -> bool:
        """Whether every edge has a reverse edge, and as many copies of it."""
        source, target = self.edge_index
        size = self.x.size(0)
        there, back = (source * size + target).sort()[0], (target * size + source).sort()[0]
        return torch.equal(there, back)

    @cached_property
    def in_order(self) -> bool:
        """Whether the edges are sorted by source."""
        return bool((self.edge_index[0].diff() >= 0).all())

    def to(self, device: torch.device | str) -> GraphSet:
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors: dict[str, Any] = {n: v for n, v in columns.items() if isinstance(v, Tensor)}
        return replace(self, **{name: value.to(device) for name, value in tensors.items()})

    def batch(self, index: Tensor) -> GraphBatch:
        """The graphs ``index`` in that order, made on the device of the columns.

        All sizes are known on the host: nothing synchronises with a GPU.

        Args:
            index: numbers of graphs, ``[batch_size]``, int64, on the host. May repeat.
        """
        return next(self.batches([index]))

    def batches(self, parts: Sequence[Tensor]) -> Iterator[GraphBatch]:
        """A batch for each of several ``index``; on a GPU, several are made at once."""
        for part in parts:
            self._check_graphs(part)
        self.check()  # kernels trust what is in a batch
        return cut_batches(self, parts)

    def check(self) -> None:
        """Raise a ``DatasetError`` unless the columns fit together; they are read once."""
        self._checked  # noqa: B018

    def subset(self, index: Tensor) -> GraphSet:
        """The graphs ``index``, in that order, as a set with the same classes and labels."""
        part = self.batch(index)
        return replace(
            self,
            x=part.x,
            edge_index=part.edge_index,
            node_ptr=cumsum(part.node_counts).to(self.x.device),
            edge_ptr=cumsum(self.edge_counts[index]).to(self.x.device),
            y=self.y[index.to(self.y.device)],
            edge_attr=part.edge_attr,
            splits=(),
        )

    def to_graphs(self) -> list[Data]:
        """The graphs as PyG ``Data`` objects; their features share memory with the columns."""
        spans = (starmap(slice, pairwise(ptr.tolist())) for ptr in (self.node_ptr, self.edge_ptr))
        words = self.unlabelled or self.classes_are_words
        known = self.known() if words else [self.y[g : g + 1] for g in range(len(self))]
        return [
            Data(
                x=self.x[nodes],
                edge_index=self.edge_index[:, edges] - nodes.start,
                edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
                y=y,
            )
            for nodes, edges, y in zip(*spans, known, strict=True)
        ]

    def known(self) -> list[Any]:
        """What is known of each graph as its user writes it: a word, a number, a row, or None."""
        if self.unlabelled:
            return [None] * len(self)
        if self.classes_are_words:
            return [self.classes[number] for number in self.y.tolist()]
        found: list[Any] = self.y.tolist()
        return found

    @cached_property
    def _checked(self) -> None:
        check_columns(self)

    def _check_graphs(self, index: Tensor) -> None:
        if index.dtype != torch.int64 or index.dim() != 1 or index.device.type != "cpu":
            found = f"{index.dtype} of shape {list(index.shape)} on {index.device}"
            raise TypeError(
                f"'index' must be a one-dimensional int64 tensor on the CPU, not {found}."
            )
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < len(self):
            span = f"[{int(index.min())}, {int(index.max())}]"
            raise IndexError(f"'index' spans {span}, but {self.name} has {len(self)} graphs.")


def degree_features(edge_index: Tensor, num_nodes: int, width: int | None = None) -> Tensor:
    """The number of edges out of each node, one-hot, ``[num_nodes, width]``.

    The last column is for all larger degrees. By default there are as many columns as are needed,
    for degrees up to :data:`MAX_DEGREE`.
    """
    degree = edge_index[0].bincount(minlength=num_nodes).clamp(max=MAX_DEGREE)
    if width is None:
        width = int(degree.max()) + 1 if num_nodes else 1
    features = torch.zeros(num_nodes, width, device=edge_index.device)
    return features.scatter_(1, degree.clamp(max=width - 1).unsqueeze(-1), 1.0)


def features_are_degrees(graphs: GraphSet) -> bool:
    """Whether the node features are the degrees, one-hot: the graphs came without features."""
    degrees = degree_features(graphs.edge_index, graphs.x.size(0))
    used, unused = graphs.x.tensor_split([degrees.size(1)], dim=1)
    return used.shape == degrees.shape and bool((used == degrees).all()) and not unused.any()


def with_degrees(graphs: GraphSet, width: int) -> GraphSet:
    """The graphs with ``width`` columns of :func:`degree_features`."""
    return replace(graphs, x=degree_features(graphs.edge_index, graphs.x.size(0), width))


def _gather_rows(name: str, graphs: list[Data], key: str, counts: Tensor) -> Tensor | None:
    """The rows ``key`` of all graphs as one float32 matrix, or None where no graph has them."""
    found = [getattr(graph, key, None) for graph in graphs]
    if all(part is None for part in found):
        return None
    parts: list[Tensor] = []
    for g, (part, count) in enumerate(zip(found, counts.tolist(), strict=True)):
        where = f"{name}: '{key}' of graph {g}"
        if part is None:
            raise DatasetError(f"{name}: graph {g} has no '{key}', but others do.")
        if not isinstance(part, Tensor) or part.is_complex():
            kind = part.dtype if isinstance(part, Tensor) else type(part).__name__
            raise DatasetError(f"{where} must be a tensor of real numbers, not {kind}.")
        if part.layout != torch.strided:
            raise DatasetError(f"{where} is sparse: graph.{key} = graph.{key}.to_dense().")
        parts.append(part.detach().cpu() if part.dim() > 1 else part.detach().cpu().unsqueeze(-1))
        if parts[g].dim() != 2 or parts[g].shape != (count, parts[0].size(1)):
            width = parts[0].size(1) if parts[0].dim() == 2 else "any"
            problem = f"must have shape [{count}, {width}], not {list(part.shape)}"
            raise DatasetError(f"{where} {problem}.")
        if not parts[g].float().isfinite().all():
            raise DatasetError(
                f"{where} has NaN, or numbers too large for float32: replace them, or leave the "
                f"graph out."
            )
    return torch.cat(parts).float()


def _gather_edges(name: str, graphs: list[Data]) -> tuple[Tensor, Tensor]:
    """The edges of all graphs, nodes numbered through, and how many edges each graph has."""
    parts, offset = [], 0
    for g, graph in enumerate(graphs):
        edges, size, where = graph.edge_index, graph.num_nodes, f"{name}: 'edge_index' of graph {g}"
        if not isinstance(edges, Tensor) or edges.dim() != 2 or edges.size(0) != 2:
            raise DatasetError(f"{name}: graph {g} has no 'edge_index' of shape [2, num_edges].")
        if edges.numel():  # An empty list of edges is a float tensor unless a type was given.
            if edges.dtype not in INTEGERS:
                raise DatasetError(f"{where} must hold integers, not {edges.dtype}.")
            low, high = int(edges.min()), int(edges.max())
            if not 0 <= low <= high < size:
                raise DatasetError(f"{where} spans [{low}, {high}], but it has {size} nodes.")
        # A PyG EdgeIndex is a tensor with a cache; the plain tensor inside is all we need.
        parts.append(edges.as_subclass(Tensor).cpu().long() + offset)
        offset += size
    return torch.cat(parts, dim=1), torch.tensor([part.size(1) for part in parts])
