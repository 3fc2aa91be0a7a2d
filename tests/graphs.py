"""Random graphs for property tests, and the dense matrices they are checked against."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor


@dataclass(frozen=True)
class Example:
    """A batch of small graphs. ``seed`` settles every random number drawn for it."""

    sizes: tuple[int, ...]
    edge_index: Tensor
    seed: int

    @property
    def num_nodes(self) -> int:
        return sum(self.sizes)

    @property
    def batch(self) -> Tensor:
        return torch.arange(len(self.sizes)).repeat_interleave(torch.tensor(self.sizes))

    @property
    def A(self) -> Tensor:  # noqa: N802 - the paper's name
        """The adjacency matrix; duplicate edges add up."""
        return dense(self.edge_index, self.num_nodes)

    def features(self, channels: int = 8, dtype: torch.dtype = torch.float64) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randn(self.num_nodes, channels, generator=generator, dtype=dtype)

    def weights(self) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed + 1)
        return torch.rand(self.edge_index.size(1), generator=generator, dtype=torch.float64) + 0.1

    def perm(self) -> Tensor:
        """Some nodes in some order."""
        generator = torch.Generator().manual_seed(self.seed + 2)
        keep = torch.randint(0, self.num_nodes + 1, (), generator=generator)
        return torch.randperm(self.num_nodes, generator=generator)[:keep]


def dense(edge_index: Tensor, num_nodes: int, weight: Tensor | None = None) -> Tensor:
    weight = torch.ones(edge_index.size(1), dtype=torch.float64) if weight is None else weight
    A = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    return A.index_put((edge_index[0], edge_index[1]), weight.double(), accumulate=True)


def edges_of(matrix: Tensor) -> Tensor:
    """The positions of non-zero entries, sorted."""
    return matrix.nonzero().t()


@st.composite
def graphs(draw: st.DrawFn, undirected: bool | None = None, multi: bool = True) -> Example:
    """Batches of directed or undirected graphs, disconnected ones, empty ones and multi-graphs."""
    sizes = tuple(draw(st.lists(st.integers(0, 7), min_size=1, max_size=4)))
    symmetric = draw(st.booleans()) if undirected is None else undirected
    edges: list[tuple[int, int]] = []
    start = 0
    for size in sizes:
        if size:
            node = st.integers(start, start + size - 1)
            edges += draw(st.lists(st.tuples(node, node), max_size=2 * size, unique=not multi))
        start += size
    if not multi:
        edges = [(a, b) for a, b in edges if a != b]
    if symmetric:
        edges += [(b, a) for a, b in edges if a != b]
        edges = edges if multi else sorted(set(edges))
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t().contiguous()
    return Example(sizes, edge_index, draw(st.integers(0, 2**16)))
