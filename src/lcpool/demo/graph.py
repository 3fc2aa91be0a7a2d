"""Pool a built-in graph with every operator and show what comes out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from lcpool.pool import (
    ASAPooling,
    DiffPooling,
    LCPooling,
    MinCutPooling,
    Pooled,
    SAGPooling,
    TopKPooling,
)

CHANNELS = 16

OPERATORS: dict[str, Callable[[], nn.Module]] = {
    "TopKPooling": lambda: TopKPooling(CHANNELS),
    "SAGPooling": lambda: SAGPooling(CHANNELS),
    "ASAPooling": lambda: ASAPooling(CHANNELS),
    "DiffPooling": lambda: DiffPooling(CHANNELS, 18),
    "MinCutPooling": lambda: MinCutPooling(CHANNELS, 18),
    "LCPooling": lambda: LCPooling(CHANNELS),
    "LCPooling*": lambda: LCPooling(CHANNELS, cluster=GCNConv(CHANNELS, CHANNELS)),
}


def ring_of_cliques(cliques: int = 9, size: int = 4) -> tuple[Tensor, Tensor]:
    """A graph with structure at two scales, and random features.

    Returns:
        Features ``[cliques · size, CHANNELS]`` and the edges, both directions.
    """
    edges = [
        (c * size + i, c * size + j) for c in range(cliques) for i in range(size) for j in range(i)
    ]
    edges += [(c * size, (c + 1) % cliques * size + 1) for c in range(cliques)]
    half = torch.tensor(edges).t()
    x = torch.randn(cliques * size, CHANNELS, generator=torch.Generator().manual_seed(0))
    return x, torch.cat([half, half.flip(0)], dim=1)


def num_components(edge_index: Tensor, num_nodes: int) -> int:
    """The number of connected components: nodes take the smallest label around until none can."""
    label = torch.arange(num_nodes)
    while True:
        least = label.scatter_reduce(0, edge_index[1], label[edge_index[0]], "amin")
        least = least.scatter_reduce(0, edge_index[0], label[edge_index[1]], "amin")
        if torch.equal(least, label):
            return int((label == torch.arange(num_nodes)).sum())
        label = least


def pooled_by_all(x: Tensor, edge_index: Tensor) -> dict[str, Pooled]:
    """The graph pooled by every operator, untrained."""
    out = {}
    for name, make in OPERATORS.items():
        torch.manual_seed(0)
        out[name] = make()(x, edge_index)
    return out


def show_graph() -> None:
    """Print a table with a row per operator."""
    x, edge_index = ring_of_cliques()
    table = Table(
        title=f"A ring of 9 cliques: {x.size(0)} nodes, {edge_index.size(1)} edges, 1 part"
    )
    for heading in ("operator", "nodes", "edges", "edge weights", "parts", "auxiliary losses"):
        table.add_column(heading, justify="left" if heading == "operator" else "right")
    for name, out in pooled_by_all(x, edge_index).items():
        parts = num_components(out.edge_index, out.x.size(0))
        losses = ", ".join(f"{key} {value.item():.3f}" for key, value in out.losses.items())
        weights = "-" if out.edge_attr is None else weight_range(out.edge_attr.detach())
        table.add_row(
            name, str(out.x.size(0)), str(out.edge_index.size(1)), weights,
            f"[green]{parts}[/]" if parts == 1 else f"[red]{parts}[/]", losses or "-",
        )  # fmt: skip
    console = Console()
    console.print(table)
    console.print(
        "Untrained layers, ratio 0.5 (or 18 clusters). TopK and SAG only keep edges between kept "
        "nodes: the ring breaks.\nLCPool connects kept nodes whose clusters touch: the ring stays "
        "in one part."
    )


def weight_range(weights: Tensor) -> str:
    """The smallest and the largest weight."""
    return f"{weights.min():.2f} … {weights.max():.2f}" if weights.numel() else "-"
