"""Generated graphs with labels and values; no dataset of several labels is at hand.

Each graph is a random tree with some edges more. Its labels are whether it has more red nodes than
others, an even number of nodes, a node of degree four; its values follow from the share of red
nodes.
"""

from __future__ import annotations

import math

import torch
from torch_geometric.data import Data

from lcpool.data import GraphSet


def random_graphs(n: int = 60, seed: int = 0) -> list[Data]:
    """Graphs without targets, of 4 to 11 nodes."""
    random = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(n):
        size = int(torch.randint(4, 12, (1,), generator=random))
        parent = (torch.rand(size - 1, generator=random) * torch.arange(1, size)).long()
        more = torch.randint(size, (2, 3), generator=random)
        more = more[:, more[0] != more[1]]
        one_way = torch.cat([torch.stack([torch.arange(1, size), parent]), more], dim=1)
        edges = torch.cat([one_way, one_way.flip(0)], dim=1).unique(dim=1)
        red = (torch.rand(size, generator=random) < 0.5).float()
        found.append(Data(x=torch.stack([red, 1 - red], dim=1), edge_index=edges))
    return found


def with_labels(n: int = 60, missing: float = 0.2, seed: int = 0) -> GraphSet:
    """Graphs with three labels each, of which a share is missing."""
    rows, random = random_graphs(n, seed), torch.Generator().manual_seed(seed + 1)
    for graph in rows:
        degree = graph.edge_index[0].bincount(minlength=graph.num_nodes)
        red = graph.x[:, 0].mean()
        y = torch.tensor(
            [float(red > 0.5), float(graph.num_nodes % 2 == 0), float(degree.max() >= 4)]
        )
        y[torch.rand(3, generator=random) < missing] = math.nan
        graph.y = y.unsqueeze(0)
    return GraphSet.from_graphs(rows, "several", task="labels")


def with_values(n: int = 60, missing: float = 0.0, seed: int = 0, values: int = 2) -> GraphSet:
    """Graphs with one or two numbers each, far from zero and of different spread."""
    rows, random = random_graphs(n, seed), torch.Generator().manual_seed(seed + 1)
    for graph in rows:
        red = float(graph.x[:, 0].mean())
        y = torch.tensor([50 + 10 * red, 1000 + 100 * red**2])[:values]
        y[torch.rand(values, generator=random) < missing] = math.nan
        graph.y = y.unsqueeze(0)
    return GraphSet.from_graphs(rows, "numbers", task="values")
