"""Turns PyG graphs into columns, one below the other, and checks them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from lcpool.data.checks import DatasetError

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def gather_rows(name: str, graphs: list[Data], key: str, counts: Tensor) -> Tensor | None:
    """The rows ``key`` of all graphs as one float32 matrix, or None where no graph has them."""
    if all(getattr(graph, key, None) is None for graph in graphs):
        return None
    parts: list[Tensor] = []
    for g, (graph, count) in enumerate(zip(graphs, counts.tolist(), strict=True)):
        part = getattr(graph, key, None)
        if part is None:
            raise DatasetError(f"{name}: graph {g} has no '{key}', but others do.")
        if not isinstance(part, Tensor) or part.is_complex():
            kind = part.dtype if isinstance(part, Tensor) else type(part).__name__
            raise DatasetError(
                f"{name}: '{key}' of graph {g} must be a tensor of real numbers, not {kind}."
            )
        parts.append(part.detach().cpu() if part.dim() > 1 else part.detach().cpu().unsqueeze(-1))
        shape = (count, *parts[0].shape[1:])
        if parts[g].dim() != 2 or parts[g].shape != shape:
            raise DatasetError(
                f"{name}: '{key}' of graph {g} must have shape {list(shape)}, "
                f"not {list(part.shape)}."
            )
    rows = torch.cat(parts).float()
    if not rows.isfinite().all():
        raise DatasetError(
            f"{name}: '{key}' contains NaN or numbers that are infinite in float32; remove them."
        )
    return rows


def gather_edges(name: str, graphs: list[Data]) -> tuple[Tensor, Tensor]:
    """The edges of all graphs, nodes numbered through, and how many edges each graph has."""
    parts, counts, offset = [], [], 0
    for g, graph in enumerate(graphs):
        edges = graph.edge_index
        if not isinstance(edges, Tensor) or edges.dim() != 2 or edges.size(0) != 2:
            raise DatasetError(f"{name}: graph {g} has no 'edge_index' of shape [2, num_edges].")
        # An empty list of edges is a float tensor unless a type was given.
        if edges.numel() and edges.dtype not in INTEGERS:
            raise DatasetError(
                f"{name}: 'edge_index' of graph {g} must hold integers, not {edges.dtype}."
            )
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
    """The label of each graph, and all labels that occur, sorted."""
    labels = [getattr(graph, "y", None) for graph in graphs]
    if all(label is None for label in labels):
        return torch.full((len(graphs),), -1), ()
    values: list[int] = []
    for g, label in enumerate(labels):
        value = _integer(label)
        if value is None:
            raise DatasetError(f"{name}: 'y' of graph {g} must be one class number, not {label!r}.")
        values.append(value)
    return torch.tensor(values), tuple(sorted(set(values)))


def _integer(label: Any) -> int | None:
    """The integer that a label is; None if it is anything else."""
    try:
        number = torch.as_tensor(label).reshape(-1)
    except (RuntimeError, TypeError, ValueError):
        return None
    if number.numel() != 1 or number.is_complex():
        return None
    exact = int(number.to(torch.int64).item())
    return exact if exact == number.item() else None
