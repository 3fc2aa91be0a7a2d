"""Reads TU datasets.

The result is the same as from PyG's reader:

- Node features are the attributes, then every node label one-hot over the range from its smallest
  to its largest value, unused values included. A set with neither gets its degrees one-hot.
- Unlike in PyG, labels whose range is wider than :data:`MAX_SPAN` have a column for each value that
  occurs.
- Self-loops are dropped (convolutions that need them add them), and of several lines for one edge
  the first counts. Edges are not made undirected.
- Class labels may be any integers; in their order they become the labels 0, 1, ….
"""

from __future__ import annotations

import itertools
import warnings
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray

from lcpool.data.checks import DatasetError, warn_once
from lcpool.data.degrees import degree_features
from lcpool.data.graphset import GraphSet
from lcpool.data.tu_files import Source

# Increase it whenever the same files give another result: caches are then written again.
READER_VERSION = 3

# The widest range of labels with a column for each value in it, used or not.
MAX_SPAN = 4096

# The most numbers in a matrix of features, 4 GiB: some sets have serial numbers as labels.
MAX_NUMBERS = 2**30

# Up to here float64 holds every integer exactly.
MAX_INTEGER = 2**53

Array = NDArray[Any]


@dataclass(frozen=True)
class NumberFile:
    """One file: a row of ``values`` for each line that is not blank."""

    source: Source
    kind: str
    values: Array

    @classmethod
    def read(cls, source: Source, kind: str, dtype: type, width: int | None = None) -> NumberFile:
        """Read ``NAME_kind.txt``; ``width`` is how many columns it must have."""
        values = _parse(source, kind, dtype)
        if not len(values):
            return cls(source, kind, np.empty((0, width or 0), dtype))
        file = cls(source, kind, values)
        if width is not None and values.shape[1] != width:
            file.fail(0, f"expected {width} value(s) per line, not {values.shape[1]}.")
        return file

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise with the line of ``row``, which is searched for only now."""
        with self.source.open(self.kind) as file:
            number, _ = next(itertools.islice(_filled(file), row, None))
        raise DatasetError(f"{self.source.where(self.kind)}, line {number}: {problem}")

    def require(self, ok: Any, problem: str) -> None:
        """Raise at the first row that is not ``ok``, formatting its values into ``problem``."""
        if not ok.all():
            row = int(np.flatnonzero(~ok)[0])
            self.fail(row, problem.format(*self.values[row]))

    def require_rows(self, count: int, unit: str) -> None:
        """Raise unless there is a row for each of ``count`` nodes or edges."""
        if len(self.values) != count:
            raise DatasetError(
                f"{self.source.where(self.kind)}, line {len(self.values)}: the file ends with "
                f"{len(self.values)} rows, but the dataset has {count} {unit}."
            )


def read_tu(path: Path) -> GraphSet:
    """Read the dataset in a folder or zip."""
    source = Source.at(path)
    y, num_classes = _read_labels(source)
    graph = _read_indicator(source, len(y))
    edges, edge_attr = _read_edges(source, graph)
    # Nodes in order of their graph, and edges in order of their nodes, are what columns need.
    order = np.argsort(graph, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    edges, first = _coalesce(place[edges], len(graph))
    edge_index = torch.from_numpy(edges)
    x, label_widths = _features(source, "node", len(graph))
    return GraphSet(
        name=source.name,
        x=degree_features(edge_index, len(graph)) if x is None else torch.from_numpy(x[order]),
        edge_index=edge_index,
        node_ptr=_pointers(graph, len(y)),
        edge_ptr=_pointers(graph[order][edges[0]], len(y)),
        y=torch.from_numpy(y),
        classes=tuple(range(num_classes)),
        edge_attr=None if edge_attr is None else torch.from_numpy(edge_attr[first]),
        label_widths=label_widths,
    )


def _read_labels(source: Source) -> tuple[Array, int]:
    """The class of each graph, from 0 in the order of the labels, and how many there are."""
    if "graph_labels" not in source.files and "graph_attributes" in source.files:
        raise DatasetError(f"{source.path}: for regression, which is not supported (no classes).")
    labels = NumberFile.read(source, "graph_labels", np.int64, width=1)
    if not len(labels.values):
        raise DatasetError(f"{source.where('graph_labels')}, line 1: the file is empty.")
    found, y = np.unique(labels.values[:, 0], return_inverse=True)
    return y, len(found)


def _read_indicator(source: Source, num_graphs: int) -> Array:
    """The graph of each node, from 0."""
    indicator = NumberFile.read(source, "graph_indicator", np.int64, width=1)
    graph = indicator.values[:, 0]
    indicator.require(
        (graph >= 1) & (graph <= num_graphs),
        f"graph {{}} is out of range, there are {num_graphs} graph labels.",
    )
    return graph - 1


def _read_edges(source: Source, graph: Array) -> tuple[Array, Array | None]:
    """Source and target of each line of ``NAME_A.txt``, from 0, and the features of the edges."""
    lines = NumberFile.read(source, "A", np.int64, width=2)
    within = (lines.values >= 1) & (lines.values <= len(graph))
    lines.require(
        within.all(axis=1), f"edge {{}}, {{}} is out of range, there are {len(graph)} nodes."
    )
    edges = lines.values.T - 1
    lines.require(graph[edges[0]] == graph[edges[1]], "edge {}, {} joins nodes of two graphs.")
    return edges, _edge_features(source, edges.shape[1])


def _edge_features(source: Source, count: int) -> Array | None:
    """The features of the edges, which no network here needs: a warning if they are unreadable."""
    try:
        return _features(source, "edge", count)[0]
    except DatasetError as error:
        warn_once(f"{source.name}: read without edge labels and attributes: {error}")
        return None


def count_edge_lines(path: Path) -> int:
    """How many lines ``NAME_A.txt`` has, with those that :func:`read_tu` drops."""
    source = Source.at(path)
    with source.open("A") as file:
        return sum(1 for _ in _filled(file))


def _coalesce(edges: Array, num_nodes: int) -> tuple[Array, Array]:
    """The edges sorted, each once and without self-loops, and the line on which each is first."""
    lines = np.flatnonzero(edges[0] != edges[1])
    keys, first = np.unique(edges[0, lines] * num_nodes + edges[1, lines], return_index=True)
    return np.stack(np.divmod(keys, max(num_nodes, 1))), lines[first]


def _features(source: Source, unit: str, count: int) -> tuple[Array | None, tuple[int, ...]]:
    """Attributes and one-hot labels of the nodes or edges, and the widths of the latter."""
    blocks: list[Array] = []
    widths: tuple[int, ...] = ()
    if f"{unit}_attributes" in source.files:
        attributes = NumberFile.read(source, f"{unit}_attributes", np.float32)
        attributes.require_rows(count, f"{unit}s")
        attributes.require(np.isfinite(attributes.values).all(axis=1), "a value is not finite.")
        blocks.append(attributes.values)
    if f"{unit}_labels" in source.files:
        labels = NumberFile.read(source, f"{unit}_labels", np.int64)
        labels.require_rows(count, f"{unit}s")
        one_hot = [_one_hot(labels, column) for column in range(labels.values.shape[1])]
        blocks += one_hot
        widths = tuple(block.shape[1] for block in one_hot)
    if len(blocks) > 1:
        blocks = [np.concatenate(blocks, axis=1)]
    return (blocks[0] if blocks else None), widths


def _one_hot(labels: NumberFile, column: int) -> Array:
    number, width = _number_labels(labels.values[:, column])
    if len(number) * width > MAX_NUMBERS:
        raise DatasetError(
            f"{labels.source.where(labels.kind)}: labels have {width} values, "
            f"too many to be one-hot features of {len(number)} rows."
        )
    block = np.zeros((len(number), width), np.float32)
    block[np.arange(len(number)), number] = 1
    return block


def _number_labels(values: Array) -> tuple[Array, int]:
    """The column of each label, and how many columns there are."""
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span <= MAX_SPAN:
        return values - least, span
    found, number = np.unique(values, return_inverse=True)
    return number, len(found)


def _pointers(graph: Array, num_graphs: int) -> torch.Tensor:
    counts = np.bincount(graph, minlength=num_graphs)
    return torch.from_numpy(np.concatenate([[0], counts.cumsum()]))


def _parse(source: Source, kind: str, dtype: type) -> Array:
    """The numbers of all lines that are not blank."""
    quiet = warnings.catch_warnings(action="ignore")  # numpy warns of an empty file.
    with source.open(kind) as file, suppress(ValueError), quiet:
        return np.loadtxt(file, dtype, comments=None, delimiter=",", ndmin=2)
    return _parse_slowly(source, kind, dtype)


def _parse_slowly(source: Source, kind: str, dtype: type) -> Array:
    """The same for what numpy refuses: integers written as 1.0, lines of spaces, and errors."""
    whole = dtype is np.int64
    values: array[Any] = array("q" if whole else "d")
    width = 0
    with source.open(kind) as file:
        for at, line in _filled(file):
            where, cells = f"{source.where(kind)}, line {at}", line.split(",")
            width = width or len(cells)
            if len(cells) != width:
                raise DatasetError(f"{where}: {len(cells)} value(s), the lines before {width}.")
            for cell in cells:
                try:
                    values.append(_integer(cell) if whole else float(cell))
                except (ValueError, OverflowError):
                    noun = "an integer" if whole else "a number"
                    raise DatasetError(f"{where}: '{cell.strip()[:40]}' is not {noun}.") from None
    with np.errstate(over="ignore"):  # What is too large for float32 is reported as not finite.
        return np.array(values, dtype).reshape(-1, max(width, 1))


def _integer(cell: str) -> int:
    try:
        return int(cell)
    except ValueError:
        value = float(cell)
    if not value.is_integer() or abs(value) >= MAX_INTEGER:
        raise ValueError
    return int(value)


def _filled(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    return ((number, line) for number, line in enumerate(lines, 1) if not line.isspace())
