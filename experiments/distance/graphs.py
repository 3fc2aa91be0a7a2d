"""Rings of coloured hubs: one family where connections must matter, one where they must not.

A graph is a ring of 4, 6 or 8 hubs, half of them red and half blue, each joined to the next by a
path of ``distance`` edges, whose inner nodes are plain:

    hub – plain – plain – plain – hub – plain – plain – plain – hub – …      (distance 4)

**far**: in class 0 red and blue alternate around the ring, in class 1 the red hubs follow each
other, and then the blue ones. Both classes have the same nodes, the same degrees and the same
surroundings of every node up to half the distance, so that only what relates two hubs decides.

**near**: the same rings with their hubs coloured in any order, and not half and half: the class is
which colour has more hubs. The nodes alone decide it, whatever the edges.
"""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from lcpool.data.graphset import GraphSet

COLOURS = 3  # plain, red, blue
NOISE = 2  # features that say nothing


def far(distance: int, seed: int, num_graphs: int = 400) -> GraphSet:
    """Rings whose class is the order of the colours."""
    random = np.random.RandomState([seed, distance])
    graphs = []
    for number in range(num_graphs):
        size, label = 2 * random.randint(2, 5), number % 2
        hubs = np.arange(size)
        sides = hubs % 2 if label == 0 else hubs // (size // 2)
        graphs.append(ring(1 + np.roll(sides, random.randint(size)), distance, label, random))
    return GraphSet.from_graphs(graphs, f"far-{distance}")


def near(distance: int, seed: int, num_graphs: int = 400) -> GraphSet:
    """Rings whose class is the more frequent colour."""
    random = np.random.RandomState([seed, 100 + distance])
    graphs = []
    for number in range(num_graphs):
        size, label = 2 * random.randint(2, 5), number % 2
        many = random.randint(size // 2 + 1, size + 1)
        sides = np.where(np.arange(size) < many, label, 1 - label)
        graphs.append(ring(1 + random.permutation(sides), distance, label, random))
    return GraphSet.from_graphs(graphs, f"near-{distance}")


def ring(colours: np.ndarray, distance: int, label: int, random: np.random.RandomState) -> Data:
    """One ring, its nodes in random order."""
    num_nodes = distance * len(colours)
    node = random.permutation(num_nodes)
    colour = np.zeros(num_nodes, int)
    colour[node[::distance]] = colours
    x = np.hstack([np.eye(COLOURS)[colour], random.randn(num_nodes, NOISE)])
    pairs = np.stack([node, np.roll(node, -1)])
    return Data(
        x=torch.from_numpy(x).float(),
        edge_index=torch.from_numpy(np.hstack([pairs, pairs[::-1]])),
        y=torch.tensor([label]),
    )
