"""Small graphs and settings with which an estimator is fitted in a fraction of a second."""

import networkx as nx
import numpy as np
from targets import random_graphs

QUICK = {"epochs": 2, "hidden": 4, "device": "cpu"}
GRAPHS = random_graphs(40)
# The share of red nodes, which can be learnt from the features.
RED = np.array([float(graph.x[:, 0].mean()) for graph in GRAPHS])
WORDS = np.where(RED > 0.5, "red", "blue")
THREE = np.digitize(RED, [0.4, 0.6])
LABELS = np.stack([RED > 0.5, RED > 0.3, RED < 0.8], axis=1).astype(int)
VALUES = np.stack([50 + 10 * RED, 1000 - 100 * RED], axis=1)


def molecule(size, atoms):
    """A ring of networkx whose nodes have these atoms in turn."""
    ring = nx.cycle_graph(size)
    nx.set_node_attributes(ring, {v: atoms[v % len(atoms)] for v in ring}, "atom")
    return ring
