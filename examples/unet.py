"""Predict a property of every node with a U-Net: atoms of molecules from their places in space.

    python examples/unet.py                          # a table
    python examples/unet.py docs/performance.md      # and into a page, between two marks

Each node of COX2 and BZR is an atom with three coordinates; its element is to be predicted. The
graphs are split 8:1:1, and the test accuracy of the epoch with the best validation accuracy counts.
Beside ``lcpool.GraphUNet`` with several poolings stands PyG's ``GraphUNet``, of the same width and
depth. All train in turns: epoch by epoch, so that noise meets all alike.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphUNet as PyGUNet
from torch_geometric.utils import degree

from lcpool import CellPooling, GraphUNet, LCPooling, ProjectionScore, TopKPooling
from lcpool.data import load_dataset

WIDTH, DEPTH = 64, 3
PYG = "PyG's `GraphUNet`"


def cells(width: int, ratio: float) -> CellPooling:
    """Cells by the score of TopK, which has no more parameters than PyG's."""
    return CellPooling(width, ratio, score=ProjectionScore(width))


POOLINGS = {
    "`TopKPooling`": TopKPooling,
    "`LCPooling(rescale=True)`": partial(LCPooling, rescale=True),
    "`CellPooling`": CellPooling,
    "`CellPooling`, TopK's score": cells,
}
COMMAND = "python examples/unet.py"
BEGIN, END = f"<!-- begin: {COMMAND} -->", f"<!-- end: {COMMAND} -->"


def molecules(name: str) -> tuple[list[Data], int]:
    """Graphs with coordinates and degrees as features, and the element of each atom as target."""
    graphs = load_dataset(name)
    found = []
    for i in range(len(graphs)):
        graph = graphs.batch(torch.tensor([i])).graph
        elements, places = graph.x[:, :-3], graph.x[:, -3:]
        number = degree(graph.edge_index[0], graph.num_nodes).unsqueeze(1)
        x = torch.cat([places - places.mean(0), number], dim=1)
        found.append(Data(x=x, edge_index=graph.edge_index, y=elements.argmax(1)))
    return found, elements.size(1)


def networks(classes: int, seed: int) -> dict[str, nn.Module]:
    """Each with initial parameters of the seed, whatever the others are."""
    ours = {f"`GraphUNet`, {name}": partial(GraphUNet, pool=p) for name, p in POOLINGS.items()}
    found = {}
    for name, make in {PYG: PyGUNet, **ours}.items():
        torch.manual_seed(seed)
        found[name] = make(4, WIDTH, classes, DEPTH)
    return found


@dataclass
class Training:
    """A network, and what was measured of it."""

    network: nn.Module
    best: tuple[float, float] = (0.0, 0.0)  # validation and test accuracy
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=5e-3)

    def epoch(self, parts: list[list[Data]], seed: int) -> None:
        started = time.perf_counter()
        self.network.train()
        order = torch.Generator().manual_seed(seed)
        for data in DataLoader(parts[0], 32, shuffle=True, generator=order):
            self.optimizer.zero_grad()
            F.cross_entropy(self.network(data.x, data.edge_index, data.batch), data.y).backward()
            self.optimizer.step()
        self.seconds.append(time.perf_counter() - started)
        if (validation := self.accuracy(parts[1])) > self.best[0]:
            self.best = validation, self.accuracy(parts[2])

    @torch.no_grad()
    def accuracy(self, graphs: list[Data]) -> float:
        self.network.eval()
        right = total = 0
        for data in DataLoader(graphs, 64):
            guess = self.network(data.x, data.edge_index, data.batch).argmax(1)
            right, total = right + int((guess == data.y).sum()), total + len(guess)
        return 100 * right / total


def trained(graphs: list[Data], classes: int, epochs: int, seeds: int) -> dict[str, list[Training]]:
    """A training of each network per seed."""
    found: dict[str, list[Training]] = {}
    for seed in range(seeds):
        random = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(graphs), generator=random).tolist()
        cuts = (0, int(0.8 * len(order)), int(0.9 * len(order)), len(order))
        parts = [[graphs[i] for i in order[cuts[p] : cuts[p + 1]]] for p in range(3)]
        runs = {name: Training(network) for name, network in networks(classes, seed).items()}
        for epoch in range(epochs):
            for run in runs.values():
                run.epoch(parts, epoch)
        for name, run in runs.items():
            found.setdefault(name, []).append(run)
    return found


def table(found: dict[str, list[Training]]) -> str:
    """What was measured, in Markdown."""
    seconds = {name: statistics.median(s for r in runs for s in r.seconds)
               for name, runs in found.items()}  # fmt: skip
    lines = [
        "| U-Net | test accuracy, % | parameters | time of an epoch / PyG's |",
        "|---" * 4 + "|",
    ]
    for name, runs in found.items():
        accuracy = [run.best[1] for run in runs]
        spread = f" ± {statistics.stdev(accuracy):.1f}" if len(accuracy) > 1 else ""
        size = sum(p.numel() for p in runs[0].network.parameters())
        shown, ratio = f"{statistics.mean(accuracy):.1f}{spread}", seconds[name] / seconds[PYG]
        lines.append(f"| {name} | {shown} | {size} | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", nargs="?", type=Path, help="a page to write the table into")
    parser.add_argument("--dataset", default="COX2", help="COX2, BZR or DHFR")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    graphs, classes = molecules(args.dataset)
    found = trained(graphs, classes, args.epochs, args.seeds)
    every = torch.cat([graph.y for graph in graphs])
    text = (
        f"{args.dataset}, {args.epochs} epochs, {args.seeds} runs each. The most frequent element "
        f"is that of {100 * int(every.bincount().max()) / len(every):.1f} % of the atoms.\n\n"
        f"{table(found)}"
    )
    print(text)
    if args.page is not None:
        before, rest = args.page.read_text("utf-8").split(BEGIN)
        _, after = rest.split(END)
        args.page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
