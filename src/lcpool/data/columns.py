"""What the readers share: features and edges as the columns of a graph set."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import cumsum

from lcpool.data.checks import DatasetError, warn_once
from lcpool.data.files import TOO_MUCH, Array, max_bytes
from lcpool.data.graphset import MAX_DEGREE, GraphSet, degree_features
from lcpool.data.splits import Split

# The widest range of labels with a column for each value in it, used or not.
MAX_SPAN = 4096
# The words of each categorical feature, by number.
Words = tuple[tuple[str, ...], ...]


def one_hot(where: str, codes: Iterable[tuple[Array, int]], others: Array) -> Array:
    """Categories as one-hot columns, then ``others``, ``[rows, columns]``, float32.

    Args:
        where: how an error calls these features.
        codes: per categorical feature the category of each row, from 0, and how many there are.
            A category that is not among them gives zeros.
        others: the features that are numbers, ``[rows, any]``.
    """
    codes = list(codes)
    rows, at = len(others), 0
    width = sum(size for _, size in codes) + others.shape[1]
    check_size(where, rows, width)
    features = np.zeros((rows, width), np.float32)
    for code, size in codes:
        known = np.flatnonzero((code >= 0) & (code < size))
        features[known, at + code[known]] = 1
        at += size
    features[:, at:] = others
    return features


def with_categories(
    graphs: GraphSet, nodes: tuple[int, ...] = (), edges: tuple[int, ...] = ()
) -> GraphSet:
    """The graphs with the integers of ``x`` and of ``edge_attr`` one-hot, where sizes are given."""
    if nodes:
        x = _one_hot(f"{graphs.name}: 'x'", graphs.x, nodes)
        graphs = replace(graphs, x=x, categories=nodes)
    if edges and graphs.edge_attr is not None:
        attr = _one_hot(f"{graphs.name}: 'edge_attr'", graphs.edge_attr, edges)
        graphs = replace(graphs, edge_attr=attr, edge_categories=edges)
    return graphs


def with_words(graphs: GraphSet, words: Words = (), edge_words: Words = ()) -> GraphSet:
    """The graphs with their categories in the columns that ``words`` and ``edge_words`` say.

    What is none of these words is a block of zeros, a category that is not known, and is reported.
    A feature that has none of them is an error: it means something else.

    Args:
        graphs: graphs whose categories are words.
        words: those of as many features of the nodes, as in :attr:`~lcpool.data.GraphSet.words`;
            empty to leave these as they are.
        edge_words: the same for the edges.
    """
    if words and graphs.words:
        x = _in_columns_of(words, graphs.words, graphs.x, graphs.name, "nodes")
        graphs = replace(graphs, x=x, categories=tuple(map(len, words)), words=words)
    if edge_words and graphs.edge_words and graphs.edge_attr is not None:
        attr = _in_columns_of(edge_words, graphs.edge_words, graphs.edge_attr, graphs.name, "edges")
        sizes = tuple(map(len, edge_words))
        graphs = replace(graphs, edge_attr=attr, edge_categories=sizes, edge_words=edge_words)
    return graphs


def _in_columns_of(words: Words, own: Words, rows: Tensor, name: str, unit: str) -> Tensor:
    """Features, whose categories are called ``own``, with a column for each of ``words``."""
    if own == words:
        return rows
    if len(own) != len(words):
        raise DatasetError(
            f"{name}: {len(own)} features of the {unit} are words, but {len(words)} are expected."
        )
    sizes = list(map(len, own))
    *blocks, numbers = torch.split(rows, [*sizes, rows.size(1) - sum(sizes)], dim=1)
    found = []
    for block, ours, known in zip(blocks, own, words, strict=True):
        unknown = [n for n, word in enumerate(ours) if word not in known]
        if ours and len(unknown) == len(ours):
            raise DatasetError(
                f"{name}: a feature of the {unit} has {some(ours)}, but {some(known)} are expected."
            )
        if count := int(block[:, unknown].sum()):
            others = some([ours[n] for n in unknown])
            warn_once(
                f"{name}: {count} of {len(block)} {unit} have {others}, where only {some(known)} "
                f"are known: they count as unknown."
            )
        place = {word: n for n, word in enumerate(ours)}
        columns = [block[:, place[w]] if w in place else block.new_zeros(len(block)) for w in known]
        found.append(torch.stack(columns, dim=1))
    return torch.cat([*found, numbers], dim=1)


def some(words: Sequence[str], most: int = 5) -> str:
    """Some words in quotes, for a message."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(repr(word[:40]) for word in words[:most]) + more


def _one_hot(where: str, values: Tensor, sizes: tuple[int, ...]) -> Tensor:
    codes = zip(values.long().numpy().T, sizes, strict=True)
    return torch.from_numpy(one_hot(where, codes, np.empty((len(values), 0))))


def check_size(where: str, rows: int, width: int) -> None:
    """Raise if there would be more features than :func:`~lcpool.data.files.max_bytes`."""
    if rows * width > max_bytes():
        raise DatasetError(f"{where}: {rows} rows of {width} features, {TOO_MUCH}")


def integer_categories(values: Array, usual: tuple[int, ...]) -> tuple[int, ...]:
    """How many categories each column of integers has, from 0; empty if these are numbers.

    ``usual`` is how many they have if all of them are among these.
    """
    if not values.size or not (np.isfinite(values) & (values == np.floor(values))).all():
        return ()
    low, high = values.min(), values.max(axis=0)
    if low < 0 or (high >= MAX_SPAN).any():
        return ()
    sizes = tuple(int(top) + 1 for top in high)
    return usual if len(sizes) == len(usual) and all(map(int.__le__, sizes, usual)) else sizes


def coalesce(edges: Array, num_nodes: int) -> tuple[Array, Array]:
    """The edges sorted, each once and without self-loops, and where each is first."""
    between = np.flatnonzero(edges[0] != edges[1])
    keys = edges[0, between] * num_nodes + edges[1, between]
    keys, first = np.unique(keys, return_index=True)
    return np.stack(np.divmod(keys, max(num_nodes, 1))), between[first]


class Column(NamedTuple):
    """One feature of all nodes or of all edges: numbers, rows of numbers, or words."""

    name: str
    values: Sequence[Any]
    levels: tuple[str, ...] = ()  # all words that there can be, if these are known


def features(
    where: str, place: Callable[[int], str], rows: int, columns: Iterable[Column]
) -> tuple[Array | None, Words]:
    """Columns as one matrix, words one-hot, then the numbers; and the words of each such column.

    None where there are no columns. Words are numbered in alphabetical order.

    Args:
        where: how an error calls these features.
        place: how an error calls a row.
        rows: how many rows there are.
        columns: the features.
    """
    codes, words, found = [], [], [np.empty((rows, 0))]
    for column in columns:
        if any(isinstance(value, str) for value in column.values):
            words.append(_levels(where, place, column))
            number = {word: n for n, word in enumerate(words[-1])}
            codes.append((np.array([number[word] for word in column.values]), len(number)))
        else:
            found.append(_number_rows(place, column))
    if not codes and len(found) == 1:
        return None, ()
    return one_hot(where, codes, np.concatenate(found, axis=1)), tuple(words)


def _levels(where: str, place: Callable[[int], str], column: Column) -> tuple[str, ...]:
    """The words that a column has or can have."""
    for row, word in enumerate(column.values):
        if word is None:
            raise DatasetError(f"{place(row)}: '{column.name}' is missing.")
        if not isinstance(word, str):
            other = next(n for n, value in enumerate(column.values) if isinstance(value, str))
            raise DatasetError(
                f"{place(row)}: '{column.name}' is {repr(word)[:40]}, but {place(other)}: "
                f"{repr(column.values[other])[:40]}. Pass words for all, or for none."
            )
    levels = column.levels or tuple(sorted(set(column.values)))
    if len(levels) > MAX_SPAN:
        raise DatasetError(
            f"{where}: '{column.name}' has {len(levels)} different words, of which each would be a "
            f"column; {MAX_SPAN} are the limit. Remove it if these are names."
        )
    return levels


def _number_rows(place: Callable[[int], str], column: Column) -> Array:
    """The numbers of each row, ``[rows, any]``."""
    found: list[Array] = []
    for row, value in enumerate(column.values):
        if value is None:
            raise DatasetError(f"{place(row)}: '{column.name}' is missing.")
        try:
            plain = isinstance(value, numbers.Real)  # Also numpy's, and True and False.
            values = np.atleast_1d(np.asarray(value, np.float64) if plain else _array(value))
        except (TypeError, ValueError, OverflowError, RuntimeError):
            kinds = "a number, a list of numbers or a word, and of one kind for all"
            shown = repr(value)[:40]
            raise DatasetError(f"{place(row)}: '{column.name}' is {shown}, not {kinds}.") from None
        if not (np.abs(values) <= np.finfo(np.float32).max).all():
            problem = "is missing, not finite, or too large for float32"
            raise DatasetError(f"{place(row)}: '{column.name}' {problem}.")
        found.append(values)
        if len(values) != len(found[0]):
            widths = f"{len(values)} numbers, that of the first has {len(found[0])}"
            raise DatasetError(f"{place(row)}: '{column.name}' has {widths}.")
    return np.stack(found) if found else np.empty((0, 1))


def _array(value: Any) -> Array:
    """A list, array or tensor of numbers."""
    if isinstance(value, str | bytes | dict):
        raise TypeError
    values = np.asarray(value)
    if values.ndim > 1 or values.dtype.kind not in "biuf":
        raise TypeError
    return values.astype(np.float64)


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
