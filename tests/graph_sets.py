"""PyG graphs to make sets of: random ones, and lists of them for hypothesis."""

import torch
from hypothesis import strategies as st
from torch_geometric.data import Data


def random_graph(seed: int, nodes: int, edges: int, label: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(max(nodes, 1), (2, edges if nodes else 0), generator=generator)
    return Data(
        x=torch.rand(nodes, 3, generator=generator),
        edge_index=edge_index,
        edge_attr=torch.rand(edge_index.size(1), 2, generator=generator),
        y=torch.tensor([label]),
    )


@st.composite
def graph_lists(draw: st.DrawFn) -> list[Data]:
    sizes = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=6))
    return [random_graph(seed, *size, label=seed % 3) for seed, size in enumerate(sizes)]
