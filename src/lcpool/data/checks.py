"""Errors and warnings about a set of graphs, and what may be odd in it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from lcpool.warn import warn_caller

if TYPE_CHECKING:
    from lcpool.data.graphset import GraphSet
    from lcpool.data.splits import Split


class DatasetError(ValueError):
    """A dataset that cannot be read; the message says where and why."""


class DataWarning(UserWarning):
    """A dataset can be trained on, but may not be what its user expects.

    Each message is given once per process. To silence all of them::

        warnings.filterwarnings("ignore", category=lcpool.data.DataWarning)
    """


@functools.cache
def warn_once(message: str) -> None:
    """Warn the user, unless the same message was given before in this process."""
    warn_caller(message, DataWarning)


def check_columns(graphs: GraphSet) -> None:
    """Raise unless the columns of a set fit together: shapes, types, and indices in range."""
    for name, fits in _columns(graphs):
        if not fits:
            raise DatasetError(
                f"{graphs.name}: '{name}' has a wrong shape or type, or numbers out of range."
            )


def _columns(graphs: GraphSet) -> Iterator[tuple[str, bool]]:
    """Each column, and whether it fits those before it."""
    x, edges, y, attr = graphs.x, graphs.edge_index, graphs.y, graphs.edge_attr
    yield "x", x.dim() == 2 and x.is_floating_point()
    sizes = graphs.categories
    yield "categories", all(size > 0 for size in sizes) and sum(sizes) <= x.size(1)
    yield "words", not graphs.words or tuple(map(len, graphs.words)) == sizes
    sizes, words = graphs.edge_categories, graphs.edge_words
    fits = all(size > 0 for size in sizes) and sum(sizes) <= graphs.num_edge_features
    yield "edge_categories", fits
    yield "edge_words", not words or tuple(map(len, words)) == sizes
    yield "edge_index", edges.dtype == torch.int64 and edges.dim() == 2 and edges.size(0) == 2
    yield "edge_attr", attr is None or attr.size(0) == edges.size(1)
    if graphs.task == "classes":
        yield "y", y.dtype == torch.int64 and y.dim() == 1
        yield "classes", {type(label) for label in graphs.classes} in (set(), {int}, {str})
        if graphs.classes_are_words:
            yield "y", bool(((y >= 0) & (y < len(graphs.classes))).all())
    else:
        yield "y", y.is_floating_point() and y.dim() == 2 and not bool(y.isinf().any())
        yield "y", graphs.task == "values" or bool(((y == 0) | (y == 1) | y.isnan()).all())
    yield "task", graphs.task in ("classes", "labels", "values")
    names = graphs.target_names
    yield "target_names", not names or (y.dim() == 2 and len(names) == y.size(1))
    for name, rows in (("node_ptr", x.size(0)), ("edge_ptr", edges.size(1))):
        ptr = getattr(graphs, name)
        yield name, ptr.dtype == torch.int64 and ptr.shape == (len(y) + 1,)
        yield name, int(ptr[0]) == 0 and int(ptr[-1]) == rows and bool((ptr.diff() >= 0).all())
    # Both ends of an edge are nodes of its graph.
    spans = torch.stack([graphs.node_ptr[:-1], graphs.node_ptr[1:]])
    first, end = spans.repeat_interleave(graphs.edge_ptr.diff(), dim=1)
    yield "edge_index", bool(((edges >= first) & (edges < end)).all())
    for split in graphs.splits:
        check_split(split, len(y), graphs.name)


def check_split(split: Split, num_graphs: int, where: str) -> None:
    """Raise unless the parts of a split are graphs, none is empty, and none shares a graph."""
    owner = torch.zeros(num_graphs, dtype=torch.long)
    for number, (name, part) in enumerate(zip(split._fields, split, strict=True), start=1):
        if part.dtype != torch.int64 or part.dim() != 1:
            raise DatasetError(f"{where}: '{name}' must be a list of numbers of graphs.")
        if len(part) == 0:
            raise DatasetError(f"{where}: '{name}' is empty; every part needs a graph.")
        low, high = int(part.min()), int(part.max())
        if not 0 <= low <= high < num_graphs:
            raise DatasetError(
                f"{where}: '{name}' has numbers from {low} to {high}, but the {num_graphs} graphs "
                f"are numbered from 0 to {num_graphs - 1}."
            )
        if owner[part].any() or len(np.unique(part.numpy())) < len(part):
            again = (owner[part] > 0) | (part.bincount(minlength=num_graphs)[part] > 1)
            g, count = int(part[again][0]), len(np.unique(part[again].numpy()))
            other = split._fields[int(owner[g]) - 1] if owner[g] else name
            raise DatasetError(
                f"{where}: graph {g} is in '{other}' and again in '{name}' ({count} such "
                f"graphs); a graph belongs to one part."
            )
        owner[part] = number
    if len(split.train) == 1:
        raise DatasetError(f"{where}: 'train' has one graph; batch norm needs two.")


class EdgeCounts(NamedTuple):
    """The edges of a set of graphs by kind."""

    pairs: int  # connected pairs of different nodes, whatever the direction
    one_way: int  # edges without a reverse edge
    one_way_graphs: int  # graphs with such edges
    repeated: int  # edges that are there already, in the same direction
    loops: int  # self-loops

    @classmethod
    def of(cls, graphs: GraphSet) -> EdgeCounts:
        """Count the edges."""
        # In numpy, whose sort and search are faster here than torch's and start no threads.
        source, target = graphs.edge_index.cpu().numpy()
        num_nodes = graphs.x.size(0)
        between = source != target
        there = source[between] * num_nodes + target[between]
        if (there[1:] <= there[:-1]).any():  # Otherwise sorted already: the edges of a file are.
            there = np.unique(there)
        source, target = np.divmod(there, max(num_nodes, 1))
        back = target * num_nodes + source
        alone = there.take(np.searchsorted(there, back), mode="clip") != back
        owner = np.searchsorted(graphs.node_ptr.cpu().numpy(), source[alone], side="right")
        one_way, loops = int(alone.sum()), int((~between).sum())
        repeated = len(between) - loops - len(there)
        return cls((len(there) + one_way) // 2, one_way, len(np.unique(owner)), repeated, loops)


def oddities(graphs: GraphSet) -> Iterator[str]:
    """What may not be as intended, apart from what :func:`~lcpool.data.load_dataset` warns of."""
    edges, num_nodes = EdgeCounts.of(graphs), graphs.x.size(0)
    connected = len(np.unique(graphs.edge_index.cpu().numpy()))
    counts = {
        f"of {len(graphs)} graphs have no nodes": int((graphs.node_counts == 0).sum()),
        f"of {num_nodes} nodes have no edge": num_nodes - connected,
        "edges are repeated": edges.repeated,
        "edges are self-loops": edges.loops,
    }
    for what, count in counts.items():
        if count:
            yield f"{count} {what}"
    if graphs.task == "classes":
        if graphs.num_classes < 2:
            yield "the graphs have no labels" if not graphs.classes else "all graphs have one label"
    elif missing := int(graphs.y.isnan().sum()):
        yield f"{missing} of {graphs.y.numel()} {graphs.task} are missing"
