"""A checked batch of graphs: the input of every pooling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from lcpool.graph.checks import (
    Checks,
    check_device,
    check_edges,
    check_empty_graphs,
    check_index,
    check_number,
    check_range,
    check_weights,
    count_graphs,
    out_of_range,
)
from lcpool.graph.edges import Edges, Neighbours
from lcpool.graph.lazy import lazy
from lcpool.graph.sizes import Sizes, counts_of
from lcpool.ops.kernels import kernels
from lcpool.ops.operator import is_traced


@dataclass(frozen=True)
class Graph:
    """A batch of graphs (X, A) as one disjoint union, as PyG batches them, with checked indices.

    Attributes:
        x: node features X, ``[num_nodes, channels]``.
        edges: the adjacency matrix A.
        edge_attr: weights or attributes of the edges, one row per edge.
        batch: the graph of each node, or None if there is only one graph.
        batch_size: the number of graphs, empty ones included.
        sizes: the number of nodes of each graph, if the host knows it and ``batch`` is sorted.
        checks: the pending checks of a GPU, read with the next size.
    """

    x: Tensor
    edges: Edges
    edge_attr: Tensor | None
    batch: Tensor | None
    batch_size: int
    sizes: Sizes | None = None
    checks: Checks = field(default_factory=Checks)

    def __post_init__(self) -> None:
        # Kernels trust these numbers.
        sizes = self.x.size(0) if self.sizes is None else self.sizes.total
        if not self.x.size(0) == self.edges.num_nodes == sizes:
            raise ValueError(
                f"'x' has {self.x.size(0)} rows, but 'edges' are of {self.edges.num_nodes} nodes "
                f"and 'sizes' of {sizes}."
            )
        if is_traced():
            return
        if self.edge_attr is not None:
            check_attributes(self.edge_attr, self.edges.room, self.x)
        batch = self.batch
        if batch is not None and (batch.dtype != torch.int64 or batch.shape != self.x.shape[:1]):
            raise ValueError(f"'batch' must have an int64 index per node, not {batch}.")
        check_number("batch_size", self.batch_size)
        check_empty_graphs(self.batch_size, self.x.size(0))
        if batch is not None and batch.device.type == "cpu":
            graphs = batch.numpy()  # in a third of torch's time
            if graphs.size and not 0 <= graphs.min() <= graphs.max() < self.batch_size:
                raise ValueError(out_of_range("batch", batch, self.batch_size, "graph"))
        if self.sizes is not None and self.sizes.counts.numel() != self.batch_size:
            raise ValueError(
                f"'sizes' is of {self.sizes.counts.numel()} graphs, but 'batch_size' is "
                f"{self.batch_size}; pass sizes=None if it does not belong to 'batch'."
            )

    @classmethod
    def of(
        cls,
        x: Any,
        edge_index: Any,
        edge_attr: Any = None,
        batch: Any = None,
        batch_size: int | None = None,
        size_follows: bool = True,
    ) -> Graph:
        """Check the arguments of a layer and gather them.

        ``size_follows`` says that sizes will be read anyway, which synchronises a GPU: then the
        batch is analysed first, in the same transfer. Else only the check of the indices
        synchronises.
        """
        x = check_features("x", x)
        edge_index = check_edges(edge_index, like=x)
        check_edge_attr(edge_attr, edge_index)
        batch, batch_size = check_batch(batch, batch_size, x)
        if size_follows and not is_traced():
            edges, sizes, batch_size = inspected(edge_index, batch, batch_size, x.size(0))
            return cls(x, edges, edge_attr, batch, batch_size, sizes)
        checks = Checks()
        edge_index = check_range("edge_index", edge_index, x.size(0), "node", checks)
        sizes = Sizes.of_one(x.size(0), x.device) if batch is None else None
        if batch_size is None:
            assert batch is not None
            batch_size = count_graphs(batch, checks)
        elif batch is not None:
            check_empty_graphs(batch_size, x.size(0))
            batch = check_range("batch", batch, batch_size, "graph", checks)
        if not size_follows:
            checks.settle()
        edges = Edges.trusted(edge_index, x.size(0))
        return cls(x, edges, edge_attr, batch, batch_size, sizes, checks)

    @property
    def edge_index(self) -> Tensor:
        """Source and target of each edge."""
        return self.edges.index

    @property
    def num_nodes(self) -> int:
        """The number of nodes of all graphs together."""
        return self.x.size(0)

    def batch_vector(self) -> Tensor:
        """The graph of each node, zeros where there is only one graph."""
        return self.edge_index.new_zeros(self.num_nodes) if self.batch is None else self.batch

    @lazy
    def members(self) -> Neighbours:
        """The nodes of each graph, in order."""
        batch = self.batch_vector()
        nodes = torch.arange(self.num_nodes, device=batch.device)
        return Neighbours.of(batch, nodes, self.batch_size)

    def sizes_or_one(self) -> Sizes:
        """``sizes``, or all nodes as one graph where they are not sorted by graph."""
        if self.sizes is None:
            return Sizes.of_one(self.num_nodes, self.x.device)
        return self.sizes

    def host_counts(self) -> Tensor:
        """The number of nodes of each graph, on the host; a GPU synchronises unless it is known."""
        return self.checks.fetch(self.node_counts()) if self.sizes is None else self.sizes.counts

    def node_counts(self) -> Tensor:
        """The number of nodes of each graph, ``[batch_size]``."""
        if self.sizes is not None:
            return self.sizes.ptr.diff()
        assert self.batch is not None
        return counts_of(self.batch, self.batch_size)


def inspected(
    index: Tensor, batch: Tensor | None, batch_size: int | None, num_nodes: int
) -> tuple[Edges, Sizes | None, int]:
    """The edges with their order, the sizes of graphs if ``batch`` is sorted, and their number.

    Graphs from PyG are mostly sorted and undirected. Analysing that is faster than sorting.
    """
    found = kernels(index).inspect(index, num_nodes, batch)
    if not found.in_range:
        raise ValueError(out_of_range("edge_index", index, num_nodes, "node"))
    out = None
    if found.in_order and found.ptr is not None:
        out = Neighbours(found.ptr, index[1].contiguous())
    edges = Edges.trusted(index, num_nodes, found.symmetric, found.in_order, out=out)
    if batch is None:
        return edges, Sizes.of_one(num_nodes, index.device), 1
    first, last = found.first, found.last
    if not found.by_graph:
        first, last = torch.stack(batch.aminmax()).tolist()
    if first < 0 or (batch_size is not None and last >= batch_size):
        raise ValueError(out_of_range("batch", batch, batch_size, "graph"))
    check_empty_graphs(batch_size or last + 1, num_nodes)
    if found.sizes is not None and batch_size in (None, last + 1):
        return edges, found.sizes, last + 1
    batch_size = last + 1 if batch_size is None else batch_size
    return edges, Sizes.by_graph(batch, batch_size) if found.by_graph else None, batch_size


def check_batch(batch: Any, batch_size: int | None, x: Tensor) -> tuple[Tensor | None, int | None]:
    """``batch`` as an int64 tensor with an entry per node; without one there is one graph."""
    if batch_size is not None:
        check_number("batch_size", batch_size)
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"'batch_size' must be at least 1, not {batch_size}.")
    if batch is None:
        if batch_size not in (None, 1):
            raise ValueError(f"'batch_size' is {batch_size}, but no 'batch' was passed.")
        return None, 1
    batch = check_index("batch", batch, like=x)
    if batch.shape != (x.size(0),):
        raise ValueError(
            f"'batch' must have shape [{x.size(0)}], an entry per node, not {list(batch.shape)}."
        )
    return batch, batch_size


def check_features(name: str, x: Any, like: Tensor | None = None) -> Tensor:
    """``x`` as a ``[num_nodes, channels]`` tensor; one value per node counts as one channel.

    With ``like``, it must have as many rows as that, on the same device.
    """
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.layout != torch.strided:
        kind = type(x).__name__
        if isinstance(x, Tensor):
            kind = str(x.dtype) if x.layout == torch.strided else f"{x.layout} of {x.dtype}"
        wanted = f"torch.as_tensor({name}).float() for numbers of another type"
        if isinstance(x, dict):
            wanted = f"the features and edges of one node type: {name}['paper'], for example"
        raise TypeError(
            f"'{name}' must be a dense tensor of floating-point features, not {kind}. "
            f"Pass {wanted}."
        )
    if like is not None:
        check_device(name, x, like)
    features = x.unsqueeze(-1) if x.dim() == 1 else x
    if features.dim() != 2 or (like is not None and features.size(0) != like.size(0)):
        rows = "num_nodes" if like is None else like.size(0)
        raise ValueError(f"'{name}' must have shape [{rows}, channels], not {list(x.shape)}.")
    return features


def check_channels(layer: Any, x: Tensor, name: str = "x") -> None:
    """Raise unless features have the width and type that ``layer`` was made for."""
    width = getattr(layer, "in_channels", None)
    if not isinstance(width, int) or width < 1:  # PyG has lazy layers (-1) and pairs of widths
        return
    if x.size(-1) != width:
        raise ValueError(f"{layer} takes features of width {width}, but '{name}' has {x.size(-1)}.")
    parameter = first_parameter(layer)
    if parameter is None or parameter.dtype == x.dtype:
        return
    if not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"{layer} has parameters of {parameter.dtype}, but '{name}' is {x.dtype}: convert one "
            f"of them with .to({parameter.dtype}) or .to({x.dtype})."
        )


def first_parameter(layer: nn.Module) -> Tensor | None:
    """A parameter of a layer; ``layer.parameters()`` takes many times as long to begin."""
    for parameter in layer._parameters.values():
        if parameter is not None:
            return parameter
    parts = (first_parameter(part) for part in layer._modules.values() if part is not None)
    return next((parameter for parameter in parts if parameter is not None), None)


def check_edge_attr(edge_attr: Any, edge_index: Tensor) -> None:
    """Raise unless ``edge_attr`` is None or has one row for each edge."""
    if edge_attr is not None:
        check_attributes(edge_attr, edge_index.size(1), edge_index)


def check_attributes(edge_attr: Any, edges: int, like: Tensor) -> None:
    """Raise unless ``edge_attr`` has one row for each of so many ``edges``."""
    if not isinstance(edge_attr, Tensor):
        raise TypeError(f"'edge_attr' must be a tensor, not {type(edge_attr).__name__}.")
    check_device("edge_attr", edge_attr, like)
    if edge_attr.dim() == 0 or edge_attr.size(0) != edges:
        meant = "" if edge_attr.is_floating_point() else " Is it 'batch'? Pass that as batch=…."
        raise ValueError(
            f"'edge_attr' must have a row for each of the {edges} edges, "
            f"not shape {list(edge_attr.shape)}.{meant}"
        )


def edge_weight(edge_attr: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """``edge_attr`` as one weight per edge, for operators that take only weights."""
    if edge_attr is None:
        return None
    check_weights("edge_attr", edge_attr)
    if edge_attr.numel() != edge_attr.size(0):
        raise ValueError(
            f"this operator takes one weight per edge: 'edge_attr' must have shape "
            f"[{edge_attr.size(0)}], not {list(edge_attr.shape)}."
        )
    return edge_attr.reshape(-1).to(dtype)
