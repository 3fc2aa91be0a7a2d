"""PyG graphs as columns: their rows one after the other, checked."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

# Nodes with more neighbours than this share the last degree feature: hubs of social networks have
# thousands, and a column for each would hold almost nothing.
MAX_DEGREE = 127


class DatasetError(ValueError):
    """A dataset that cannot be read; the message says where and why."""


def degree_features(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The degree of each node one-hot, for graphs that come with no features at all.

    The degree counts edges out of the node, and :data:`MAX_DEGREE` stands for all above it.
    """
    degree = edge_index[0].bincount(minlength=num_nodes).clamp(max=MAX_DEGREE)
    width = int(degree.max()) + 1 if num_nodes else 1
    return torch.nn.functional.one_hot(degree, width).float()


def gather_rows(name: str, graphs: list[Data], key: str, counts: Tensor) -> Tensor | None:
    """The rows ``key`` of all graphs as one float32 matrix, or None where no graph has them."""
    parts: list[Tensor] = []
    if all(getattr(graph, key, None) is None for graph in graphs):
        return None
    for g, (graph, count) in enumerate(zip(graphs, counts.tolist(), strict=True)):
        part = getattr(graph, key, None)
        if part is None:
            raise DatasetError(f"{name}: graph {g} has no '{key}', but others do.")
        parts.append(part.detach().cpu() if part.dim() > 1 else part.detach().cpu().unsqueeze(-1))
        shape = (count, *parts[0].shape[1:])
        if parts[g].dim() != 2 or parts[g].shape != shape:
            raise DatasetError(
                f"{name}: '{key}' of graph {g} must have shape {list(shape)}, "
                f"not {list(part.shape)}."
            )
    rows = torch.cat(parts).float()
    if not rows.isfinite().all():
        raise DatasetError(f"{name}: '{key}' holds NaN or infinite numbers; clean them first.")
    return rows


def gather_edges(name: str, graphs: list[Data]) -> tuple[Tensor, Tensor]:
    """The edges of all graphs with nodes counted through, and their number in each graph."""
    parts, counts, offset = [], [], 0
    for g, graph in enumerate(graphs):
        edges = graph.edge_index
        if not isinstance(edges, Tensor) or edges.dim() != 2 or edges.size(0) != 2:
            raise DatasetError(f"{name}: graph {g} has no 'edge_index' of shape [2, num_edges].")
        if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < graph.num_nodes:
            raise DatasetError(
                f"{name}: 'edge_index' of graph {g} spans [{int(edges.min())}, "
                f"{int(edges.max())}], but the graph has {graph.num_nodes} nodes."
            )
        # A PyG EdgeIndex is a tensor with a cache; the plain tensor inside is all we need.
        parts.append(edges.as_subclass(Tensor).cpu().long() + offset)
        counts.append(edges.size(1))
        offset += graph.num_nodes
    return torch.cat(parts, dim=1), torch.tensor(counts)


def gather_labels(name: str, graphs: list[Data]) -> tuple[Tensor, tuple[int, ...]]:
    """The label of each graph, and the labels that there are, sorted."""
    labels = [getattr(graph, "y", None) for graph in graphs]
    if all(label is None for label in labels):
        return torch.full((len(graphs),), -1), ()
    values: list[int] = []
    for g, label in enumerate(labels):
        numbers = _numbers(label)
        if len(numbers) != 1 or not float(numbers[0]).is_integer():
            raise DatasetError(f"{name}: 'y' of graph {g} must be one class number, not {label!r}.")
        values.append(int(numbers[0]))
    return torch.tensor(values), tuple(sorted(set(values)))


def _numbers(label: Any) -> list[float]:
    """The numbers of a label; none, if it has none."""
    try:
        return torch.as_tensor(label).reshape(-1).tolist()
    except (RuntimeError, TypeError, ValueError):
        return []
