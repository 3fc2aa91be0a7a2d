"""Draw what pooling does to a ring of cliques.

``python examples/picture.py`` writes ``pooled.png`` into the current folder, and
``python examples/picture.py docs/pooled.png`` the picture in the README.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from lcpool.demo import num_components, pooled_by_all, ring_of_cliques

SHOWN = ("TopKPooling", "SAGPooling", "ASAPooling", "LCPooling")
PARTS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000"]


def positions(cliques: int = 9, size: int = 4) -> torch.Tensor:
    places = []
    for c in range(cliques):
        around = 2 * math.pi * c / cliques
        for i in range(size):
            turn = around + math.pi / 2 - 2 * math.pi * i / size
            places.append((math.cos(around) + 0.17 * math.cos(turn),
                           math.sin(around) + 0.17 * math.sin(turn)))  # fmt: skip
    return torch.tensor(places)


def part_of(edge_index: torch.Tensor, num_nodes: int) -> list[int]:
    label = torch.arange(num_nodes)
    for _ in range(num_nodes):
        label = label.scatter_reduce(0, edge_index[1], label[edge_index[0]], "amin")
    return label.unique(return_inverse=True)[1].tolist()


def draw(axis, title, where, edge_index, ghosts=None):
    if ghosts is not None:
        axis.scatter(*ghosts.T, s=9, color="#dddddd", zorder=1)
    for a, b in edge_index.t().tolist():
        if a < b:
            axis.plot(*where[[a, b]].T, color="#bbbbbb", lw=0.9, zorder=2)
    parts = part_of(edge_index, where.size(0))
    axis.scatter(*where.T, s=34, c=[PARTS[p % len(PARTS)] for p in parts], zorder=3)
    count = num_components(edge_index, where.size(0))
    axis.set_title(
        f"{title}\n{where.size(0)} nodes, {count} part{'s' if count > 1 else ''}", size=10
    )
    axis.set_aspect("equal")
    axis.axis("off")


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw what pooling does to a ring of cliques.")
    parser.add_argument("target", nargs="?", type=Path, default="pooled.png", help="file to write")
    target = parser.parse_args().target
    x, edge_index = ring_of_cliques()
    where = positions()
    pooled = pooled_by_all(x, edge_index)
    figure, axes = plt.subplots(1, 1 + len(SHOWN), figsize=(13, 3.1))
    draw(axes[0], "the graph", where, edge_index)
    for axis, name in zip(axes[1:], SHOWN, strict=True):
        out = pooled[name]
        draw(axis, name, where[out.perm], out.edge_index, ghosts=where)
    figure.savefig(target, dpi=110, bbox_inches="tight", facecolor="white")
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
