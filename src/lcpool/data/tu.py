"""Reads TU datasets, tidy or not.

What is done to them, in the order of PyG's reader so that numbers compare:

- Input features are the attributes, then every node label one-hot over the range from its least to
  its largest value, unused ones included. A set with neither gets its degrees one-hot.
- Unlike there, labels whose range is wider than :data:`MAX_SPAN` are numbered by the values that
  occur.
- Self-loops are dropped (convolutions that want them add their own), and of several lines for one
  edge the first counts. Edges are not made undirected.
- Class labels may be any integers; in their order they become the labels 0, 1, …. The numbers in
  the file are not kept.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray

from lcpool.data.gather import DatasetError, degree_features
from lcpool.data.graphset import GraphSet
from lcpool.data.source import Source

# To be raised whenever the same files are read into something else: caches are then made anew.
READER_VERSION = 3

# The widest range of labels with a column for each value in it, used or not.
MAX_SPAN = 4096

# Numbers in one matrix of features, 4 GiB: wider sets exist (labels that are serial numbers), and
# are better refused than left to eat the memory.
MAX_NUMBERS = 2**30

# Up to here every integer has a float64 of its own.
MAX_INTEGER = 2**53

# A line of nothing but spaces, which numpy takes for a number.
BLANK = re.compile(r"\n[ \t\r]+(?=\n|$)")

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
        text = source.text(kind)
        if not text.strip():
            return cls(source, kind, np.empty((0, width or 0), dtype))
        try:
            file = cls(source, kind, _parse(text, dtype))
        except ValueError as error:
            raise DatasetError(f"{source.where(kind)}{_bad_line(text, dtype, error)}") from None
        if width is not None and file.values.shape[1] != width:
            file.fail(0, f"expected {width} value(s) a line, not {file.values.shape[1]}.")
        return file

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise with the line of ``row``, which is searched for only now."""
        lines = self.source.text(self.kind).split("\n")
        rows = [number for number, line in enumerate(lines, 1) if line.strip()]
        raise DatasetError(f"{self.source.where(self.kind)}, line {rows[row]}: {problem}")

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
    """The label of each graph, numbered in the order of those in the file, and how many occur."""
    if "graph_labels" not in source.files and "graph_attributes" in source.files:
        raise DatasetError(f"{source.path}: graphs have no classes but values, for regression.")
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
    return edges, _features(source, "edge", edges.shape[1])[0]


def _coalesce(edges: Array, num_nodes: int) -> tuple[Array, Array]:
    """The edges sorted, each once and without self-loops, and the line each was first seen on."""
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


def _parse(text: str, dtype: type) -> Array:
    """The numbers of all lines; integers may be written as 1.0."""
    text = BLANK.sub("", text.lstrip())
    try:
        return np.loadtxt(io.StringIO(text), dtype, comments=None, delimiter=",", ndmin=2)
    except ValueError:
        if dtype is not np.int64:
            raise
        numbers = np.loadtxt(io.StringIO(text), float, comments=None, delimiter=",", ndmin=2)
        if not ((numbers == np.round(numbers)) & (np.abs(numbers) < MAX_INTEGER)).all():
            raise
        return numbers.astype(np.int64)


def _bad_line(text: str, dtype: type, error: ValueError) -> str:
    """Which line could not be parsed, and why."""
    kind, fits = ("an integer", _is_integer) if dtype is np.int64 else ("a number", _is_number)
    width = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        cells = line.split(",")
        width = width or len(cells)
        if len(cells) != width:
            return f", line {number}: {len(cells)} value(s), where the lines before have {width}."
        for cell in cells:
            if not fits(cell):
                return f", line {number}: '{cell.strip()}' is not {kind}."
    return f": {error}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_integer(cell: str) -> bool:
    return _is_number(cell) and float(cell).is_integer() and abs(float(cell)) < MAX_INTEGER
