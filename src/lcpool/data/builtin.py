"""The built-in dataset: small, made from a seed, and decided by what a pooling keeps of the edges.

Every graph is a ring of communities. A community is a coloured hub, half of them red and half blue,
with one to three plain leaves; a path of one or, more often, two plain nodes leads to the next hub:

    hub – plain – plain – hub – plain – hub – plain – plain – hub – …

In class 0 red and blue hubs alternate around the ring; in class 1 the red ones follow each other,
and then the blue ones. So both classes have the same features, degrees and kinds of edges: the
class lies in which hubs are neighbours, two or three hops apart. A pooling that selects nodes and
keeps only the edges between them cuts most of these connections; one that joins the clusters around
the nodes it keeps carries them into the pooled graph.

A few hubs have traded places at random, and some features are noise, so nothing reaches 100 %.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch_geometric.data import Data

from lcpool.data.graphset import GraphSet

PLAIN, RED = 0, 1  # Blue is 2.
COLOURS = 3
NOISE_FEATURES = 3
# The share of paths with two nodes. With these alone most poolings hardly learn, with paths of one
# node alone all learn equally well.
LONG = 2 / 3
# How many trades to expect for each hub.
TRADES = 0.03
# The share of labels that are missing.
MISSING = 0.1


def builtin(seed: int = 0, num_graphs: int = 600) -> GraphSet:
    """Make the built-in dataset; the same seed gives the same graphs on every machine.

    Example:
        >>> builtin()
        GraphSet('builtin', 600 graphs, 22447 nodes, 44894 edges, 6 features, 2 classes)
    """
    random = np.random.RandomState(seed)  # Its streams are frozen for good.
    graphs = [_graph(random, label=number % 2) for number in range(num_graphs)]
    return GraphSet.from_graphs(graphs, "builtin")


def builtin_labels(seed: int = 0, num_graphs: int = 600) -> GraphSet:
    """The same graphs with three labels of 0 or 1 each, of which a tenth is missing.

    "alternating": whether red and blue hubs alternate around the ring, the class of
    :func:`builtin`; "large": whether there are at least eight hubs; "leafy": whether there are more
    than two leaves per hub. To try what takes several labels; no evidence about other data.

    Example:
        >>> builtin_labels().y[:2].tolist()
        [[1.0, 0.0, nan], [0.0, 1.0, 0.0]]
    """
    graphs = builtin(seed, num_graphs)
    owner = torch.searchsorted(graphs.node_ptr[1:], torch.arange(len(graphs.x)), right=True)
    hub = graphs.x[:, NOISE_FEATURES + RED :].sum(1)
    leaf = (graphs.edge_index[0].bincount(minlength=len(graphs.x)) == 1).float()
    hubs, leaves = torch.zeros(2, num_graphs).index_add_(1, owner, torch.stack([hub, leaf]))
    y = torch.stack([graphs.y == 0, hubs >= 8, leaves > 2 * hubs], dim=1).float()
    y[torch.from_numpy(np.random.RandomState([seed, 1]).rand(*y.shape) < MISSING)] = torch.nan
    names = ("alternating", "large", "leafy")
    return replace(
        graphs, name="builtin-labels", y=y, classes=(), task="labels", target_names=names
    )


def _graph(random: np.random.RandomState, label: int) -> Data:
    """One ring, its nodes numbered in the order hubs, first and second nodes of paths, leaves."""
    size = 2 * random.randint(3, 6)
    hubs, first = np.arange(size), np.arange(size, 2 * size)
    long = random.rand(size) < LONG
    second = 2 * size + np.arange(long.sum())
    last = first.copy()
    last[long] = second
    leaf_hubs = np.repeat(hubs, random.randint(1, 4, size))
    leaves = 2 * size + len(second) + np.arange(len(leaf_hubs))
    source = np.concatenate([hubs, first[long], last, leaf_hubs])
    target = np.concatenate([first, second, np.roll(hubs, -1), leaves])
    colour = np.full(2 * size + len(second) + len(leaves), PLAIN)
    # Around the ring red and blue alternate, or are two arcs, but for a few trades.
    sides = hubs % 2 if label == 0 else hubs // (size // 2)
    for _ in range(random.binomial(size, TRADES)):
        one, other = random.choice(size, 2, replace=False)
        sides[[one, other]] = sides[[other, one]]
    colour[hubs] = RED + sides
    # Shuffled, so that no number of a node says what it is.
    place = random.permutation(len(colour))
    colour[place] = colour.copy()
    x = np.hstack([random.randn(len(colour), NOISE_FEATURES), np.eye(COLOURS)[colour]])
    edges = place[np.stack([np.concatenate([source, target]), np.concatenate([target, source])])]
    return Data(
        x=torch.from_numpy(x).float(), edge_index=torch.from_numpy(edges), y=torch.tensor([label])
    )
