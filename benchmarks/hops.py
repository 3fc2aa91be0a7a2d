"""What the three hops of LCPool's A' cost beside two and one, and what they keep connected.

    python benchmarks/hops.py --datasets PROTEINS ENZYMES NCI1

For each dataset, layers that differ in ``hops`` alone pool all graphs: how many edges a kept node
has (loops aside), and how many of the connected graphs stay so. Then forward and backward of the
layer, and of the layer with the convolution behind it, which walks over these edges: medians over
batches of 32 graphs, in turns. The layers are not trained; which edges there are depends on the
kept nodes, what they cost hardly does.
"""

from __future__ import annotations

import argparse
import statistics

import torch
from operators import Step, machine, milliseconds, print_table, show_machine
from structure import batches, structure, taken_apart

from lcpool import LCPooling
from lcpool.data import GraphSet, load_dataset
from lcpool.graph.graph import Graph
from lcpool.nn.conv import FastGCNConv

HOPS = (1, 2, 3)


def layers(args: argparse.Namespace) -> dict[int, LCPooling]:
    """The same layer with each number of hops."""
    found = {hops: LCPooling(args.channels, args.ratio, hops=hops) for hops in HOPS}
    for pool in found.values():
        pool.load_state_dict(found[HOPS[-1]].state_dict())
    return {hops: pool.to(args.device) for hops, pool in found.items()}


def features(graph: Graph, args: argparse.Namespace) -> torch.Tensor:
    drawn = torch.randn(graph.num_nodes, args.channels, generator=torch.Generator().manual_seed(0))
    return drawn.to(args.device)


def looks(graphs: GraphSet, pool: LCPooling, args: argparse.Namespace) -> tuple[float, float]:
    """Edges of a kept node, and the percentage of connected graphs that stay so."""
    degrees, before, after = [], [], []
    for graph in batches(graphs):
        with torch.no_grad():
            out = pool(features(graph, args), graph.edge_index, batch=graph.batch)
        edges = out.edge_index[:, out.edge_index[0] != out.edge_index[1]]
        degrees.append((edges.size(1), out.x.size(0)))
        before += [structure(one).parts == 1 for one in taken_apart(graph)]
        pooled = Graph.of(out.x, out.edge_index, batch=out.batch, batch_size=graph.batch_size)
        after += [structure(one).parts == 1 for one in taken_apart(pooled)]
    edges, nodes = map(sum, zip(*degrees, strict=True))
    stay = [now for was, now in zip(before, after, strict=True) if was]
    return edges / nodes, 100 * sum(stay) / len(stay)


def times(graphs: GraphSet, args: argparse.Namespace) -> dict[tuple[int, bool], float]:
    """Milliseconds of a pass, by hops and whether a convolution follows."""
    conv = FastGCNConv(args.channels, args.channels).to(args.device)
    pools = layers(args)
    found: dict[tuple[int, bool], list[float]] = {(h, c): [] for h in HOPS for c in (False, True)}
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0))
    for part in order.split(32)[: args.batches]:
        graph = graphs.batch(part).graph
        x = features(graph, args).requires_grad_()

        def call(hops: int, follows: bool, graph=graph, x=x) -> list[torch.Tensor]:
            out = pools[hops](x, graph.edge_index, batch=graph.batch, batch_size=graph.batch_size)
            return [conv(out.x, out.edge_index) if follows else out.x]

        for _ in range(args.repeats):
            for hops, follows in found:
                step = Step(lambda h=hops, f=follows: call(h, f), [x, *pools[hops].parameters()])
                found[hops, follows].append(milliseconds(step, args.device))
    return {of: statistics.median(taken) for of, taken in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["PROTEINS", "ENZYMES", "NCI1"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--ratio", type=float, default=0.5)
    parser.add_argument("--batches", type=int, default=15, help="batches to time")
    parser.add_argument("--repeats", type=int, default=5, help="passes of each batch")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    show_machine(machine(args.threads, args.device))
    rows = []
    for name in args.datasets:
        graphs = load_dataset(name).to(args.device)
        taken, pools = times(graphs, args), layers(args)
        for hops in HOPS:
            degree, stay = looks(graphs, pools[hops], args)
            ms = [taken[hops, follows] for follows in (False, True)]
            beside = [one / taken[HOPS[-1], f] for one, f in zip(ms, (False, True), strict=True)]
            rows.append((name, str(hops), f"{degree:.1f}", f"{stay:.1f}",
                         f"{ms[0]:.2f}", f"{beside[0]:.2f}", f"{ms[1]:.2f}",
                         f"{beside[1]:.2f}"))  # fmt: skip
    header = ("", "hops", "edges per node", "stay connected, %", "layer ms", "of three hops",
              "with a convolution ms", "of three hops")  # fmt: skip
    print_table("LCPool, untrained, forward and backward", header, rows)


if __name__ == "__main__":
    main()
