"""What the readers share: features, edges and targets as the columns of a graph set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.utils import cumsum

from lcpool.data.checks import DatasetError
from lcpool.data.files import TOO_MUCH, Array, max_bytes
from lcpool.data.graphset import MAX_DEGREE, GraphSet, degree_features
from lcpool.data.splits import Split

# The widest range of labels with a column for each value in it, used or not.
MAX_SPAN = 4096
PARTS = ("train", "val", "test")


def one_hot(where: str, codes: Iterable[tuple[Array, int]], numbers: Array) -> Array:
    """Categories as one-hot columns, then ``numbers``, ``[rows, columns]``, float32.

    Args:
        where: how an error calls these features.
        codes: per categorical feature the category of each row, from 0, and how many there are.
            A category that is not among them gives zeros.
        numbers: ``[rows, any]``.
    """
    codes = list(codes)
    rows, at = len(numbers), 0
    check_size(where, rows, sum(size for _, size in codes) + numbers.shape[1])
    features = np.zeros((rows, sum(size for _, size in codes) + numbers.shape[1]), np.float32)
    for code, size in codes:
        known = np.flatnonzero((code >= 0) & (code < size))
        features[known, at + code[known]] = 1
        at += size
    features[:, at:] = numbers
    return features


def check_size(where: str, rows: int, width: int) -> None:
    """Raise if there would be more features than :func:`~lcpool.data.files.max_bytes`."""
    if rows * width > max_bytes():
        raise DatasetError(f"{where}: {rows} rows of {width} features, {TOO_MUCH}")


def integer_categories(values: Array, most: int = MAX_SPAN) -> tuple[int, ...]:
    """How many categories each column of integers has, from 0; empty if these are numbers."""
    if not values.size or not (np.isfinite(values) & (values == np.floor(values))).all():
        return ()
    low, high = values.min(), values.max(axis=0)
    return () if low < 0 or (high >= most).any() else tuple(int(top) + 1 for top in high)


def coalesce(edges: Array, num_nodes: int) -> tuple[Array, Array]:
    """The edges sorted, each once and without self-loops, and where each is first."""
    between = np.flatnonzero(edges[0] != edges[1])
    keys = edges[0, between] * num_nodes + edges[1, between]
    keys, first = np.unique(keys, return_index=True)
    return np.stack(np.divmod(keys, max(num_nodes, 1))), between[first]


def both_ways(edges: Array, attr: Array | None) -> tuple[Array, Array | None]:
    """Every edge in both directions, with the same attributes."""
    doubled = np.concatenate([edges, edges[::-1]], axis=1)
    return doubled, None if attr is None else np.concatenate([attr, attr])


def in_columns(
    name: str,
    graph: Array,
    num_graphs: int,
    edges: Array,
    x: Array | None,
    edge_attr: Array | None = None,
    where: str = "",
    **others: Any,
) -> GraphSet:
    """A graph set of nodes and edges in any order.

    Args:
        name: of the set.
        graph: the number of each node's graph, ``[nodes]``.
        num_graphs: how many there are; some may have no nodes.
        edges: numbers of nodes, ``[2, edges]``. Repeated edges and self-loops are left out.
        x: the features of the nodes, or None for their degrees.
        edge_attr: the features of the edges, or None.
        where: how an error calls what the nodes are from; by default the name.
        others: further fields of :class:`~lcpool.data.GraphSet`.
    """
    if x is None:
        check_size(where or name, len(graph), MAX_DEGREE + 1)
    # Nodes in order of their graph, and edges in order of their nodes, are what columns need.
    order = np.argsort(graph, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    found, first = coalesce(place[edges], len(graph))
    edge_index, of_edge = torch.from_numpy(found), graph[order][found[0]]
    return GraphSet(
        name=name,
        x=degree_features(edge_index, len(graph)) if x is None else torch.from_numpy(x[order]),
        edge_index=edge_index,
        node_ptr=cumsum(torch.from_numpy(np.bincount(graph, minlength=num_graphs))),
        edge_ptr=cumsum(torch.from_numpy(np.bincount(of_edge, minlength=num_graphs))),
        edge_attr=None if edge_attr is None else torch.from_numpy(edge_attr[first]),
        **others,
    )


def as_split(parts: Sequence[Array]) -> Split:
    """Numbers of graphs for training, validation and test."""
    return Split(*(torch.from_numpy(part.astype(np.int64)) for part in parts))
