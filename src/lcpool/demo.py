"""What poolings do to a graph and to accuracy, on built-in data."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.utils import to_scipy_sparse_matrix

from lcpool import pool
from lcpool.data import builtin
from lcpool.train import Result, train

CHANNELS = 16
OPERATORS: dict[str, Callable[[], nn.Module]] = {
    "TopKPooling": lambda: pool.TopKPooling(CHANNELS),
    "SAGPooling": lambda: pool.SAGPooling(CHANNELS),
    "ASAPooling": lambda: pool.ASAPooling(CHANNELS),
    "DiffPooling": lambda: pool.DiffPooling(CHANNELS, 18),
    "MinCutPooling": lambda: pool.MinCutPooling(CHANNELS, 18),
    "LCPooling": lambda: pool.LCPooling(CHANNELS),
    "LCPooling*": lambda: pool.LCPooling(CHANNELS, cluster=GCNConv(CHANNELS, CHANNELS)),
    "CellPooling": lambda: pool.CellPooling(CHANNELS),
}

COMPARED = ("nopool", "topkpool", "sagpool", "asapool", "mincutpool", "lcpool", "cellpool")
# Fewer graphs, narrower and shorter than by default, so that a CPU needs about half a minute.
GRAPHS = 400
RUNS = 3
EPOCHS = 20
HIDDEN = 32
LR = 2e-3


def ring_of_cliques(cliques: int = 9, size: int = 4) -> tuple[Tensor, Tensor]:
    """Random features ``[cliques · size, CHANNELS]`` and edges of a graph of two scales."""
    edges = [
        (c * size + i, c * size + j) for c in range(cliques) for i in range(size) for j in range(i)
    ]
    edges += [(c * size, (c + 1) % cliques * size + 1) for c in range(cliques)]
    half = torch.tensor(edges).t()
    x = torch.randn(cliques * size, CHANNELS, generator=torch.Generator().manual_seed(0))
    return x, torch.cat([half, half.flip(0)], dim=1)


def num_components(edge_index: Tensor, num_nodes: int) -> int:
    """The number of connected components."""
    return int(connected_components(to_scipy_sparse_matrix(edge_index, num_nodes=num_nodes))[0])


def pooled_by_all(x: Tensor, edge_index: Tensor) -> dict[str, pool.Pooled]:
    """The graph pooled by every operator, untrained."""
    out = {}
    for name, make in OPERATORS.items():
        torch.manual_seed(0)
        out[name] = make()(x, edge_index)
    return out


def show_graph() -> None:
    """Print a table with a row per operator: what it makes of the ring of cliques."""
    x, edge_index = ring_of_cliques()
    table = Table(
        title=f"A ring of 9 cliques: {x.size(0)} nodes, {edge_index.size(1)} edges, 1 part"
    )
    for heading in ("operator", "nodes", "edges", "edge weights", "parts", "auxiliary losses"):
        table.add_column(heading, justify="left" if heading == "operator" else "right")
    for name, out in pooled_by_all(x, edge_index).items():
        parts = num_components(out.edge_index, out.x.size(0))
        losses = ", ".join(f"{key} {value.item():.3f}" for key, value in out.losses.items())
        weights = "-"
        if out.edge_attr is not None and out.edge_attr.numel():
            weights = f"{out.edge_attr.min():.2f} … {out.edge_attr.max():.2f}"
        table.add_row(
            name, str(out.x.size(0)), str(out.edge_index.size(1)), weights,
            f"[green]{parts}[/]" if parts == 1 else f"[red]{parts}[/]", losses or "-",
        )  # fmt: skip
    console = Console()
    console.print(table)
    console.print(
        "Untrained layers, ratio 0.5 (or 18 clusters). TopK and SAG only keep edges between kept "
        "nodes: the ring breaks.\nLCPool connects kept nodes whose clusters touch: the ring stays "
        "in one part. CellPool does so for every graph and ratio."
    )


def show_ranking() -> None:
    """Train several poolings, progress on stderr, and print their ranking on stdout."""
    started, graphs = time.perf_counter(), builtin(num_graphs=GRAPHS)
    console = Console(highlight=False)
    console.print(
        f"{len(graphs)} built-in graphs: rings of coloured hubs. The two classes differ in which\n"
        f"hubs are neighbours. Hierarchical GCN, {HIDDEN} channels, {EPOCHS} epochs,\n"
        f"{RUNS} runs, each with its own split."
    )
    results = []
    for number, name in enumerate(COMPARED, 1):
        print(f"training {name} ({number} of {len(COMPARED)})", file=sys.stderr)
        # Compile its kernels before its training is timed.
        train(graphs[:40], name, runs=RUNS, epochs=1, hidden=HIDDEN, split="fresh", device="cpu")
        # Splits are the same for all poolings.
        results.append(train(graphs, name, runs=RUNS, epochs=EPOCHS, hidden=HIDDEN, lr=LR,
                             split="fresh", device="cpu"))  # fmt: skip
    table = Table("", "pooling", "test accuracy", "training", box=SIMPLE_HEAD)
    for column in table.columns[2:]:
        column.justify = "right"
    for place, result in enumerate(sorted(results, key=Result.mean, reverse=True), 1):
        accuracy = f"{result.mean():.1f} ± {result.std():4.1f} %"
        table.add_row(str(place), result.architecture.pool, accuracy, f"{result.seconds:.1f} s")
    console.print(table)
    console.print(
        f"Took {time.perf_counter() - started:.0f} s. The built-in graphs are made to show what "
        "keeping connections is\nworth. They are no evidence about other data, and with "
        f"{RUNS} runs a few points are\nnoise. For real data: "
        "lcpool train PROTEINS --pool lcpool"
    )
