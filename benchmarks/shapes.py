"""Random batches of graphs that look like the TU datasets, and single large graphs, from a seed.

The sizes of graphs are drawn log-normally with a dataset's mean and spread and clipped to its
largest graph. A graph is connected and undirected, with the dataset's edges per node, and local:
its nodes have an order, and neighbours stand close to each other in it. With half of the nodes
kept at random, LCPool's pooled graph then has about as many edges a node as on the real data: 8.7
to 8.6 for PROTEINS, 14.4 to 14.7 for DD, 5.4 to 5.3 for NCI1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """What graphs look like.

    Attributes:
        nodes: their mean number of nodes.
        edges: their mean number of undirected edges.
        spread: the standard deviation of the number of nodes.
        largest: the maximum number of nodes.
        local: whether neighbours are close in the order of the nodes, or anywhere.
    """

    nodes: float
    edges: float
    spread: float
    largest: int
    local: bool = True


TU = {
    "PROTEINS": Shape(39.058, 72.816, spread=45.8, largest=620),
    "ENZYMES": Shape(32.633, 62.137, spread=15.3, largest=126),
    "Mutagenicity": Shape(30.318, 30.769, spread=20.1, largest=417),
    "DD": Shape(284.317, 715.659, spread=272.0, largest=5748),
    "NCI1": Shape(29.865, 32.300, spread=13.6, largest=111),
    "COX2": Shape(41.225, 43.445, spread=4.0, largest=56),
}
SINGLE = {
    "100k-degree-4": Shape(100_000, 200_000, spread=0, largest=100_000),
    "20k-degree-14": Shape(20_000, 140_000, spread=0, largest=20_000),
    # Nearly all of a node's 2500 three-hop neighbours are different: the connect step's worst case.
    "20k-degree-14-random": Shape(20_000, 140_000, spread=0, largest=20_000, local=False),
}
SHAPES = TU | SINGLE


@dataclass(frozen=True)
class Batch:
    """Graphs as PyG batches them; ``batch`` is None for a single graph."""

    x: Tensor
    edge_index: Tensor
    batch: Tensor | None
    sizes: list[int]


def draw(shape: Shape, count: int, channels: int, seed: int, device: str = "cpu") -> Batch:
    """``count`` graphs of a shape, with normal features that ask for a gradient."""
    rng = np.random.default_rng(seed)
    sizes = draw_sizes(shape, count, rng)
    starts = np.cumsum(sizes) - sizes
    graphs = [draw_edges(n, shape, rng) + start for n, start in zip(sizes, starts, strict=True)]
    x = rng.standard_normal((sizes.sum(), channels), dtype=np.float32)
    batch = np.repeat(np.arange(count), sizes)
    return Batch(
        torch.from_numpy(x).to(device).requires_grad_(),
        torch.from_numpy(np.ascontiguousarray(np.concatenate(graphs, axis=1))).to(device),
        None if count == 1 else torch.from_numpy(batch).to(device),
        sizes.tolist(),
    )


def draw_sizes(shape: Shape, count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of nodes, log-normal with the shape's mean and spread."""
    variance = math.log1p((shape.spread / shape.nodes) ** 2)
    sizes = rng.lognormal(math.log(shape.nodes) - variance / 2, math.sqrt(variance), count)
    return np.clip(sizes.round().astype(np.int64), 2, shape.largest)


def draw_edges(n: int, shape: Shape, rng: np.random.Generator) -> np.ndarray:
    """The edges of a connected graph, in both directions, sorted."""
    per_node = shape.edges / shape.nodes
    # A local graph has about half of all edges as short as its longest.
    reach = min(2 * math.ceil(per_node), n - 1) if shape.local else n - 1
    possible = n * reach - reach * (reach + 1) // 2
    wanted = min(max(round(n * per_node), n - 1), possible)
    # A spanning tree first, then pairs until there are enough; each as low · n + high.
    high = np.arange(1, n)
    pairs = (high - rng.integers(1, np.minimum(high, reach) + 1)) * n + high
    while pairs.size < wanted:
        low = rng.integers(0, n, wanted - pairs.size)
        high = low + rng.integers(1, reach + 1, low.size)
        pairs = np.union1d(pairs, (low * n + high)[high < n])
    low, high = np.divmod(pairs, n)
    edges = np.stack([np.concatenate([low, high]), np.concatenate([high, low])])
    return edges[:, np.lexsort(edges[::-1])]


def draw_scale_free(n: int, m: int, rng: np.random.Generator) -> np.ndarray:
    """The edges of a Barabási–Albert graph, in both directions, sorted: a node brings m of them.

    An end of an earlier edge, drawn at random, is a node drawn by its degree. So edge e is from
    node e // m to a drawn end: an even number 2d is the node that brought edge d, an odd one the
    node that edge d leads to, which was drawn in turn. Pairs that are drawn twice count once.
    """
    low = np.repeat(np.arange(n), m)
    drawn = rng.integers(0, 2 * np.arange(low.size) + 1)
    while (odd := drawn % 2 == 1).any():
        drawn[odd] = drawn[drawn[odd] // 2]
    pairs = np.stack([low, low[drawn // 2]])
    pairs = pairs[:, pairs[0] != pairs[1]]
    keys = np.unique(np.concatenate([pairs[0] * n + pairs[1], pairs[1] * n + pairs[0]]))
    return np.stack(np.divmod(keys, n))
