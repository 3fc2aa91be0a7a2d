"""Draw the figures of these pages: ``make figures`` writes them beside this file.

Light pictures on white; the site's style sheet inverts ``figure-*.svg`` on dark pages.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

INK, FAINT, GREY = "#1f2328", "#9aa1a9", "#e3e6ea"
BLUE, ORANGE, GREEN, RED = "#2f6fb5", "#d5711c", "#2c8f63", "#c2383a"
PALE = {BLUE: "#d9e6f4", ORANGE: "#fae5d1", GREEN: "#d6eee3"}
COLOURS = (BLUE, ORANGE, GREEN)
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "mathtext.fontset": "cm",
    "svg.hashsalt": "lcpool",  # the same bytes each time
    "text.color": INK,
}
Point = tuple[float, float]


def canvas(width: float, height: float, x: float, y: float) -> tuple[Figure, Axes]:
    """An empty picture in inches, with coordinates from 0 to x and from 0 to y."""
    figure, axes = plt.subplots(figsize=(width, height))
    figure.subplots_adjust(0, 0, 1, 1)
    axes.set_xlim(0, x)
    axes.set_ylim(0, y)
    axes.set_aspect("equal")
    axes.axis("off")
    return figure, axes


def node(axes: Axes, at: Point, text: str = "", fill: str = "white", edge: str = INK) -> None:
    """A node of a graph."""
    axes.add_patch(plt.Circle(at, 0.3, facecolor=fill, edgecolor=edge, lw=1.4, zorder=3))
    colour = "white" if fill not in ("white", GREY, *PALE.values()) else INK
    axes.text(*at, text, ha="center", va="center_baseline", color=colour, size=11, zorder=4)


def line(axes: Axes, a: Point, b: Point, colour: str = FAINT, width: float = 1.4) -> None:
    """An edge."""
    axes.plot(*zip(a, b, strict=True), color=colour, lw=width, zorder=2, solid_capstyle="round")


def arrow(axes: Axes, a: Point, b: Point, colour: str = INK, bend: float = 0) -> None:
    """An arrow from a to b."""
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.3, "shrinkA": 0, "shrinkB": 0,
             "connectionstyle": f"arc3,rad={bend}", "mutation_scale": 11}  # fmt: skip
    axes.annotate("", xy=b, xytext=a, arrowprops=style, zorder=2)


def box(axes: Axes, at: Point, text: str, width: float, fill: str, height: float = 0.9) -> None:
    """A block of a network, around its middle."""
    corner = (at[0] - width / 2, at[1] - height / 2)
    shape = FancyBboxPatch(corner, width, height, boxstyle="round,pad=0,rounding_size=0.14",
                           facecolor=fill, edgecolor=INK, lw=1.2, zorder=3)  # fmt: skip
    axes.add_patch(shape)
    axes.text(*at, text, ha="center", va="center", size=10.5, zorder=4)


def matrix(axes: Axes, at: Point, entries: np.ndarray, title: str, colours: Sequence[str]) -> float:
    """Non-zero entries as squares, from the top left corner; the x where it ends."""
    step = 0.34
    for (i, j), value in np.ndenumerate(entries):
        corner = (at[0] + j * step, at[1] - (i + 1) * step)
        by = i if len(entries) < entries.shape[1] else j
        fill = "white" if not value else colours[by % len(colours)]
        axes.add_patch(Rectangle(corner, step, step, facecolor=fill, edgecolor=FAINT, lw=0.7))
    middle = at[0] + entries.shape[1] * step / 2
    axes.text(middle, at[1] + 0.2, title, ha="center", va="bottom", size=13)
    return at[0] + entries.shape[1] * step


def connect() -> Figure:
    """How A' is built from clusters."""
    figure, axes = canvas(9.2, 4.7, 18.4, 9.4)
    kept, n = (1, 4, 6), 7
    A = np.zeros((n, n))
    for i in range(n - 1):
        A[i, i + 1] = A[i + 1, i] = 1
    S = (np.eye(n) + A)[:, kept]
    pooled = S.T @ A @ S > 0
    axes.text(0.4, 8.9, "1  a cluster is a kept node and its neighbours", size=11)
    places = [(1 + 1.9 * i, 7.1) for i in range(n)]
    for number, k in enumerate(kept):
        members = [j for j in range(n) if S[j, number]]
        left, right = places[members[0]][0], places[members[-1]][0]
        size = 0.62 - 0.07 * number
        shape = FancyBboxPatch((left, 7.1 - size), right - left, 2 * size,
                               boxstyle="round,pad=0.5,rounding_size=0.6", lw=1.6,
                               facecolor=PALE[COLOURS[number]], edgecolor=COLOURS[number],
                               alpha=0.75, zorder=number / 10)  # fmt: skip
        axes.add_patch(shape)
        axes.text(places[k][0], 5.5, f"$c_{k}$", color=COLOURS[number], ha="center", size=14)
    touching = [(2, 3), (4, 5), (5, 6)]
    for i in range(n - 1):
        bold = (i, i + 1) in touching
        line(axes, places[i], places[i + 1], INK if bold else FAINT, 3 if bold else 1.4)
    for i, at in enumerate(places):
        fill = COLOURS[kept.index(i)] if i in kept else "white"
        node(axes, at, str(i), fill)
    axes.text(14.1, 8.9, "2  join what touches", size=11)
    after = [(15.3, 6.4), (16.5, 7.8), (17.7, 6.4)]
    line(axes, after[0], after[1], INK, 2)
    line(axes, after[1], after[2], INK, 2)
    for number, at in enumerate(after):
        node(axes, at, str(kept[number]), COLOURS[number])
    axes.text(0.4, 4.5, "The same in matrices:", size=11)
    top = 3.4
    end = matrix(axes, (1.0, top - 0.7), S.T, "$S'^\\top$", COLOURS)
    end = matrix(axes, (end + 0.9, top), A, "$A$", (FAINT,))
    end = matrix(axes, (end + 0.9, top), S, "$S'$", COLOURS)
    axes.text(end + 0.7, top - 1.2, "=", ha="center", va="center", size=16)
    end = matrix(axes, (end + 1.4, top - 0.7), pooled, "$A'$", (INK,))
    axes.text(end + 0.9, top - 0.75, "TopK would keep $A(\\hat{i},\\hat{i})$,\nwhich has no edge.\n"
              "The diagonal of $A'$ is a walk\nto a neighbour and back.",
              va="top", size=10.5, linespacing=1.5)  # fmt: skip
    return figure


def cancel_signs() -> Figure:
    """Contributions of opposite sign cancel in S'ᵀAS'."""
    figure, axes = canvas(7.2, 2.5, 14.4, 5)
    for at, (width, height), colour in (((1.9, 2.5), (1.0, 2.6), BLUE),
                                        ((6.2, 2.5), (1.0, 1.0), ORANGE)):  # fmt: skip
        shape = FancyBboxPatch((at[0] - width / 2, at[1] - height / 2), width, height, lw=1.6,
                               boxstyle="round,pad=0.35,rounding_size=0.5",
                               facecolor=PALE[colour], edgecolor=colour)  # fmt: skip
        axes.add_patch(shape)
    arrow(axes, (2.25, 3.4), (5.9, 2.62))
    arrow(axes, (2.25, 1.6), (5.9, 2.38))
    node(axes, (1.9, 3.5), "0")
    node(axes, (1.9, 1.5), "1")
    node(axes, (6.2, 2.5), "2")
    axes.text(0.85, 3.5, "+1", ha="right", va="center", color=GREEN, size=13, weight="bold")
    axes.text(0.85, 1.5, "−1", ha="right", va="center", color=RED, size=13, weight="bold")
    axes.text(6.2, 1.1, "+1", ha="center", va="center", color=GREEN, size=13, weight="bold")
    axes.text(1.9, 0.15, "$p$", ha="center", size=14, color=BLUE)
    axes.text(6.2, 0.15, "$q$", ha="center", size=14, color=ORANGE)
    axes.text(7.9, 3.2, "$a'_{pq} = s_{0p}\\,a_{02}\\,s_{2q} + s_{1p}\\,a_{12}\\,s_{2q}$", size=13)
    axes.text(8.65, 2.15, "$= 1 - 1 = 0$", size=13)
    axes.text(7.9, 0.95, "An edge joins the clusters, and $A'$\ndoes not show it.", size=10.5,
              linespacing=1.5)  # fmt: skip
    return figure


def cancel_score() -> Figure:
    """Differences that cancel: two clusters with the same Laplacian score."""
    figure, axes = canvas(7.8, 2.9, 15.6, 5.8)
    for left, title, around in (
        (2.4, "one neighbour", {(0.0, -1.7): "$x_1$"}),
        (9.6, "two more, at $\\pm d$", {(0.0, -1.7): "$x_1$", (-2.2, 0.9): "$x_0{+}d$",
                                        (2.2, 0.9): "$x_0{-}d$"}),
    ):  # fmt: skip
        centre = (left, 3.1)
        for (dx, dy), text in around.items():
            at = (centre[0] + dx, centre[1] + dy)
            line(axes, centre, at)
            node(axes, at, "", GREY)
            axes.text(at[0] + (0.45 if dx >= 0 else -0.45), at[1] + 0.05, text, size=13,
                      ha="left" if dx >= 0 else "right", va="center")  # fmt: skip
        node(axes, centre, "", BLUE)
        axes.text(centre[0] + 0.4, centre[1] - 0.55, "$x_0$", size=13, color=BLUE)
        axes.text(left, 5.2, title, ha="center", size=11)
    axes.text(2.4, 0.35, "$\\sum_k (x_0 - x_k) = x_0 - x_1$", ha="center", size=12.5)
    axes.text(9.9, 0.35, "$\\sum_k (x_0 - x_k) = (x_0 - x_1) - d + d$", ha="center", size=12.5)
    return figure


def lcsmp() -> Figure:
    """LCSMP as blocks."""
    figure, axes = canvas(9.2, 2.6, 18.4, 5.2)
    upper, lower, joint = 3.9, 1.3, 2.6
    axes.text(0.4, upper, "$x_i - x_k$\nfor $k \\in N(i)$", va="center", size=11.5)
    axes.text(0.4, lower, "$x_i$", va="center", size=13)
    boxes = [((4.2, upper), "$L_d$, ReLU", 2.0, PALE[BLUE]),
             ((7.0, upper), "$\\sum_k$", 1.3, GREY),
             ((9.8, upper), "$L_{fd}$, ReLU", 2.1, PALE[BLUE]),
             ((7.0, lower), "$L_x$, ReLU", 2.1, PALE[BLUE]),
             ((14.0, joint), "$L_s$", 1.1, PALE[BLUE]),
             ((16.2, joint), "softmax over\nthe graph", 2.3, PALE[ORANGE])]  # fmt: skip
    for at, text, width, fill in boxes:
        box(axes, at, text, width, fill, height=1.1)
    plus = (12.4, joint)
    axes.add_patch(plt.Circle(plus, 0.32, facecolor="white", edgecolor=INK, lw=1.2, zorder=3))
    axes.text(*plus, "+", ha="center", va="center_baseline", size=14, zorder=4)
    for a, b in (((2.5, upper), (3.15, upper)), ((5.25, upper), (6.3, upper)),
                 ((7.7, upper), (8.7, upper)), ((1.1, lower), (5.9, lower)),
                 ((10.9, upper), (12.2, joint + 0.3)), ((8.1, lower), (12.2, joint - 0.3)),
                 ((12.75, joint), (13.4, joint)), ((14.6, joint), (15.0, joint)),
                 ((17.4, joint), (17.8, joint))):  # fmt: skip
        arrow(axes, a, b)
    axes.text(17.9, joint, "$h_i$", va="center", size=14)
    return figure


def backbones() -> Figure:
    """The hierarchical and the plain network."""
    figure, axes = canvas(9.2, 4.2, 18.4, 8.4)
    for y, title, hierarchical in ((6.2, "hierarchical", True), (1.6, "plain", False)):
        axes.text(0.3, y + 1.5, title, size=12, weight="bold")
        row = [(1.5, "MLP", GREY), (4.2, "conv", PALE[GREEN]), (6.9, "pool", PALE[BLUE]),
               (9.6, "conv", PALE[GREEN]), (12.2, "readout", "white"),
               (16.8, "MLP", GREY)]  # fmt: skip
        for x, text, fill in row:
            box(axes, (x, y), text, 1.7, fill)
        for a, b in ((2.4, 3.3), (5.1, 6.0), (7.8, 8.7), (10.5, 11.3)):
            arrow(axes, (a, y), (b, y))
        if not hierarchical:
            arrow(axes, (13.1, y), (15.9, y))
            continue
        plus = (14.6, y)
        axes.add_patch(plt.Circle(plus, 0.32, facecolor="white", edgecolor=INK, lw=1.2, zorder=3))
        axes.text(*plus, "+", ha="center", va="center_baseline", size=14, zorder=4)
        arrow(axes, (13.1, y), (14.25, y))
        arrow(axes, (14.95, y), (15.9, y))
        box(axes, (7.0, y - 1.7), "readout", 1.7, "white")
        axes.plot([4.2, 4.2, 6.1], [y - 0.45, y - 1.7, y - 1.7], color=INK, lw=1.3)
        axes.plot([7.85, 14.6], [y - 1.7, y - 1.7], color=INK, lw=1.3)
        arrow(axes, (14.6, y - 1.7), (14.6, y - 0.35))
    axes.text(0.3, 0.2, "readout: the mean and the maximum over the nodes of a graph, side by side",
              size=10.5, color=INK)  # fmt: skip
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "connect": connect,
    "cancel-signs": cancel_signs,
    "cancel-score": cancel_score,
    "lcsmp": lcsmp,
    "backbones": backbones,
}


def draw(folder: Path) -> None:
    """Write every figure into a folder, as SVG."""
    with mpl.rc_context(STYLE):
        for name, make in FIGURES.items():
            figure, target = make(), folder / f"figure-{name}.svg"
            figure.savefig(target, facecolor="white", metadata={"Date": None})
            plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the figures of the documentation.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent)
    draw(parser.parse_args().folder)
