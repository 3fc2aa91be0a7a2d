"""``draw``: a graph and what poolings made of it, side by side."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from lcpool.data.convert import single_graphs
from lcpool.data.from_networkx import is_networkx
from lcpool.extras import needs
from lcpool.graph.graph import Graph
from lcpool.pool import Pooled
from lcpool.view.levels import Level, PooledGraph, level_of, pairs
from lcpool.words import count

with needs("lab"):
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    from lcpool.view.layout import Array, layout, places
    from lcpool.view.marks import (
        DASHES,
        DROPPED,
        INK,
        KEPT,
        NEW,
        PALETTE,
        RIM,
        edges_on,
        looks,
        members_on,
        nodes_on,
        pale,
        panels,
    )


def draw(
    graph: Any, pooled: PooledGraph | Pooled | Sequence[Pooled], *, titles: Sequence[str] = ()
) -> Figure:
    """Draw a graph and what poolings made of it, side by side; nothing moves between the panels.

    A kept node stays where it was, a cluster is in the middle of its nodes. A node has the colour
    of the cluster that it becomes part of, pale if it is not kept, and is a ring if it is dropped;
    neighbouring clusters have different colours. Kept nodes are larger the higher their score, new
    edges are dashed, and edges with weights are wider the heavier they are. The direction of edges
    is not drawn.

    Args:
        graph: a graph of PyG or networkx. Its ``pos``, if it has one, is where nodes are drawn;
            else a layout of networkx, the same each time.
        pooled: one of :meth:`lcpool.train.Model.pooled`; or the output of a pooling for this
            graph, or the outputs of several that follow one another.
        titles: of the panels; by default the number of nodes and edges.

    Returns:
        A figure of matplotlib, a panel 3 inches wide: ``figure.savefig("pooled.pdf")``.

    Raises:
        ValueError: if ``pooled`` is of another graph, or of several.

    Example:
        >>> import lcpool
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> graph = Data(x=torch.ones(4, 1), edge_index=path)
        >>> out = lcpool.TopKPooling(1)(graph.x, path)
        >>> len(lcpool.draw(graph, out).axes)
        2
    """
    edges, count, pos = _parts(graph)
    levels = _levels(edges, count, pooled)
    where = [layout(edges, count) if pos is None else _scaled(pos, edges)]
    for level in levels:
        where.append(places(level, where[-1]))
    shown = list(titles) or _titles(edges, count, levels)
    if len(shown) != len(where):
        raise ValueError(f"there are {len(where)} panels for {len(shown)} 'titles'.")
    handles = _legend(levels)
    rows = -(-len(handles) // max(1, round(1.8 * len(where))))
    columns = -(-len(handles) // max(1, rows))
    figure, axes = panels(where[0], shown, rows)
    for step, (axis, place) in enumerate(zip(axes, where, strict=True)):
        own = levels[step - 1] if step else None
        following = levels[step] if step < len(levels) else None
        if own is None:
            edges_on(axis, place, edges)
        else:
            members_on(axis, own, where[step - 1], place)
            edges_on(axis, place, own.edge_index, own.new, own.weight)
        nodes_on(axis, place, *looks(len(place), own, following))
    if handles:
        figure.legend(
            [handle for handle, _ in handles], [label for _, label in handles],
            loc="lower center", ncols=columns, frameon=False, fontsize=8,
            handletextpad=0.5, columnspacing=1.4, labelcolor=INK,
            handler_map={tuple: HandlerTuple(ndivide=None, pad=0.2)},
        )  # fmt: skip
    return figure


def svg(figure: Figure) -> str:
    """The figure as an SVG element, the same bytes each time."""
    file = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lcpool"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()[file.getvalue().index("<svg") :]


def _titles(edges: Tensor, nodes: int, levels: Sequence[Level]) -> list[str]:
    """The number of nodes and edges of each panel."""
    found = [f"the graph\n{_size(nodes, len(pairs(edges)[0]))}"]
    for number, level in enumerate(levels, start=1):
        joined, keep = pairs(level.edge_index)
        num_new = 0 if level.new is None else int(level.new[keep].sum())
        new = f", {num_new} new" if num_new else ""
        name = f"pooling {number}" if len(levels) > 1 else "pooled"
        found.append(f"{name}\n{_size(level.num_nodes, len(joined))}{new}")
    return found


def _size(nodes: int, edges: int) -> str:
    return f"{count(nodes, 'node')}, {count(edges, 'edge')}"


def _legend(levels: Sequence[Level]) -> list[tuple[Any, str]]:
    """The marks that occur, and what they mean."""

    def dot(colour: str, size: float) -> Line2D:
        rim = RIM if colour == DROPPED else "white"
        return Line2D([], [], color="none", marker="o", markersize=size, markerfacecolor=colour,
                      markeredgecolor=rim, markeredgewidth=0.6)  # fmt: skip

    def line(colour: str, **look: Any) -> Line2D:
        return Line2D([], [], color=colour, **look)

    selects = [level for level in levels if level.perm is not None]
    cells = [level for level in levels if level.has_cells]
    handles: list[tuple[Any, str]] = []
    if selects:
        handles.append((dot(PALETTE[0], 7), "kept"))
        if any(level.labels is None or bool((level.labels < 0).any()) for level in selects):
            handles.append((dot(DROPPED, 5), "dropped"))
    if cells:
        members = (dot(PALETTE[1], 7), dot(pale(PALETTE[1]), 5) if selects else dot(PALETTE[1], 5))
        handles.append((members, "one colour: one cluster"))
    if any(level.score is not None for level in levels):
        handles.append(((dot(INK, 4), dot(INK, 7)), "size: score"))
    elif cells:
        handles.append(((dot(INK, 4), dot(INK, 7)), "size: nodes in it"))
    if any(level.new is not None and bool(level.new[pairs(level.edge_index)[1]].any())
           for level in levels):  # fmt: skip
        handles.append((line(KEPT), "edge"))
        handles.append((line(NEW, linestyle=DASHES), "new edge"))
    if any(level.weight is not None for level in levels):
        handles.append(((line(KEPT, linewidth=0.6), line(KEPT, linewidth=3)), "width: weight"))
    return handles


def _parts(graph: Any) -> tuple[Tensor, int, Array | None]:
    """The edges, the number of nodes and the positions of a graph of PyG or networkx."""
    if is_networkx(graph):
        row = {node: i for i, node in enumerate(graph)}
        ends = [(row[u], row[v]) for u, v in graph.edges()]
        found = [at for _, at in graph.nodes(data="pos")]
        pos = None if any(at is None for at in found) else torch.tensor(found)
        edges = torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).t()
        return edges, len(row), _two(pos, len(row))
    (graph,) = found if len(found := single_graphs(graph)) == 1 else (None,)
    if not isinstance(graph, Data) or graph.edge_index is None:
        raise TypeError("'graph' must be one graph of PyG (torch_geometric.data.Data) or networkx.")
    count = int(graph.num_nodes)
    return graph.edge_index.cpu(), count, _two(graph.pos, count)


def _two(pos: Tensor | None, count: int) -> Array | None:
    """The first two coordinates of each node."""
    if pos is None or not count:
        return None
    if pos.dim() != 2 or pos.size(0) != count or pos.size(1) < 2 or not pos.isfinite().all():
        raise ValueError(
            f"'pos' must have two finite coordinates for each of {count} nodes, not shape "
            f"{list(pos.shape)}."
        )
    return pos[:, :2].double().cpu().numpy()


def _scaled(pos: Array, edges: Tensor) -> Array:
    """The positions, so that an edge is about 1 long."""
    joined = pairs(edges)[0].numpy()
    lengths = np.linalg.norm(pos[joined[:, 0]] - pos[joined[:, 1]], axis=1)
    middle = float(np.median(lengths)) if len(lengths) else 0.0
    return pos / middle if middle > 0 else pos


def _levels(edges: Tensor, count: int, pooled: Any) -> tuple[Level, ...]:
    """The levels to draw, if they are of this graph."""
    if isinstance(pooled, PooledGraph):
        levels, given = pooled.levels, int(pooled.graph.num_nodes or 0)
        if given != count:
            raise ValueError(f"'pooled' is of a graph of {given} nodes, and 'graph' has {count}.")
        if not torch.equal(pairs(pooled.graph.edge_index)[0], pairs(edges)[0]):
            raise ValueError("'pooled' is of a graph with other edges than 'graph' has.")
        return levels
    several = isinstance(pooled, Iterable) and not isinstance(pooled, Pooled)
    outputs = list(pooled) if several else [pooled]
    before, found = Graph.of(torch.zeros(count, 1), edges), []
    for out in outputs:
        if not isinstance(out, Pooled):
            raise TypeError(
                f"'pooled' must be what a pooling returned, a list of such, or one item of "
                f"Model.pooled(graphs), not {'a list of ' if several else ''}{type(out).__name__}."
            )
        known = before.num_nodes if out.made is None else out.assignment.num_nodes
        if known != before.num_nodes:
            raise ValueError(
                f"'pooled' is of a graph of {known} nodes, and 'graph' has {before.num_nodes}."
            )
        found.append(level_of(before, out))
        before = out.graph
    return tuple(found)
