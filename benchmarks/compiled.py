"""Time of a network under ``torch.compile`` beside the same network in eager mode.

    python benchmarks/compiled.py --dataset PROTEINS --device cpu --threads 1

The network is a GraphConv of width 128, a pooling at ratio 0.5, another GraphConv and a readout. It
is compiled with sizes that may change (``dynamic=True``), by default and with
``mode="reduce-overhead"``, which on a GPU replays captured launches where it can. A step is the
forward and the backward pass of a batch of 32 graphs; batches differ in size. The first step of a
mode compiles. All take steps in turns; times are medians. The largest difference of a loss from
that of eager mode, relative to it, stands beside them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable

import torch
import torch_geometric.nn as pyg
from operators import machine, print_table, show_machine, wait
from torch import Tensor, nn

import lcpool
from lcpool.data import load_dataset
from lcpool.graph.graph import Graph

WIDTH, BATCH, BATCHES = 128, 32, 6
POOLINGS: dict[str, Callable[[], nn.Module]] = {
    "TopKPooling": lambda: lcpool.TopKPooling(WIDTH),
    "SAGPooling": lambda: lcpool.SAGPooling(WIDTH),
    "LCPooling": lambda: lcpool.LCPooling(WIDTH),
    "CellPooling": lambda: lcpool.CellPooling(WIDTH),
}
MODES = {"eager": None, "compiled": "default", "reduce-overhead": "reduce-overhead"}


class Network(nn.Module):
    """A convolution, a pooling, a convolution, and the sum of a readout."""

    def __init__(self, features: int, pool: nn.Module) -> None:
        super().__init__()
        self.first, self.second = pyg.GraphConv(features, WIDTH), pyg.GraphConv(WIDTH, WIDTH)
        self.pool = pool

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        out = self.pool(self.first(x, edge_index).relu(), edge_index, batch=batch)
        x = self.second(out.x, out.edge_index).relu()
        return pyg.global_mean_pool(x, out.batch, BATCH).square().mean()


def step(call: Callable[..., Tensor], graph: Graph, device: str) -> tuple[float, float]:
    """Seconds of one step, and the loss."""
    wait(device)
    started = time.perf_counter()
    loss = call(graph.x, graph.edge_index, graph.batch)
    loss.backward()
    wait(device)
    return time.perf_counter() - started, loss.item()


def main() -> None:
    """Compile, take steps in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="PROTEINS")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--turns", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    show_machine(machine(args.threads, args.device))
    graphs = load_dataset(args.dataset).to(args.device)
    parts = torch.arange(BATCH * BATCHES).view(BATCHES, BATCH)
    batches = [graphs.batch(part.to(args.device)).graph for part in parts]
    rows = []
    for title, pool in POOLINGS.items():
        torch.manual_seed(0)
        torch._dynamo.reset()
        network = Network(graphs.num_features, pool()).to(args.device)
        calls = {
            name: torch.compile(network, mode=mode, dynamic=True) if mode else network
            for name, mode in MODES.items()
        }
        first: dict[str, float] = {}
        taken, losses = defaultdict(list), defaultdict(list)
        for turn in range(1 + args.turns):
            for graph in batches:
                for name, call in calls.items():
                    seconds, loss = step(call, graph, args.device)
                    first.setdefault(name, seconds)
                    if turn:
                        taken[name].append(1e3 * seconds)
                    losses[name].append(loss)
        eager = statistics.median(taken["eager"])
        for name in MODES:
            pairs = zip(losses[name], losses["eager"], strict=True)
            off = max(abs(one - other) / abs(other) for one, other in pairs)
            median = statistics.median(taken[name])
            rows.append((title, name, f"{first[name]:.1f}", f"{median:.2f}",
                         f"{median / eager:.2f}", f"{off:.0e}"))  # fmt: skip
    header = ("pooling", "", "first step, s", "ms", "/ eager", "difference")
    print_table(f"{args.dataset}, {BATCH} graphs per step", header, rows)


if __name__ == "__main__":
    main()
