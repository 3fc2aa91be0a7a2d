"""Time of a whole network with three poolings beside that with PyG's TopK.

    python benchmarks/networks.py --datasets PROTEINS ENZYMES --device cpu --threads 1

The network is the one people start from with PyG's TopK: three times a GraphConv of width 128, ReLU
and a pooling at ratio 0.8; the sum of the three readouts (max ‖ mean); three linear layers. A step
is the forward and the backward pass of one batch of 60 graphs. What a pooling costs is more than
its own time: the convolutions behind it work on the edges that it leaves. So the edges of each
level stand beside the times. All networks take steps in turns; times are medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from operators import machine, print_table, show_machine, wait
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

import lcpool
from lcpool.data import load_dataset

WIDTH, RATIO, BATCH = 128, 0.8, 60
POOLINGS: dict[str, Callable[[], nn.Module]] = {
    "PyG TopKPooling": lambda: pyg.TopKPooling(WIDTH, RATIO),
    "PyG SAGPooling": lambda: pyg.SAGPooling(WIDTH, RATIO),
    "TopKPooling": lambda: lcpool.TopKPooling(WIDTH, RATIO),
    "SAGPooling": lambda: lcpool.SAGPooling(WIDTH, RATIO),
    "LCPooling": lambda: lcpool.LCPooling(WIDTH, RATIO),
    "CellPooling": lambda: lcpool.CellPooling(WIDTH, RATIO),
    "CellPooling, TopK's score": lambda: lcpool.CellPooling(
        WIDTH, RATIO, lcpool.ProjectionScore(WIDTH)
    ),
    "KMISPooling": lambda: lcpool.KMISPooling(WIDTH),
}


class Network(nn.Module):
    """Three convolutions, each with a pooling behind it, and a sum of readouts."""

    def __init__(self, features: int, classes: int, pool: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(pyg.GraphConv(c, WIDTH) for c in (features, WIDTH, WIDTH))
        self.pools = nn.ModuleList(pool() for _ in self.convs)
        self.post = nn.Sequential(
            nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 64), nn.ReLU(),
            nn.Linear(64, classes),
        )  # fmt: skip
        self.edges = [0] * len(self.convs)

    def forward(self, data: Batch) -> Tensor:
        x, edges, batch, total = data.x, data.edge_index, data.batch, 0.0
        for level, (conv, pool) in enumerate(zip(self.convs, self.pools, strict=True)):
            x = conv(x, edges).relu()
            x, edges, _, batch, *_ = pool(x, edges, batch=batch)
            self.edges[level] = edges.size(1)
            size = data.num_graphs
            readout = pyg.global_max_pool(x, batch, size), pyg.global_mean_pool(x, batch, size)
            total = total + torch.cat(readout, dim=1)
        out: Tensor = self.post(total)
        return out


def batch_of(name: str, device: str) -> tuple[Batch, int]:
    """The first graphs of a shuffled dataset, and the number of its classes."""
    graphs = load_dataset(name)
    chosen = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0))[:BATCH]
    data = []
    for i in chosen:
        one = graphs.batch(i.view(1))
        data.append(Data(x=one.graph.x, edge_index=one.graph.edge_index, y=one.target))
    return Batch.from_data_list(data).to(device), graphs.num_outputs


def step(network: Network, data: Batch, device: str) -> float:
    """Milliseconds of one step."""
    network.zero_grad()
    wait(device)
    started = time.perf_counter()
    F.cross_entropy(network(data), data.y.view(-1)).backward()
    wait(device)
    return 1e3 * (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["PROTEINS", "ENZYMES", "NCI1"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    show_machine(machine(args.threads, args.device))
    for name in args.datasets:
        data, classes = batch_of(name, args.device)
        torch.manual_seed(0)
        networks = {
            title: Network(data.num_features, classes, pool).to(args.device)
            for title, pool in POOLINGS.items()
        }
        times: dict[str, list[float]] = {title: [] for title in networks}
        for turn in range(3 + args.repeats):
            for title, network in networks.items():
                taken = step(network, data, args.device)
                if turn >= 3:
                    times[title].append(taken)
        medians = {title: statistics.median(taken) for title, taken in times.items()}
        first = medians["PyG TopKPooling"]
        rows = [
            (title, f"{medians[title]:.2f}", f"{medians[title] / first:.2f}",
             *(f"{count / data.num_edges:.2f}" for count in network.edges))
            for title, network in networks.items()
        ]  # fmt: skip
        header = ("pooling", "ms", "/ TopK", "edges 1", "edges 2", "edges 3")
        print_table(f"{name}, {BATCH} graphs: a step, and edges after / before", header, rows)


if __name__ == "__main__":
    main()
