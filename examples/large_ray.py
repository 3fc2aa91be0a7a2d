"""Connect a large graph on many machines: blocks of A' go to the workers of a Ray cluster.

``python examples/large_ray.py --nodes 1000000 --folder pooled`` does it on the cores of this
machine, with ``--address`` on a cluster. The graph is sent once to each machine, where its workers
share it.
Every block becomes a file of its own in the folder, which all machines must see; a run that was
broken off goes on with the blocks that are missing. A folder is for one graph, in blocks of one
size; another is refused.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import ray
import torch
from rich.progress import track
from torch import Tensor

from lcpool import cluster_connect_blocks
from lcpool.ops.connect.blocks import Blocks


def draw(num_nodes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A random graph of degree 5 and half of its nodes; put your own here."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, num_nodes, (2, 5 * num_nodes // 2), generator=generator)
    perm = torch.randperm(num_nodes, generator=generator)[: num_nodes // 2]
    return torch.cat([pairs, pairs.flip(0)], dim=1), perm


def claim(folder: Path, blocks: Blocks, *graph: Tensor) -> None:
    """Make the folder that of this graph in these blocks, or stop where it is another's."""
    digest = hashlib.sha256(repr(blocks.rows).encode())
    for tensor in graph:
        digest.update(np.ascontiguousarray(tensor.numpy()))
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / "graph.sha256"
    if mark.exists() and mark.read_text() != digest.hexdigest():
        raise SystemExit(f"{folder} has blocks of another graph, or of another size: take another.")
    mark.write_text(digest.hexdigest())


def connect_one(blocks: Blocks, number: int, folder: Path) -> int:
    """Find one block and write it, on some worker; the number of its edges."""
    path = folder / f"{number:06}.npy"
    if not path.exists():
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.save(file, blocks[number].int().numpy())
        os.replace(part, path)
    return np.load(path, mmap_mode="r").shape[1]


def connect_all(blocks: Blocks, folder: Path) -> Iterator[int]:
    """The number of edges of each block, as they are done."""
    shared = ray.put(blocks)
    task = ray.remote(num_cpus=1)(connect_one)
    waiting = [task.remote(shared, number, folder) for number in range(len(blocks))]
    while waiting:
        (done,), waiting = ray.wait(waiting)
        yield ray.get(done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--nodes", type=int, default=1_000_000)
    add("--folder", type=Path, required=True, help="where to write the blocks")
    add("--edges-per-block", type=int, default=2**22)
    add("--address", help="of a Ray cluster; else one is started here")
    add("--workers", type=int, help="of a Ray that is started here, by default one for each core")
    args = parser.parse_args()
    graph = draw(args.nodes)
    blocks = cluster_connect_blocks(*graph, args.nodes, edges_per_block=args.edges_per_block)
    claim(args.folder, blocks, *graph)
    # Without an address Ray would join whatever cluster it finds on this machine.
    here = {"address": "local", "num_cpus": args.workers, "include_dashboard": False}
    ray.init(**{"address": args.address} if args.address else here, log_to_driver=False)
    done = connect_all(blocks, args.folder.resolve())
    num_edges = sum(track(done, "blocks", total=len(blocks)))
    print(f"{len(blocks)} blocks, {num_edges:,} edges in {args.folder}")


if __name__ == "__main__":
    main()
