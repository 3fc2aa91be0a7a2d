"""Where nodes are drawn, and in which colour: the same each time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lcpool.extras import needs
from lcpool.view.levels import Level

with needs("lab"):
    import networkx as nx
    import scipy  # noqa: F401 - networkx imports it when it is first needed

Array = NDArray[np.float64]

# Kamada and Kawai's layout shows symmetry best, in a time that grows with the cube of the nodes.
SMALL, FINE, LARGE = 100, 300, 2000
# New edges are bent, by this share of their length, where a node is as near to them as this and
# there are few: at most so many per node.
BEND, NEAR, FEW = 0.2, 0.15, 3
GAP = 1.5  # between connected parts


def layout(edge_index: Tensor, num_nodes: int) -> Array:
    """A place for each node, ``[num_nodes, 2]``; an edge is about 1 long.

    Connected parts are laid out one by one, the largest first, and put side by side.
    """
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from((u, v) for u, v in edge_index.t().tolist() if u != v)
    parts = sorted(nx.connected_components(graph), key=lambda part: (-len(part), min(part)))
    where = np.zeros((num_nodes, 2))
    boxes = []
    for part in parts:
        members = sorted(part)
        where[members] = place = _upright(_connected(graph.subgraph(members), members))
        boxes.append((members, np.ptp(place, axis=0) if len(place) else np.zeros(2)))
    _side_by_side(where, boxes)
    return where


def _connected(graph: Any, members: list[int]) -> Array:
    """A place for each node of a connected graph."""
    n = len(members)
    if n < 3:
        return np.array([[float(i), 0.0] for i in range(n)])
    if n <= FINE:
        found = _least_stress(graph)
    elif n <= LARGE:
        found = nx.spring_layout(graph, seed=0)
    else:
        found = nx.spectral_layout(graph)
    place = np.array([found[v] for v in members])
    ends = np.array([(u, v) for u, v in graph.edges])
    row = {v: i for i, v in enumerate(members)}
    rows = np.vectorize(row.__getitem__)(ends)
    length = np.linalg.norm(place[rows[:, 0]] - place[rows[:, 1]], axis=1)
    middle = float(np.median(length))
    return np.asarray(place / middle if middle > 0 else place)


def _least_stress(graph: Any) -> dict[int, Array]:
    """Kamada and Kawai's layout: of a small graph the best of three, which start differently.

    From one start, two rings of a molecule often end on top of each other.
    """
    starts = [nx.circular_layout(graph)]
    if len(graph) <= SMALL:
        starts.append(nx.spring_layout(graph, seed=0))
        if nx.check_planarity(graph)[0]:
            starts.append(nx.planar_layout(graph))
    found = [nx.kamada_kawai_layout(graph, pos=start) for start in starts]
    stress = [_stress(graph, layout) for layout in found] if len(found) > 1 else [0.0]
    return dict(found[int(np.argmin(stress))])


def _stress(graph: Any, found: dict[int, Array]) -> float:
    """How far distances in the layout are from those in the graph, scaled to fit best."""
    place = np.array([found[v] for v in graph])
    length = np.linalg.norm(place[:, None] - place[None], axis=2)
    apart = ~np.eye(len(place), dtype=bool)
    ratio = length[apart] / nx.floyd_warshall_numpy(graph)[apart]
    return float(((ratio * ratio.sum() / (ratio**2).sum() - 1) ** 2).sum())


def _upright(place: Array) -> Array:
    """The same places, turned so that they are widest from left to right."""
    centred = place - place.mean(axis=0)
    if len(place) < 3:
        return np.asarray(centred)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes * np.where(np.abs(axes).max(axis=1) == axes.max(axis=1), 1, -1)[:, None]
    return np.asarray(centred @ axes.T)


def _side_by_side(where: Array, boxes: list[tuple[list[int], Array]]) -> None:
    """Move the parts into rows, about as wide together as they are high."""
    area = sum((box[0] + GAP) * (box[1] + GAP) for _, box in boxes)
    widest = max([box[0] for _, box in boxes], default=0.0)
    limit = max(widest, 1.2 * math.sqrt(area))
    x = y = height = 0.0
    for members, box in boxes:
        if x > 0 and x + box[0] > limit:
            x, y, height = 0.0, y - height - GAP, 0.0
        left, bottom = where[members].min(axis=0)
        where[members] += np.array([x - left, y - bottom - box[1]])
        x, height = x + box[0] + GAP, max(height, box[1])


def places(level: Level, before: Array) -> Array:
    """Where the pooled nodes are drawn, from where the nodes before are.

    A kept node stays where it was, a cluster is in the middle of its nodes; one that no node
    belongs to most is in their middle by their weights in it.
    """
    if level.perm is not None:
        return np.asarray(before[level.perm.numpy()])
    if level.labels is None or level.assignment is None or not len(before):
        return layout(level.edge_index, level.num_nodes)
    labels = level.labels.numpy()
    member = labels >= 0
    counts = np.bincount(labels[member], minlength=level.num_nodes)
    S = level.assignment
    weight = torch.ones(S.node_index.numel()) if S.weight is None else S.weight.abs()
    entries = S.node_index.numpy(), S.cluster_index.numpy(), weight.double().numpy()
    found = np.zeros((level.num_nodes, 2))
    for axis in range(2):
        sums = np.bincount(labels[member], before[member, axis], level.num_nodes)
        soft = np.bincount(entries[1], entries[2] * before[entries[0], axis], level.num_nodes)
        total = np.bincount(entries[1], entries[2], level.num_nodes)
        found[:, axis] = np.where(
            counts > 0, sums / np.maximum(counts, 1), soft / np.where(total > 0, total, 1)
        )
    extent = float(np.ptp(before, axis=0).max())
    return apart(found, max(0.7, 0.5 * extent / math.sqrt(max(level.num_nodes, 1))))


def apart(place: Array, distance: float, rounds: int = 100) -> Array:
    """The same places, moved until no two are much nearer than ``distance``."""
    place = place.copy()
    turn = np.arange(len(place)) * 2.399963  # golden angle: those in one place leave it all ways
    for _ in range(rounds if 1 < len(place) <= LARGE else 0):
        away = place[:, None] - place[None]
        length = np.linalg.norm(away, axis=2)
        near = (length < distance) & ~np.eye(len(place), dtype=bool)
        if not near.any():
            break
        same = near & (length < 1e-9)
        ways = np.stack([np.cos(turn), np.sin(turn)], axis=1)
        unit = np.where(same[..., None], ways[:, None], away / np.maximum(length, 1e-9)[..., None])
        push = np.where(near, (distance - length) / 2, 0.0)
        place += (
            0.8 * (push[..., None] * unit).sum(axis=1) / np.maximum(near.sum(axis=1), 1)[:, None]
        )
    return place


def bent(where: Array, joined: NDArray[np.int64]) -> list[Array]:
    """The points of the line that is drawn for each new edge: an arc where a node is in its way.

    Else the new edge from one end of a path to the other would be hidden by the edges between.
    """
    start, end = where[joined[:, 0]], where[joined[:, 1]]
    straight = list(np.stack([start, end], axis=1))
    if not 0 < len(joined) <= FEW * len(where) or len(where) > LARGE:
        return straight
    along = (end - start)[:, None]
    away = where[None] - start[:, None]
    share = (away * along).sum(2) / np.maximum((along**2).sum(2), 1e-12)
    aside = np.linalg.norm(away - share[..., None] * along, axis=2)
    over = (share > 0.05) & (share < 0.95) & (aside < NEAR)
    over[np.arange(len(joined))[:, None], joined] = False
    t = np.linspace(0, 1, 17)[:, None]
    for edge in np.flatnonzero(over.any(1)):
        (a, b), (x, y) = straight[edge], along[edge, 0]
        straight[edge] = a + t * (b - a) + 4 * t * (1 - t) * BEND * np.array([-y, x])
    return straight


def cell_colours(level: Level, colours: int) -> list[int]:
    """A colour from 0 on for each pooled node: neighbours differ, as far as there are colours."""
    neighbours: list[set[int]] = [set() for _ in range(level.num_nodes)]
    for u, v in level.edge_index.t().tolist():
        if u != v:
            neighbours[u].add(v)
            neighbours[v].add(u)
    chosen = [-1] * level.num_nodes
    for node, around in enumerate(neighbours):
        used = [0] * colours
        for other in around:
            if chosen[other] >= 0:
                used[chosen[other]] += 1
        chosen[node] = min(range(colours), key=lambda c: (used[c], (c - node) % colours))
    return chosen
