"""Draw what pooling does to a ring of cliques.

``python examples/picture.py`` writes ``pooled.png`` into the current folder, and
``python examples/picture.py docs/pooled.png`` the picture in the README.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.sparse.csgraph import connected_components
from torch_geometric.utils import to_scipy_sparse_matrix

from lcpool.demo import pooled_by_all, ring_of_cliques
from lcpool.graph.graph import Graph
from lcpool.view.levels import level_of
from lcpool.view.marks import INK, PALETTE, edges_on, nodes_on

SHOWN = ("TopKPooling", "SAGPooling", "ASAPooling", "LCPooling", "CellPooling")


def positions(cliques: int = 9, size: int = 4) -> np.ndarray:
    places = []
    for c in range(cliques):
        around = 2 * math.pi * c / cliques
        for i in range(size):
            turn = around + math.pi / 2 - 2 * math.pi * i / size
            places.append((math.cos(around) + 0.17 * math.cos(turn),
                           math.sin(around) + 0.17 * math.sin(turn)))  # fmt: skip
    return 4 * np.array(places)


def parts(edge_index, num_nodes: int) -> tuple[int, list[str]]:
    """The number of connected parts, and a colour for each node by its part."""
    count, part = connected_components(to_scipy_sparse_matrix(edge_index, num_nodes=num_nodes))
    return count, [PALETTE[p % len(PALETTE)] for p in part]


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw what pooling does to a ring of cliques.")
    parser.add_argument("target", nargs="?", type=Path, default="pooled.png", help="file to write")
    target = parser.parse_args().target
    x, edge_index = ring_of_cliques()
    where, graph = positions(), Graph.of(x, edge_index)
    pooled = pooled_by_all(x, edge_index)
    levels = {name: level_of(graph, pooled[name]) for name in SHOWN}
    found = {name: parts(level.edge_index, level.num_nodes) for name, level in levels.items()}
    titles = [f"the graph\n{len(x)} nodes, 1 part"]
    for name, (count, _) in found.items():
        word = "part" if count == 1 else "parts"
        titles.append(f"{name}\n{levels[name].num_nodes} nodes, {count} {word}")
    # Two rows of three: readable on a phone, too.
    figure = Figure(figsize=(7.2, 5.3), layout="constrained")
    axes = list(figure.subplots(2, 3).flat)
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, fontsize=11, color=INK)
        axis.set_aspect("equal")
        axis.set_axis_off()
    edges_on(axes[0], where, edge_index)
    nodes_on(axes[0], where, [PALETTE[0]] * len(where), np.full(len(where), 0.9))
    for axis, (name, level) in zip(axes[1:], levels.items(), strict=True):
        kept = where[level.perm]
        axis.scatter(*where.T, s=5, color="#d4d7dc")
        edges_on(axis, kept, level.edge_index, level.new)
        nodes_on(axis, kept, found[name][1], np.full(len(kept), 0.5))
    figure.savefig(target, dpi=160, facecolor="white")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
