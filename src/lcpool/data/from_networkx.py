"""Graphs of networkx in columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from lcpool.data.checks import DatasetError
from lcpool.data.columns import Column, Words, features, in_columns
from lcpool.data.graphset import GraphSet
from lcpool.data.targets import targets
from lcpool.settings import TaskName

# Attributes of a graph that are its target.
TARGETS = ("y", "label")


def is_networkx(item: Any) -> bool:
    """Whether this is a graph of networkx, told without importing it."""
    return any(base.__module__.partition(".")[0] == "networkx" for base in type(item).__mro__)


def read_networkx(graphs: list[Any], name: str, y: Any, task: TaskName | None) -> GraphSet:
    """A graph set of networkx graphs.

    Every attribute of the nodes is a feature: numbers and lists of numbers as they are, words as
    categories; all nodes must have the same attributes. Those of the edges become ``edge_attr``.
    Edges of an undirected graph go both ways; repeated edges count once, self-loops are left out.

    Args:
        graphs: the graphs.
        name: what to call the set.
        y: the targets; by default the attribute ``y`` or ``label`` of each graph.
        task: what the targets are, as for :meth:`~lcpool.data.GraphSet.from_graphs`.
    """
    nodes = [
        (g, v, attributes) for g, graph in enumerate(graphs) for v, attributes in _nodes(graph)
    ]
    row: dict[tuple[int, Hashable], int] = {(g, v): at for at, (g, v, _) in enumerate(nodes)}
    ends: list[tuple[int, int]] = []
    kept: list[tuple[int, tuple[Hashable, Hashable], Mapping[str, Any]]] = []
    for g, graph in enumerate(graphs):
        for u, v, attributes in graph.edges(data=True):
            both = [(u, v)] if graph.is_directed() else [(u, v), (v, u)]
            ends += [(row[g, a], row[g, b]) for a, b in both]
            kept += [(g, (u, v), attributes)] * len(both)
    x, words = _features(name, "node", nodes)
    attr, edge_words = _features(name, "edge", kept)
    return in_columns(
        name,
        np.array([g for g, _, _ in nodes], np.int64),
        len(graphs),
        np.array(ends, np.int64).reshape(-1, 2).T,
        x,
        attr,
        categories=tuple(map(len, words)),
        words=words,
        edge_categories=tuple(map(len, edge_words)),
        edge_words=edge_words,
        **targets(name, _targets(name, graphs) if y is None else y, len(graphs), task),
    )


def _nodes(graph: Any) -> Iterable[tuple[Hashable, Mapping[str, Any]]]:
    found: Iterable[tuple[Hashable, Mapping[str, Any]]] = graph.nodes(data=True)
    return found


def _features(
    name: str, unit: str, rows: list[tuple[int, Any, Mapping[str, Any]]]
) -> tuple[Any, Words]:
    """The attributes of all nodes or edges."""

    def place(at: int) -> str:
        g, which, _ = rows[at]
        return f"{name}: graph {g}, {unit} {str(which)[:40]}"

    keys = list(dict.fromkeys(key for _, _, attributes in rows for key in attributes))
    for at, (_, _, attributes) in enumerate(rows):
        if len(attributes) < len(keys):
            missing = next(key for key in keys if key not in attributes)
            raise DatasetError(
                f"{place(at)} has no attribute '{missing}', but others do. Give it to all, or "
                f"remove it: for {_LOOPS[unit]}: attributes.pop('{missing}', None)."
            )
    columns = (Column(str(key), [attributes[key] for *_, attributes in rows]) for key in keys)
    return features(f"{name}: {unit}s", place, len(rows), columns)


_LOOPS = {
    "node": "_, attributes in graph.nodes(data=True)",
    "edge": "_, _, attributes in graph.edges(data=True)",
}


def _targets(name: str, graphs: list[Any]) -> list[Any] | None:
    """The target of each graph, or None if none has one."""
    keys = [key for key in TARGETS if any(key in graph.graph for graph in graphs)]
    if len(keys) > 1:
        raise DatasetError(f"{name}: graphs have both 'y' and 'label'; remove one, or pass y=.")
    return [graph.graph.get(keys[0]) for graph in graphs] if keys else None
