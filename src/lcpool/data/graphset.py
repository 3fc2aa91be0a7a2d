"""A set of graphs in columns, and the batches that are cut from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import cumsum

from lcpool.data.checks import DatasetError
from lcpool.data.degrees import degree_features
from lcpool.data.pyg import gather_edges, gather_labels, gather_rows
from lcpool.graph.checks import Trust
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph
from lcpool.graph.sizes import Sizes, owners, send


class GraphBatch(NamedTuple):
    """Some graphs of a :class:`GraphSet` as one disjoint union, as PyG batches them.

    Attributes:
        graph: features, edges, the graph of each node, and sizes that are known on the host.
        edge_attr: edge features, or None.
        target: the class of each graph, numbered as in :attr:`GraphSet.targets`.
    """

    graph: Graph
    edge_attr: Tensor | None
    target: Tensor

    @property
    def x(self) -> Tensor:
        return self.graph.x

    @property
    def edge_index(self) -> Tensor:
        """Source and target of each edge, numbered within the batch."""
        return self.graph.edge_index

    @property
    def batch(self) -> Tensor:
        """The graph of each node, sorted."""
        return self.graph.batch_vector()

    @property
    def batch_size(self) -> int:
        """The number of graphs, empty ones included."""
        return self.graph.batch_size

    @property
    def node_counts(self) -> Tensor:
        """The number of nodes of each graph, on the host."""
        assert self.graph.sizes is not None
        return self.graph.sizes.counts


class Spans(NamedTuple):
    """Where graphs have their rows: graph g has ``counts[g]`` of them, from ``start[g]`` on."""

    start: Tensor
    counts: Tensor

    @classmethod
    def of(cls, ptr: Tensor) -> Spans:
        """Graphs whose rows follow each other."""
        ptr = ptr.cpu()
        return cls(ptr[:-1], ptr.diff())

    def pick(self, index: Tensor) -> Spans:
        """The graphs ``index``, in that order."""
        return Spans(self.start[index], self.counts[index])

    @property
    def ptr(self) -> Tensor:
        """Where each graph begins once only these graphs are kept, and the end of the last."""
        ptr: Tensor = cumsum(self.counts)
        return ptr

    @property
    def shift(self) -> Tensor:
        """How far a graph's rows move once only these graphs are kept."""
        return self.start - self.ptr[:-1]


@dataclass(frozen=True, eq=False)
class GraphSet:
    """Graphs in columns: graph g has the rows from ``ptr[g]`` to ``ptr[g + 1]``.

    Attributes:
        name: what the set is called.
        x: node features of all graphs, ``[nodes, features]``, float32.
        edge_index: source and target of each edge as rows of ``x``, ``[2, edges]``.
        node_ptr: where each graph's nodes begin, and the end, ``[graphs + 1]``.
        edge_ptr: the same for its edges.
        y: the label of each graph as in the data, ``[graphs]``, int64; -1 for all graphs, and no
            classes, if the graphs have no labels.
        classes: the labels, sorted. A subset has the classes of the whole set.
        edge_attr: features of each edge, ``[edges, features]``, or None.
        label_widths: the width of each one-hot node label; these are the last columns of ``x``.

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
    classes: tuple[int, ...]
    edge_attr: Tensor | None = None
    label_widths: tuple[int, ...] = ()

    @classmethod
    def from_graphs(cls, graphs: Iterable[Data], name: str = "graphs") -> GraphSet:
        """Make a set of PyG graphs, or of a PyG dataset.

        Graphs without ``x`` get degree features (:func:`lcpool.data.degrees.degree_features`);
        without ``y`` they have no classes. An ``x`` or ``y`` that only some graphs have is an
        error.
        """
        rows = [graphs] if isinstance(graphs, Data) else list(graphs)
        if not rows or not all(isinstance(graph, Data) for graph in rows):
            kinds = ", ".join(sorted({type(graph).__name__ for graph in rows})) or "nothing"
            hint = ' Pass several datasets by name: {"a": graphs, "b": others}.' if rows else ""
            raise DatasetError(f"{name}: expected PyG Data objects, got {kinds}.{hint}")
        edges, edge_counts = gather_edges(name, rows)
        node_counts = torch.tensor([graph.num_nodes for graph in rows])
        x = gather_rows(name, rows, "x", node_counts)
        x = degree_features(edges, int(node_counts.sum())) if x is None else x
        y, classes = gather_labels(name, rows)
        edge_attr = gather_rows(name, rows, "edge_attr", edge_counts)
        return cls(name, x, edges, cumsum(node_counts), cumsum(edge_counts), y, classes,
                   edge_attr)  # fmt: skip

    def __len__(self) -> int:
        return self.y.numel()

    def __repr__(self) -> str:
        return (
            f"GraphSet({self.name!r}, {len(self)} graphs, {self.x.size(0)} nodes, "
            f"{self.edge_index.size(1)} edges, {self.num_features} features, "
            f"{self.num_classes} classes)"
        )

    @property
    def num_features(self) -> int:
        return self.x.size(1)

    @property
    def num_classes(self) -> int:
        """Number of classes, 0 for graphs without labels."""
        return len(self.classes)

    @cached_property
    def targets(self) -> Tensor:
        """The class of each graph, counted from 0: ``classes[targets] == y``; -1 without labels."""
        if not self.classes:
            return torch.full_like(self.y, -1)
        classes = torch.tensor(self.classes, device=self.y.device)
        found = torch.searchsorted(classes, self.y).clamp(max=len(self.classes) - 1)
        unknown = (classes[found] != self.y).nonzero()
        if len(unknown):
            g = int(unknown[0])
            known = ", ".join(map(str, self.classes))
            raise DatasetError(
                f"{self.name}: graph {g} has label {int(self.y[g])}, which is none of the classes "
                f"{known}."
            )
        return found

    @cached_property
    def nodes(self) -> Spans:
        """The rows of each graph's nodes, on the host."""
        return Spans.of(self.node_ptr)

    @cached_property
    def edges(self) -> Spans:
        """The rows of each graph's edges, on the host."""
        return Spans.of(self.edge_ptr)

    @property
    def node_counts(self) -> Tensor:
        """The number of nodes of each graph, on the host."""
        return self.nodes.counts

    @property
    def edge_counts(self) -> Tensor:
        """The number of edges of each graph, on the host."""
        return self.edges.counts

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
        """The same graphs with their columns on ``device``."""
        columns: dict[str, Any] = {}
        for field in fields(self):
            if isinstance(value := getattr(self, field.name), Tensor):
                columns[field.name] = value.to(device)
        return replace(self, **columns)

    def batch(self, index: Tensor) -> GraphBatch:
        """The graphs ``index`` in that order, made on the device of the columns.

        All sizes are known on the host: nothing synchronises with a GPU.

        Args:
            index: numbers of graphs, ``[batch_size]``, int64, on the host. May repeat.
        """
        self._check_graphs(index)
        nodes, edges = self.nodes.pick(index), self.edges.pick(index)
        # Everything the device must know goes there in one copy.
        parts = (index, nodes.ptr, nodes.shift, edges.ptr, edges.shift)
        lengths = [part.numel() for part in parts]
        sent = torch.split(send(torch.cat(parts), self.x.device), lengths)
        picked, node_ptr, node_shift, edge_ptr, edge_shift = sent
        sizes = Sizes(nodes.counts, node_ptr, int(nodes.counts.sum()))
        num_edges = int(edges.counts.sum())
        owner = owners(edge_ptr, num_edges)
        rows = edge_shift[owner] + torch.arange(num_edges, device=owner.device)
        edge_index = self.edge_index[:, rows] - node_shift[owner]
        x = self.x[node_shift[sizes.batch] + torch.arange(sizes.total, device=owner.device)]
        graph = Graph(
            x,
            Edges(edge_index, sizes.total, self.undirected, self.in_order),
            None,
            sizes.batch,
            index.numel(),
            sizes,
            Trust(),
        )
        attr = None if self.edge_attr is None else self.edge_attr[rows]
        return GraphBatch(graph, attr, self.targets[picked])

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
        )

    def to_graphs(self) -> list[Data]:
        """The graphs as PyG ``Data`` objects; their features share memory with the columns."""
        node_ptr, edge_ptr = self.node_ptr.tolist(), self.edge_ptr.tolist()
        graphs = []
        for g in range(len(self)):
            nodes, edges = slice(*node_ptr[g : g + 2]), slice(*edge_ptr[g : g + 2])
            graphs.append(
                Data(
                    x=self.x[nodes],
                    edge_index=self.edge_index[:, edges] - nodes.start,
                    edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
                    y=self.y[g : g + 1] if self.classes else None,
                )
            )
        return graphs

    def _check_graphs(self, index: Tensor) -> None:
        if index.dtype != torch.int64 or index.dim() != 1 or index.device.type != "cpu":
            raise TypeError(
                f"'index' must be a one-dimensional int64 tensor on the CPU, not "
                f"{index.dtype} of shape {list(index.shape)} on {index.device}."
            )
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < len(self):
            raise IndexError(
                f"'index' spans [{int(index.min())}, {int(index.max())}], "
                f"but {self.name} has {len(self)} graphs."
            )
