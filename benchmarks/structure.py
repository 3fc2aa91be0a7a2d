"""What poolings make of the structure of real graphs: parts, density, diameter, before and after.

    python benchmarks/structure.py --datasets ENZYMES PROTEINS --epochs 20
    python benchmarks/structure.py --models build/models --out paper/results/structure.csv

For each dataset and pooling networks (hierarchical, GCN) are trained for some epochs of the paper's
protocol, each from a seed of its own. As they were in the epoch with the best validation accuracy,
they pool all graphs of the dataset. Graphs are looked at as undirected, without weights and
self-loops:

- parts: connected components. A graph "stays connected" if it is in one part before and after.
- density: edges over pairs of nodes.
- diameter: the longest shortest path, in the part where it is longest.
- degree: neighbours of a node.
- edges: pairs of nodes that an edge joins. Tables of before this column have the product of means
  instead, nodes · degree / 2, which is another number where large graphs have another degree.

Figures are means over graphs and networks; density counts graphs of two nodes and more; "least" and
"most" are the smallest and the largest share of a network's graphs that stay connected. DiffPool
and MinCut give complete weighted graphs by construction. ``--models`` keeps the trained networks in
a folder, and takes those that are there: they can be trained on one machine and looked at on
another.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from operators import print_table
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, shortest_path

from lcpool.data import GraphSet, load_dataset
from lcpool.graph.graph import Graph
from lcpool.nn.conv import convolve
from lcpool.settings import POOLS
from lcpool.sweep.grid import PAPER_DATASETS
from lcpool.train import Model, train

BATCH = 64
BEFORE = "none"  # what graphs are called that were not pooled


class Structure(NamedTuple):
    """What is looked at in a graph."""

    nodes: int
    parts: int
    density: float
    degree: float
    diameter: int
    edges: int


Edges = tuple[np.ndarray, int]  # source and target, and the number of nodes


def structure(graph: Edges) -> Structure:
    """Of one graph, without nodes: nothing."""
    index, n = graph
    if n == 0:
        return Structure(0, 0, np.nan, np.nan, 0, 0)
    source, target = index[:, index[0] != index[1]]
    A = coo_matrix((np.ones(source.size), (source, target)), (n, n)).tocsr()
    A = ((A + A.T) > 0).astype(np.int8)
    parts, _ = connected_components(A, directed=False)
    away = shortest_path(A, method="D", directed=False, unweighted=True)
    pairs = n * (n - 1)
    diameter = int(away[np.isfinite(away)].max())
    density = A.nnz / pairs if pairs else np.nan
    return Structure(n, parts, density, A.nnz / n, diameter, A.nnz // 2)


def pooled_graphs(model: Model, graphs: GraphSet) -> Iterator[Edges]:
    """Every graph as the network's pooling leaves it."""
    network = model.network.cpu().eval()
    for graph in batches(graphs):
        with torch.no_grad():
            x = network.norms[0](convolve(network.convs[0], network.pre(graph.x), graph.edges))
            after = network.pools[0](x, graph).graph
        yield from taken_apart(after)


def batches(graphs: GraphSet) -> Iterator[Graph]:
    """All graphs, some at a time."""
    return (graphs.batch(part).graph for part in torch.split(torch.arange(len(graphs)), BATCH))


def taken_apart(graph: Graph) -> Iterator[Edges]:
    """The graphs of a batch, each numbered from 0; their nodes stand together."""
    counts = graph.node_counts().cpu().numpy()
    ends = counts.cumsum()
    index = graph.edge_index.cpu().numpy()
    owner = np.searchsorted(ends, index[0], side="right")
    index = index[:, owner.argsort(kind="stable")]
    parts = np.split(index, np.bincount(owner, minlength=len(counts)).cumsum()[:-1], axis=1)
    for edges, end, count in zip(parts, ends, counts, strict=True):
        yield edges - (end - count), int(count)


def trained(graphs: GraphSet, pool: str, seed: int, args: argparse.Namespace) -> Model:
    """A network of this pooling: from the folder of models, or trained and put there."""
    name = f"{graphs.name}-{pool.replace('*', '-star')}-{args.epochs}-{seed}.pt"
    path = args.models and args.models / name
    if path and path.exists():
        return Model.load(path)
    options = {"epochs": args.epochs, "split": "fresh", "seed": seed, "device": args.device,
               "ratio": args.ratio}  # fmt: skip
    found = train(graphs, pool, runs=1, **options).model
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        found.save(path)
    return found


def row(
    graphs: GraphSet, pool: str, before: pd.DataFrame, after: pd.DataFrame, epochs: int
) -> dict[str, object]:
    """Means over the graphs of a dataset, and over the networks that left them as ``after``."""
    connected = (before["parts"] == 1).to_numpy()
    stays = (after["parts"] == 1).to_numpy().reshape(-1, len(graphs))[:, connected].mean(axis=1)
    return {
        "dataset": graphs.name,
        "pool": pool,
        "networks": 0 if pool == BEFORE else len(stays),
        "epochs": epochs,
        "graphs": len(graphs),
        "connected_before": 100 * connected.mean(),
        "stay_connected": 100 * stays.mean(),
        "least": 100 * stays.min(),
        "most": 100 * stays.max(),
        **after.mean().to_dict(),
    }


def measure(dataset: str, pools: list[str], args: argparse.Namespace, look: ProcessPoolExecutor):
    """The rows of a dataset, that of the graphs as they are first."""
    graphs = load_dataset(dataset)
    given = (one for graph in batches(graphs) for one in taken_apart(graph))
    before = pd.DataFrame(look.map(structure, given, chunksize=8))
    yield row(graphs, BEFORE, before, before, 0)
    for pool in pools:
        models = (trained(graphs, pool, seed, args) for seed in range(args.seeds))
        found = (one for model in models for one in pooled_graphs(model, graphs))
        after = pd.DataFrame(look.map(structure, found, chunksize=8))
        yield row(graphs, pool, before, after, args.epochs)


def main() -> None:
    """Train, look, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=PAPER_DATASETS)
    pools = [pool for pool in POOLS if pool != "nopool"]  # which are the graphs as they are
    parser.add_argument("--pools", nargs="+", default=pools, help="or module:Class")
    parser.add_argument("--ratio", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3, help="networks of each pooling")
    parser.add_argument("--device", default=None)
    parser.add_argument("--models", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    rows = []
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as look:
        for dataset in args.datasets:
            found = list(measure(dataset, args.pools, args, look))
            rows += found
            show(dataset, found)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).round(4).to_csv(args.out, index=False, lineterminator="\n")


def show(dataset: str, rows: list[dict[str, object]]) -> None:
    """One dataset's table."""
    columns = ["nodes", "edges", "parts", "stay_connected", "least", "most", "density", "degree",
               "diameter"]  # fmt: skip
    header = ("", *(c.replace("_", " ") for c in columns))
    title = f"{dataset}: {rows[0]['graphs']} graphs, {rows[0]['connected_before']:.1f} % connected"
    names = ["as they are" if r["pool"] == BEFORE else str(r["pool"]) for r in rows]
    shown = [(n, *(f"{r[c]:.3g}" for c in columns)) for n, r in zip(names, rows, strict=True)]
    print_table(title, header, shown)


if __name__ == "__main__":
    main()
