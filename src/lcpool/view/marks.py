"""What a panel of a drawing is made of: nodes, edges, the nodes of a cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from lcpool.extras import needs
from lcpool.view.levels import Level, pairs

with needs("lab"):
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba
    from matplotlib.figure import Figure
    from scipy.spatial import cKDTree

    from lcpool.view.layout import Array, bent, cell_colours

# After Okabe and Ito, and Tol: told apart by colour-blind readers (tests/view/test_colours.py).
# Vermilion is for new edges. The page has the same ones, and others on a dark ground (show.css).
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#66ccee", "#332288", "#882255")
NEW, KEPT, PALE, INK = "#d55e00", "#6b7280", "#d4d7dc", "#1c2430"
# A dropped node is a ring: pale clusters are no colours of their own to all readers.
DROPPED, RIM = "#ffffff", "#9aa1ab"
DASHES = (0, (3, 1.6))
PANEL, TITLE, ROW = 3.0, 0.5, 0.2  # inches: a panel's width, two lines above, a line of the legend
FAINT = 0.01  # of the largest weight: lighter edges are not drawn
MANY = 200  # edges: those of more are thinner


class Drawing(Figure):
    """A matplotlib figure that a notebook shows without pyplot, and that can be printed."""

    def savefig(self, *target: Any, **options: Any) -> None:
        """With fonts that publishers take (Type 42), and 300 dots per inch unless ``dpi`` is given.

        The other arguments are those of matplotlib.
        """
        with mpl.rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
            super().savefig(*target, **{"dpi": 300, **options})

    def _repr_html_(self) -> str:
        from lcpool.view.figure import svg

        return svg(self)


def panels(where: Array, titles: Sequence[str], rows: int = 0) -> tuple[Drawing, list[Axes]]:
    """A figure with a panel per title, all with room for nodes at these places.

    ``rows`` lines below are left for a legend.
    """
    (left, bottom), (right, top) = _room(where)
    high = PANEL * float(np.clip((top - bottom) / (right - left), 0.4, 1.2))
    below = ROW * rows + (0.1 if rows else 0)
    size = PANEL * len(titles), below + high + TITLE
    figure, axes = Drawing(figsize=size), []
    for step, title in enumerate(titles):
        box = step / len(titles), below / size[1], 1 / len(titles), high / size[1]
        axis = figure.add_axes(box, xlim=(left, right), ylim=(bottom, top), aspect="equal")
        axis.set_axis_off()
        axis.set_title(title, fontsize=9, color=INK)
        axes.append(axis)
    return figure, axes


def _room(where: Array) -> tuple[Array, Array]:
    """The lower left and the upper right corner of a panel with nodes at these places."""
    low, high = (where.min(axis=0), where.max(axis=0)) if len(where) else (np.zeros(2),) * 2
    span = np.maximum(high - low, 1.5) + 0.9 + 0.06 * float((high - low).max())
    return (low + high - span) / 2, (low + high + span) / 2


def edges_on(
    axis: Axes,
    where: Array,
    edge_index: Tensor,
    new: Tensor | None = None,
    weight: Tensor | None = None,
) -> None:
    """Draw edges: new ones dashed, and wider the heavier they are."""
    joined, keep = pairs(edge_index)
    heavy = np.ones(len(joined)) if weight is None else weight.abs()[keep].numpy()
    seen = heavy > FAINT * heavy.max(initial=0.0)
    span = float(np.ptp(heavy)) if len(joined) else 0.0
    share = np.full(len(joined), 0.5) if span <= 0 else 0.05 + (heavy - heavy.min()) / span
    is_new = np.zeros(len(joined), bool) if new is None else new[keep].numpy()
    few = min(1.0, math.sqrt(MANY / max(int(seen.sum()), 1)))
    widest = float(np.clip(0.5 * radius(axis, where), 0.8, 2.4)) * few
    alpha = np.full(len(joined), 0.85) if weight is None else 0.15 + 0.6 * share.clip(max=1)
    alpha *= max(few, 0.4)
    ends = joined.numpy()
    for which, colour, style, layer in ((is_new, NEW, DASHES, 2), (~is_new, KEPT, "-", 3)):
        drawn = which & seen
        colours = np.tile(to_rgba(colour), (int(drawn.sum()), 1))
        colours[:, 3] = alpha[drawn]
        lines = LineCollection(
            bent(where, ends[drawn]) if which is is_new else list(where[ends[drawn]]),
            colors=colours, linestyles=[style], linewidths=widest * share[drawn], zorder=layer,
        )  # fmt: skip
        axis.add_collection(lines)


def nodes_on(axis: Axes, where: Array, fill: Sequence[str], size: Array) -> None:
    """Draw nodes in these colours; ``size`` is the share of the largest area."""
    largest = radius(axis, where)
    axis.scatter(
        where[:, 0], where[:, 1], s=4 * largest**2 * size, c=list(fill), zorder=4,
        linewidths=min(0.6, 0.15 * largest),
        edgecolors=[RIM if colour == DROPPED else "white" for colour in fill],
    )  # fmt: skip


def members_on(axis: Axes, level: Level, before: Array, after: Array) -> None:
    """Draw the nodes before, pale, and lines from them to the pooled node they are part of.

    No lines where every node has a part in every cluster: these are everywhere.
    """
    colours, largest = np.full(len(before), PALE, object), radius(axis, before)
    if level.has_cells:
        assert level.labels is not None
        tints = [pale(PALETTE[c]) for c in cell_colours(level, len(PALETTE))]
        of = level.labels.numpy()
        inside = np.flatnonzero(of >= 0)
        colours[inside] = [tints[c] for c in of[inside]]
        lines = LineCollection(
            list(np.stack([before[inside], after[of[inside]]], axis=1)), zorder=0,
            colors=list(colours[inside]), linewidths=0.7 * largest,
        )  # fmt: skip
        lines.set_capstyle("round")
        if not level.is_soft:
            axis.add_collection(lines)
    area = 4 * (0.4 * largest) ** 2
    axis.scatter(before[:, 0], before[:, 1], s=area, c=list(colours), linewidths=0, zorder=1)


def looks(count: int, own: Level | None, following: Level | None) -> tuple[list[str], Array]:
    """The colour and the size of each node of a panel.

    By the cluster that it becomes part of in the ``following`` pooling, or in the last panel, by
    the one that it is.
    """
    fill, size = [PALETTE[0]] * count, np.full(count, 0.6)
    level = following or own
    if level is None:
        return fill, size
    colours = [PALETTE[0]] * level.num_nodes
    if level.has_cells:
        colours = [PALETTE[c] for c in cell_colours(level, len(PALETTE))]
    if following is None:
        return colours, sizes(level)
    if following.labels is not None:
        fill = [DROPPED if label < 0 else colours[label] for label in following.labels.tolist()]
    if following.perm is not None:
        kept = following.perm.tolist()
        fill = [c if c == DROPPED else pale(c) for c in fill]
        for place, node in enumerate(kept):
            fill[node] = colours[place]
        size[:] = 0.35
        size[kept] = sizes(level)
    return fill, size


def sizes(level: Level) -> Array:
    """The size of each pooled node, to 1: by its score, else by the nodes in it."""
    value = level.score
    if value is None and level.has_cells:
        assert level.labels is not None
        value = level.labels[level.labels >= 0].bincount(minlength=level.num_nodes)
    if value is None or not value.numel() or float(value.max()) <= float(value.min()):
        return np.full(level.num_nodes, 0.8)
    value = value.double()
    return np.asarray((0.4 + 0.6 * (value - value.min()) / (value.max() - value.min())).numpy())


def radius(axis: Axes, where: Array) -> float:
    """The radius of the largest node at these places, in points: few of them overlap."""
    (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()
    width, height = right - left, top - bottom
    area = (72 * PANEL) ** 2 * min(height / width, 1.2)
    found = 0.17 * math.sqrt(area / max(len(where), 1))
    if len(where) > 1:
        unit = 72 * PANEL * min(1 / width, 1.2 / height)
        nearest = cKDTree(where).query(where, 2)[0][:, 1]
        found = min(found, 0.5 * unit * float(np.quantile(nearest, 0.25)))
    return float(np.clip(found, 1.3, 8.0))


def pale(colour: str) -> str:
    """Three tenths of the colour, and white."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - 0.3 * (255 - part)):02x}" for part in parts)
