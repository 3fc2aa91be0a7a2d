"""What it costs to connect large graphs in blocks, from ten thousand nodes to ten million.

    python benchmarks/large.py --plot docs/large.png

Graphs are undirected with 2.5 edges per node, drawn at random (a pair may be drawn twice), in int64
as PyG has them; half of the nodes are kept, at random. ``lcpool.cluster_connect_blocks`` finds A'
and writes it into a file in ``--folder``, which is removed afterwards; where the disk has no room
for it, the blocks are found and dropped.

The last table is what 10⁹ edges of such a graph cost, whether one machine works on them or many
(``examples/large_ray.py``): the numbers of the largest graph, in proportion to its edges. With
``--rows-only`` the search is that of graphs of this size.

Every graph has a process of its own. Its peak memory is the resident set at its largest, with all
that is in it: Python and torch, the edges in int64, the graph by rows, a block. Seconds are those
of preparing the graph by rows and of finding and writing all blocks, as the clock and as the
processor counts them (over all threads, without waiting for other processes or for the disk);
kernels are compiled before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pickle
import resource
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
from operators import machine, show_machine
from rich.console import Console
from rich.progress import track
from torch import Tensor

from lcpool import cluster_connect_blocks
from lcpool.ops.connect import cpu

SIZES = [10**4, 10**5, 10**6, 10**7]
EDGES_PER_NODE = 2.5
# Edges of A' per node of such graphs, and what each of them takes in the file.
POOLED_PER_NODE, BYTES_PER_EDGE = 40, 8
COLUMNS = (
    "nodes", "edges", "pooled edges", "blocks", "seconds", "pooled edges per second",
    "CPU seconds", "of which preparing", "CPU ns per pooled edge", "peak GiB", "file GiB",
)  # fmt: skip
Cell = dict[str, Any]


def draw(num_nodes: int, seed: int) -> tuple[Tensor, Tensor]:
    """The edges, in both directions, and the kept nodes."""
    generator = torch.Generator().manual_seed(seed)
    num_edges = int(EDGES_PER_NODE * num_nodes)
    pairs = torch.randint(0, num_nodes, (2, num_edges), generator=generator)
    perm = torch.randperm(num_nodes, generator=generator)[: num_nodes // 2]
    return torch.cat([pairs, pairs.flip(0)], dim=1), perm


def measure(num_nodes: int, seed: int, threads: int, folder: Path, rows_only: bool) -> Cell:
    """Connect one graph, in a process of its own."""
    torch.set_num_threads(threads)
    if rows_only:
        cpu.FEW_LIST_EDGES = 0
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        path = Path(inside) / "pooled.npy"
        cluster_connect_blocks(*draw(1000, seed), 1000).save(path)  # compile
        edge_index, perm = draw(num_nodes, seed)
        title, console = f"{num_nodes:,} nodes", Console(stderr=True)
        clock, processor = time.perf_counter(), time.process_time()
        with console.status(f"{title}: preparing"):
            blocks = cluster_connect_blocks(edge_index, perm, num_nodes)
        prepared = time.process_time()
        shown = partial(track, description=title, console=console)
        saved = has_room(folder, num_nodes)
        if saved:
            pooled = blocks.save(path, shown).size(1)
        else:
            pooled = sum(edges.size(1) for edges in shown(blocks))
        found = {
            "nodes": num_nodes,
            "edges": edge_index.size(1) // 2,
            "pooled": pooled,
            "blocks": len(blocks),
            "prepare": prepared - processor,
            "seconds": time.perf_counter() - clock,
            "processor": time.process_time() - processor,
            # The kernel counts in KiB.
            "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            "file": path.stat().st_size if saved else None,
        }
        # After the peak was read: this makes a copy.
        return found | {"graph": len(pickle.dumps(blocks.search, protocol=5))}


def has_room(folder: Path, num_nodes: int) -> bool:
    """Whether the file fits on the disk, with a tenth to spare."""
    wanted = 1.1 * POOLED_PER_NODE * BYTES_PER_EDGE * num_nodes
    return shutil.disk_usage(folder).free > wanted


def show(cells: list[Cell]) -> None:
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for cell in cells:
        values = (
            *(f"{cell[name]:,}".replace(",", " ") for name in ("nodes", "edges", "pooled")),
            str(cell["blocks"]),
            f"{cell['seconds']:.3g}",
            f"{cell['pooled'] / cell['seconds'] / 1e6:.1f} M",
            f"{cell['processor']:.3g}",
            f"{cell['prepare']:.3g}",
            f"{1e9 * cell['processor'] / cell['pooled']:.0f}",
            f"{cell['peak'] / 2**30:.2f}",
            "not written" if cell["file"] is None else f"{cell['file'] / 2**30:.3f}",
        )
        print(f"| {' | '.join(values)} |")


def show_billion(cell: Cell) -> None:
    """What 10⁹ edges cost, in proportion to a graph that was measured."""
    times = 1e9 / cell["edges"]
    pooled = times * cell["pooled"]
    rows = (
        ("CPU minutes to prepare the graph, on one machine", times * cell["prepare"] / 60),
        (
            "CPU minutes to search, on any number of machines",
            times * (cell["processor"] - cell["prepare"]) / 60,
        ),
        ("GB of the prepared graph, in the memory of each machine", times * cell["graph"] / 1e9),
        ("10⁹ pooled edges", pooled / 1e9),
        ("GB of these, in files", pooled * BYTES_PER_EDGE / 1e9),
    )
    print(f"\n| per 10⁹ edges, from {cell['nodes']:,} nodes | |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value:.3g} |")


def plot(cells: list[Cell], path: Path) -> None:
    """Time, and time per edge, against the edges of A'; both axes logarithmic."""
    pooled = [cell["pooled"] for cell in cells]
    seconds = [cell["processor"] for cell in cells]
    figure, (total, each) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    total.loglog(pooled, seconds, "o-", color="#0072b2", label="measured")
    ends = pooled[0], pooled[-1]
    linear = [seconds[-1] * end / pooled[-1] for end in ends]
    total.loglog(ends, linear, "--", color="#999999", label="linear")
    total.set(xlabel="edges of A'", ylabel="CPU seconds", title="time")
    total.legend(frameon=False)
    each.loglog(pooled, [1e9 * s / p for s, p in zip(seconds, pooled, strict=True)], "o-",
                color="#0072b2")  # fmt: skip
    each.set(xlabel="edges of A'", ylabel="CPU ns", title="time per edge of A'",
             ylim=(10, 10_000))  # fmt: skip
    for cell, x, y in zip(cells, pooled, seconds, strict=True):
        total.annotate(f"{cell['nodes']:.0e} nodes".replace("e+0", "e"), (x, y), (8, -10),
                       textcoords="offset points", size=8)  # fmt: skip
    for axis in (total, each):
        axis.margins(x=0.15, y=0.15)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, facecolor="white")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--nodes", nargs="+", type=int, default=SIZES, metavar="N", help="sizes of graphs")
    add("--threads", type=int, default=torch.get_num_threads())
    add("--seed", type=int, default=0)
    add("--folder", type=Path, default=tempfile.gettempdir(), help="where to write A' for a while")
    add("--rows-only", action="store_true",
        help="keep no lists of AS', as of graphs where they would have 2³² entries")  # fmt: skip
    add("--plot", type=Path, metavar="FILE", help="draw time against the edges of A'")
    args = parser.parse_args()
    if min(args.nodes) < 2 or args.threads < 1:
        parser.error("graphs need at least 2 nodes, and --threads must be at least 1")
    return args


def main() -> None:
    args = arguments()
    show_machine(machine(args.threads))
    cells = []
    for num_nodes in sorted(args.nodes):
        # A process that has had a larger graph would report its peak.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            options = (args.seed, args.threads, args.folder, args.rows_only)
            job = process.submit(measure, num_nodes, *options)
            cells.append(job.result())
    show(cells)
    show_billion(cells[-1])
    if args.plot:
        plot(cells, args.plot)


if __name__ == "__main__":
    main()
