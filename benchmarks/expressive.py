"""Which poolings keep graphs distinguishable: pairs told apart before and after pooling.

    python benchmarks/expressive.py --folder shared/expressive

Message passing tells two graphs apart at most where the Weisfeiler-Leman test (WL-1) does. A
pooling behind it keeps that power if every row of S has the same positive sum and X' = SᵀX (Bianchi
and Lachi, 2023). Here untrained networks with random parameters, in double precision, read pairs of
graphs: three convolutions, the pooling, one more convolution, the sum over nodes.

- WL-1 pairs: a random tree of 20 to 60 nodes without features and the same with one leaf moved,
  where WL-1 tells them apart. "before" is the share that the network without a pooling tells apart.
- EXP and CEXP (``--folder``): pairs of planar graphs. WL-1 tells none of EXP's apart; half of
  CEXP's were changed so that it does. What connects nodes over several hops, as LCPool, sees more
  than WL-1.

A pair counts as told apart only if one number of its readouts differs by more than ``MARGIN`` times
the largest difference of that number between renumbered copies of one of the two graphs: a pooling
that breaks ties by the number of a node gives copies different readouts, and that tells nothing
apart. Number by number, not by their norm: the sum of X' can be the same for all copies while what
is computed from A' is not.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import torch
from operators import print_table
from torch import Tensor, nn

from lcpool.models import Architecture
from lcpool.models.pooling import POOLINGS, make_pooling
from lcpool.pool import Pooling

WIDTH, COPIES, MARGIN, ROUNDING = 16, 10, 10.0, 1e-9
Pair = tuple[nx.Graph, nx.Graph]


class Network(nn.Module):
    """Convolutions as in GIN, a pooling, one more convolution, and the sum over nodes."""

    def __init__(self, pool: Pooling, channels: int) -> None:
        super().__init__()
        widths = [channels, WIDTH, WIDTH, WIDTH, WIDTH]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(i, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh())
            for i in widths[:-1]
        )
        self.pool = pool

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x + neighbour_sum(x, edge_index, None))
        out = self.pool(x, edge_index, batch=batch)
        after = out.x + neighbour_sum(out.x, out.edge_index, out.edge_attr)
        both = torch.cat([out.x, self.layers[-1](after)], dim=1)
        size = int(batch.max()) + 1
        return both.new_zeros(size, both.size(1)).index_add(0, out.batch, both)


def neighbour_sum(x: Tensor, edge_index: Tensor, weight: Tensor | None) -> Tensor:
    messages = x[edge_index[0]] if weight is None else x[edge_index[0]] * weight.view(-1, 1)
    return torch.zeros_like(x).index_add(0, edge_index[1], messages)


def readouts(network: Network, graphs: list[nx.Graph], order: torch.Generator | None) -> Tensor:
    """The readout of each graph; with ``order``, of a renumbered copy."""
    tags, edges, batch, start = [], [], [], 0
    for number, graph in enumerate(graphs):
        n = len(graph)
        place = torch.arange(n) if order is None else torch.randperm(n, generator=order)
        tag = torch.tensor([graph.nodes[i].get("tag", 0) for i in range(n)])
        tags.append(tag[place.argsort()])
        pairs = place[torch.tensor(list(graph.edges), dtype=torch.long).view(-1, 2).T]
        edges.append(torch.cat([pairs, pairs.flip(0)], dim=1) + start)
        batch.append(torch.full((n,), number))
        start += n
    x = torch.nn.functional.one_hot(torch.cat(tags), 2).double()
    with torch.no_grad():
        found: Tensor = network(x, torch.cat(edges, dim=1), torch.cat(batch))
    return found


def share_told_apart(name: str, pairs: list[Pair], seeds: int, ratio: float) -> float:
    """The share of pairs that networks with this pooling tell apart, in percent."""
    told = []
    ends = [list(side) for side in zip(*pairs, strict=True)]
    size = sum(len(graph) for side in ends for graph in side) / (2 * len(pairs))
    for seed in range(seeds):
        torch.manual_seed(seed)
        options = Architecture(pool=name, hidden=WIDTH, ratio=ratio)
        pool = make_pooling(name, WIDTH, round(ratio * size), options)
        network = Network(pool, 2).double().eval()
        order = torch.Generator().manual_seed(seed)
        here, there = (readouts(network, side, None) for side in ends)
        noise = ROUNDING * here.abs().amax(dim=1, keepdim=True).expand_as(here)
        for _ in range(COPIES):
            for side, first in zip(ends, (here, there), strict=True):
                noise = noise.maximum((readouts(network, side, order) - first).abs())
        apart = ((here - there).abs() > MARGIN * noise).any(dim=1)
        told.append(apart.double().mean())
    return 100 * float(torch.stack(told).mean())


def wl_hash(graph: nx.Graph) -> str:
    """The colours of WL-1 after three rounds, as many as there are convolutions."""
    nx.set_node_attributes(graph, "0", "colour")
    found: str = nx.weisfeiler_lehman_graph_hash(graph, node_attr="colour", iterations=3)
    return found


def random_pairs(number: int) -> list[Pair]:
    """Trees of 20 to 60 nodes and the same with one leaf moved, which WL-1 tells apart."""
    found: list[Pair] = []
    seed = 0
    while len(found) < number:
        one = nx.random_labeled_tree(20 + seed % 41, seed=seed)
        other = one.copy()
        leaves = [node for node, degree in one.degree if degree == 1]
        leaf, root = leaves[seed % len(leaves)], seed % len(one)
        other.remove_edges_from(list(one.edges(leaf)))
        other.add_edge(leaf, root)
        seed += 1
        if nx.is_tree(other) and wl_hash(one) != wl_hash(other):
            found.append((one, other))
    return found


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of EXP or CEXP: graphs 0 and 1, 2 and 3, and so on."""
    graphs = list(_graphs(iter(path.read_text().splitlines())))
    return list(zip(graphs[::2], graphs[1::2], strict=True))


def _graphs(lines: Iterator[str]) -> Iterator[nx.Graph]:
    for _ in range(int(next(lines))):
        graph, size = nx.Graph(), int(next(lines).split()[0])
        rows = [list(map(int, next(lines).split())) for _ in range(size)]
        graph.add_nodes_from((i, {"tag": row[0]}) for i, row in enumerate(rows))
        graph.add_edges_from((i, j) for i, row in enumerate(rows) for j in row[2:])
        yield graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="has EXP.txt and CEXP.txt")
    parser.add_argument("--pools", nargs="+", default=list(POOLINGS))
    parser.add_argument("--pairs", type=int, default=300, help="pairs of each kind")
    parser.add_argument("--seeds", type=int, default=3, help="networks per pooling")
    parser.add_argument("--ratio", type=float, default=0.1, help="the ratio of kept nodes")
    args = parser.parse_args()
    kinds = {"WL-1 pairs": random_pairs(args.pairs)}
    if args.folder:
        kinds |= {n: read_pairs(args.folder / f"{n}.txt")[: args.pairs] for n in ("EXP", "CEXP")}
    names = ["nopool", *(name for name in args.pools if name != "nopool")]
    rows = []
    for name in names:
        shares = [share_told_apart(name, pairs, args.seeds, args.ratio) for pairs in kinds.values()]
        title = "before (nopool)" if name == "nopool" else name.split(":")[-1]
        rows.append((title, *(f"{share:.1f} %" for share in shares)))
    print_table(
        f"pairs told apart at ratio {args.ratio}, mean of {args.seeds} networks",
        ("pooling", *kinds),
        rows,
    )


if __name__ == "__main__":
    main()
