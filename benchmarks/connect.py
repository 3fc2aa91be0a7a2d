"""The connect step beside sparse matrix libraries: time and memory.

    python benchmarks/connect.py --threads 2
    python benchmarks/connect.py --device cuda

First the pattern of A' = S'ᵀAS' for S = I + A, half of the nodes kept at random: from the edges of
A and ``perm`` to the edges of A', int64 both, on input that was checked before, as in a layer.
Beside lcpool stand scipy (products of booleans, in 32 bits), torch.sparse (CSR, float32) and
python-graphblas (the any_pair semiring). Each of them gets S' in coordinates, makes of it what it
needs, and multiplies in both orders, Sᵀ(AS) and (SᵀA)S; the faster one counts. They need not sort
their edges; lcpool does. ``cluster_connect``, which checks its input as well, has a column of its
own. The graphs are batches of TU datasets and single graphs drawn at random. Of the Barabási–Albert
graph, whose A' is large, all find the same first rows.

Then S'ᵀAS' with weights, as ASAPooling connects: A + I with weights, an S' of its pattern. PyG's
stage (the code of its layer) has no gradient on a CPU, so that its forward pass stands beside
lcpool's forward pass and beside forward and backward together. Where it has one, on a GPU, both
together stand in a column of their own. On a GPU this is the only table.

Times are medians, taken in turns, by the clock and as the processor counts them over all threads:
on a busy machine the clock counts the waiting too. On a CPU each call has a process of its own, as
a user of one library has: threads of one library would spin while the next one works, and what one
gives back to the allocator would be found or lacked by the next. Memory is the largest resident set
of a call in another process, beyond what was resident before (the input, and the libraries, which
have done a small case); twice the output stands beside it. On a GPU only the clock counts, and
memory is what torch has allocated at its peak.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import multiprocessing
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from operators import machine, print_table, show_machine, wait
from shapes import Shape, draw_edges, draw_scale_free
from torch import Tensor
from torch_geometric.utils import (
    add_remaining_self_loops,
    remove_self_loops,
    to_edge_index,
    to_torch_coo_tensor,
    to_torch_csr_tensor,
)

from lcpool import Assignment, cluster_connect
from lcpool.data import load_dataset
from lcpool.graph.assignment import clusters
from lcpool.graph.checks import Checks
from lcpool.graph.edges import Edges
from lcpool.graph.sizes import Sizes
from lcpool.ops.connect import connect_clusters
from lcpool.ops.connect.cpu import (
    EDGES_PER_THREAD,
    LIST_EDGES,
    SHARE,
    find_rows,
    most_edges,
    prepare,
    stack_rows,
    with_lists,
)
from lcpool.ops.connect.product import connect_assignment
from lcpool.ops.threads import in_parts
from lcpool.ops.topk import KeepPlan, Kept

TU = ("PROTEINS", "NCI1", "DD")
RANDOM = {
    "random, degree 4": Shape(100_000, 200_000, spread=0, largest=100_000, local=False),
    "random, degree 14": Shape(20_000, 140_000, spread=0, largest=20_000, local=False),
}
SCALE_FREE = "Barabási–Albert"
TOUCHED = 4 * 2**30  # bytes
IDLE = 0.02  # seconds in which threads of the call before stop waiting for more
OURS, CHECKED, FORWARD = "lcpool", "lcpool, checked", "lcpool, forward"
Cell = dict[str, Any]


@dataclass
class Case:
    """A graph and the nodes that are kept; ``rows`` of A' are found, all where it is None.

    With ``counts``, it is a batch of graphs of so many nodes, of which half are kept.
    """

    edge_index: Tensor
    perm: Tensor
    num_nodes: int
    rows: int | None = None
    counts: list[int] | None = None

    def to(self, device: str) -> Case:
        """The same on a device."""
        return replace(self, edge_index=self.edge_index.to(device), perm=self.perm.to(device))

    def graphs(self) -> tuple[Tensor | None, KeepPlan | None]:
        """The graph of each node, and how many nodes each has and keeps, as a layer knows them."""
        if self.counts is None:
            return None, None
        nodes = torch.tensor(self.counts)
        sizes, kept = (Sizes(n, self.perm.device) for n in (nodes, (nodes + 1) // 2))
        return sizes.batch, KeepPlan(sizes, kept)


SMALL = Case(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([0, 2]), 3)


# --- graphs ---------------------------------------------------------------------------------------


def make_case(name: str, count: int, args: argparse.Namespace) -> Case:
    """A case by its name, the same in every process."""
    generator = torch.Generator().manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    if name in TU:
        graphs = load_dataset(name, args.root)
        batch = graphs.batch(torch.randperm(len(graphs.y), generator=generator)[:count])
        counts = batch.node_counts.tolist()
        edge_index, rows = batch.edge_index, None
    elif name in RANDOM:
        counts = [int(RANDOM[name].nodes)]
        edge_index = torch.from_numpy(draw_edges(counts[0], RANDOM[name], rng))
        rows = None
    else:
        counts = [args.scale_free]
        edge_index = torch.from_numpy(draw_scale_free(counts[0], 2, rng))
        rows = counts[0] // 20
    starts = np.cumsum([0, *counts]).tolist()
    kept = [
        start + torch.randperm(n, generator=generator)[: (n + 1) // 2]
        for start, n in zip(starts, counts, strict=False)
    ]
    several = counts if len(counts) > 1 else None
    return Case(edge_index, torch.cat(kept), sum(counts), rows, several).to(args.device)


def cases(args: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Names and numbers of graphs."""
    for name in args.graphs:
        for count in args.sizes if name in TU else [1]:
            yield name, count


# --- the pattern ----------------------------------------------------------------------------------


def by_lcpool(case: Case) -> Tensor:
    if case.rows is None:
        edges = Edges(case.edge_index, case.num_nodes)
        return connect_clusters(edges, Kept(case.perm), None, None, True, 2**40, Checks())
    graph = prepare(*case.edge_index.numpy(), case.perm.numpy(), case.num_nodes)
    graph = with_lists(graph, LIST_EDGES)
    part = partial(find_rows, graph=graph, self_loops=True, room=most_edges(graph))
    parts = in_parts(part, case.rows, case.rows, EDGES_PER_THREAD, share=SHARE)
    return torch.from_numpy(stack_rows(0, parts)[0])


def by_scipy(case: Case, left_first: bool) -> Tensor:
    import scipy.sparse as sp

    S, shape = clusters(case.edge_index, case.perm, case.num_nodes), (case.num_nodes,) * 2
    source, target, node, cluster = (
        x.numpy().astype(np.int32) for x in (*case.edge_index, S.node_index, S.cluster_index)
    )

    def matrix(row: Any, col: Any, shape: tuple[int, int]) -> Any:
        return sp.csr_array((np.ones(row.size, bool), (row, col)), shape=shape)

    A, right = matrix(source, target, shape), matrix(node, cluster, (shape[0], S.num_clusters))
    left = matrix(cluster, node, (S.num_clusters, shape[0]))[: case.rows]
    product = ((left @ A) @ right if left_first else left @ (A @ right)).tocoo()
    return torch.from_numpy(np.stack([product.row, product.col], dtype=np.int64))


def by_torch(case: Case, left_first: bool) -> Tensor:
    S = clusters(case.edge_index, case.perm, case.num_nodes)

    def matrix(row: Tensor, col: Tensor, shape: tuple[int, int]) -> Tensor:
        index = torch.stack([row, col])
        return torch.sparse_coo_tensor(index, torch.ones(row.numel()), shape).to_sparse_csr()

    A = matrix(*case.edge_index, (S.num_nodes, S.num_nodes))
    right = matrix(S.node_index, S.cluster_index, (S.num_nodes, S.num_clusters))
    few = slice(None) if case.rows is None else S.cluster_index < case.rows
    rows = S.num_clusters if case.rows is None else case.rows
    left = matrix(S.cluster_index[few], S.node_index[few], (rows, S.num_nodes))
    product = (left @ A) @ right if left_first else left @ (A @ right)
    return product.to_sparse_coo().indices()


def by_graphblas(case: Case, left_first: bool) -> Tensor:
    import graphblas as gb

    gb.ss.config["nthreads"] = torch.get_num_threads()
    S = clusters(case.edge_index, case.perm, case.num_nodes)

    def matrix(row: Tensor, col: Tensor, rows: int, cols: int) -> Any:
        args = (row.numpy(), col.numpy(), True)
        return gb.Matrix.from_coo(*args, nrows=rows, ncols=cols, dtype=bool)

    A = matrix(*case.edge_index, S.num_nodes, S.num_nodes)
    right = matrix(S.node_index, S.cluster_index, S.num_nodes, S.num_clusters)
    left = right.T if case.rows is None else right[:, : case.rows].new().T
    any_pair = gb.semiring.any_pair
    if left_first:
        product = any_pair(any_pair(left @ A).new() @ right).new()
    else:
        product = any_pair(left @ any_pair(A @ right).new()).new()
    row, col, _ = product.to_coo(values=False, sort=False)
    return torch.from_numpy(np.stack([row, col], dtype=np.int64))


PEERS = {"scipy": by_scipy, "torch.sparse": by_torch, "graphblas": by_graphblas}
ORDERS = {"Sᵀ(AS)": False, "(SᵀA)S": True}


def pattern_calls(case: Case) -> dict[str, Callable[[], Tensor]]:
    """What finds the edges of A', by name."""
    calls: dict[str, Callable[[], Tensor]] = {OURS: partial(by_lcpool, case)}
    if case.rows is None:
        given = (case.edge_index, case.perm, case.num_nodes)
        calls[CHECKED] = partial(cluster_connect, *given, max_edges=2**40)
    for peer, function in PEERS.items():
        for order, left_first in ORDERS.items():
            calls[f"{peer} {order}"] = partial(function, case, left_first)
    return calls


# --- with weights ---------------------------------------------------------------------------------


def by_pyg(
    edges: Tensor, weight: Tensor, score: Tensor, case: Case, backward: bool = False
) -> Tensor:
    """The last stage of PyG's ASAPooling: its calls, one by one."""
    weight, score = (x.detach().requires_grad_(backward) for x in (weight, score))
    size = (case.num_nodes, case.num_nodes)
    A = to_torch_csr_tensor(edges, weight, size=size)
    S = to_torch_coo_tensor(edges, score, size=size)
    S = S.index_select(1, case.perm).to_sparse_csr()
    found, values = remove_self_loops(*to_edge_index(S.t().to_sparse_csr() @ (A @ S)))
    if backward:
        values.backward(torch.ones_like(values))
    return found


def by_product(
    edges: Tensor, weight: Tensor, score: Tensor, case: Case, graphs: Any, backward: bool
) -> Tensor:
    """The same stage here: S' = S(:, î), A', and all gradients."""
    weight, score = (x.detach().requires_grad_(backward) for x in (weight, score))
    S = Assignment(edges[0], case.num_nodes, edges[1], case.num_nodes, score).columns(case.perm)
    found, values = connect_assignment(edges, S, weight, *graphs, False, 2**40, Checks())
    if backward:
        values.backward(torch.ones_like(values))
    return found


def weighted_calls(case: Case) -> dict[str, Callable[[], Tensor]]:
    """The connect step of ASAPooling, by name."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.rand(case.edge_index.size(1), generator=generator).to(case.perm.device)
    edges, weight = add_remaining_self_loops(case.edge_index, weight, 1.0, case.num_nodes)
    score = torch.rand(edges.size(1), generator=generator).to(case.perm.device)
    given, graphs = (edges, weight, score, case), case.graphs()
    calls: dict[str, Callable[[], Tensor]] = {
        OURS: partial(by_product, *given, graphs, backward=True),
        FORWARD: partial(by_product, *given, graphs, backward=False),
        "PyG, forward": partial(by_pyg, *given),
    }
    if pyg_has_gradients(case.perm.device):
        calls["PyG"] = partial(by_pyg, *given, backward=True)
    return calls


def pyg_has_gradients(device: torch.device) -> bool:
    """Whether torch.sparse knows the gradient of these products there."""
    ones = torch.ones(SMALL.edge_index.size(1), device=device)
    small = SMALL.to(str(device))
    try:
        by_pyg(small.edge_index, ones, ones, small, backward=True)
    except (NotImplementedError, RuntimeError):
        return False
    return True


CALLS = {"pattern": pattern_calls, "weighted": weighted_calls}


# --- how it is measured ---------------------------------------------------------------------------


def measure(kind: str, name: str, count: int, args: argparse.Namespace) -> dict[str, Cell]:
    """Median times of each call, taken in turns, after a look at what they find."""
    with ExitStack() as stack:
        if args.device == "cpu":
            names = CALLS[kind](make_case(name, count, args))
            steps = {
                call: stack.enter_context(Away(kind, call, name, count, args)) for call in names
            }
        else:
            calls = CALLS[kind](make_case(name, count, args))
            steps = {call: Here(step, args.device) for call, step in calls.items()}
        found = {call: step.found() for call, step in steps.items()}
        edges, expected = found[OURS]
        for call, (_, digest) in found.items():
            if digest != expected:
                raise ValueError(f"{call} finds other edges than lcpool.")
        times: dict[str, list[tuple[float, float]]] = {call: [] for call in steps}
        started = time.perf_counter()
        while len(times[OURS]) < 5 or time.perf_counter() - started < args.seconds:
            for call, step in steps.items():
                times[call].append(step.timed())
    cells = {}
    for call, taken in times.items():
        clock, processor = (1e3 * statistics.median(t) for t in zip(*taken, strict=True))
        cells[call] = {"ms": clock, "processor ms": processor, "edges": edges}
    if args.device != "cpu":
        for call, run in calls.items():
            cells[call]["peak"] = peak_of_device(run, args.device)
    return cells


class Here:
    """A call in this process."""

    def __init__(self, step: Callable[[], Tensor], device: str) -> None:
        self.step, self.device = step, device

    def found(self) -> tuple[int, str]:
        """How many edges it finds, and a digest of them."""
        keys = sorted_keys(self.step())
        return keys.numel(), hashlib.sha256(keys.cpu().numpy().tobytes()).hexdigest()

    def timed(self) -> tuple[float, float]:
        """Seconds of one call, by the clock and by the processor."""
        wait(self.device)
        before = time.perf_counter(), time.process_time()
        self.step()
        wait(self.device)
        return time.perf_counter() - before[0], time.process_time() - before[1]


class Away:
    """A call in a process of its own, which waits until it is asked."""

    def __init__(self, *given: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, *given), daemon=True)
        self.process.start()
        other.close()

    def __enter__(self) -> Away:
        return self

    def __exit__(self, *_: object) -> None:
        self.pipe.close()
        self.process.join()

    def found(self) -> tuple[int, str]:
        return self._asked("found")

    def timed(self) -> tuple[float, float]:
        return self._asked("timed")

    def _asked(self, what: str) -> Any:
        self.pipe.send(what)
        return self.pipe.recv()


def serve(
    pipe: Connection, kind: str, call: str, name: str, count: int, args: argparse.Namespace
) -> None:
    """What :class:`Away` asks, until it is gone."""
    settle(args)
    here = Here(CALLS[kind](make_case(name, count, args))[call], args.device)
    try:
        while True:
            what = pipe.recv()
            if what == "timed":
                time.sleep(IDLE)
            pipe.send(getattr(here, what)())
    except EOFError:
        return


def touch_memory() -> None:
    """Use some memory, so that a virtual machine has it: new pages take its host long to find."""
    np.ones(TOUCHED // 8)


def settle(args: argparse.Namespace) -> None:
    """What every process begins with."""
    warnings.filterwarnings("ignore")  # torch.sparse announces itself as beta.
    torch.set_num_threads(args.threads)


def apart(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *given).result()


def sorted_keys(edges: Tensor) -> Tensor:
    return (edges[0] * (2**31) + edges[1]).sort().values


def peak_mib(kind: str, call: str, name: str, count: int, args: argparse.Namespace) -> float:
    """The peak of the resident set in one call, beyond what there was."""
    settle(args)
    CALLS[kind](SMALL)[call]()
    step = CALLS[kind](make_case(name, count, args))[call]
    ctypes.CDLL(None).malloc_trim(0)  # Memory that is free already would hide what is taken.
    Path("/proc/self/clear_refs").write_text("5")  # The kernel forgets the peak.
    before = resident("VmRSS")
    step()
    return (resident("VmHWM") - before) / 1024


def peak_of_device(step: Callable[[], Tensor], device: str) -> float:
    """The peak of a call on a GPU, beyond what was allocated before."""
    wait(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    step()
    wait(device)
    return float(torch.cuda.max_memory_allocated(device) - before) / 2**20


def resident(key: str) -> int:
    """A line of the kernel's account of this process, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


# --- what is printed ------------------------------------------------------------------------------


def columns(kind: str, cells: dict[str, Cell]) -> dict[str, str]:
    """The calls that a table shows, by their heading: of a peer's two orders the faster one."""
    if kind == "weighted":
        return {name: name for name in cells}
    orders = {peer: [name for name in cells if name.startswith(peer)] for peer in PEERS}
    faster = {peer: min(names, key=lambda n: cells[n]["ms"]) for peer, names in orders.items()}
    return {OURS: OURS, CHECKED: CHECKED} | faster


def show(kind: str, results: list[Cell], clocks: dict[str, str]) -> None:
    """Print the times and the memory of each case; a ratio is the best peer's time to lcpool's."""
    times, memory = [], []
    for result in results:
        cells, peaks, edges = result["cells"], result["peaks"], result["cells"][OURS]["edges"]
        shown = columns(kind, cells)
        ours = [name for name in shown if name.startswith(OURS)]
        best = {
            key: min(cells[name][key] for name in shown.values() if name not in ours)
            for key in clocks.values()
        }
        times.append((
            result["case"], f"{edges:,}",
            *(number(cells[name]["ms"]) if name in cells else "–" for name in shown.values()),
            *(f"{best[key] / cells[name][key]:.1f}" if name in cells else "–"
              for name in ours for key in best),
        ))  # fmt: skip
        output = (16 if kind == "pattern" else 20) * edges / 2**20
        mib = (number(peaks[name]) if name in peaks else "–" for name in shown.values())
        memory.append((result["case"], number(2 * output), *mib))
    title = "The pattern of A'" if kind == "pattern" else "S'ᵀAS' with weights, as ASAPooling"
    ratios = [f"{how} ×" for _ in ours for how in clocks]
    print_table(f"{title}: milliseconds", ("", "edges", *shown, *ratios), times)
    print_table(f"{title}: peak MiB", ("", "twice the output", *shown), memory)


def number(value: float) -> str:
    return f"{value:.{2 if value < 10 else 0}f}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = (*TU, *RANDOM, SCALE_FREE)
    add = parser.add_argument
    add("--graphs", nargs="+", choices=names, default=list(names), metavar="NAME",
        help=f"any of {', '.join(names)}; all by default")  # fmt: skip
    add("--sizes", nargs="+", type=int, default=[32, 320], help="numbers of graphs in a TU batch")
    add("--only", choices=CALLS, help="one of the two tables")
    add("--device", default="cpu", help="cpu, or cuda for the table with weights")
    add("--threads", type=int, default=2)
    add("--seconds", type=float, default=10, help="for the timing of each case, at least 5 rounds")
    add("--scale-free", type=int, default=1_000_000, metavar="NODES")
    add("--root", help="where the TU datasets are")
    add("--seed", type=int, default=0)
    add("--json", type=Path, metavar="FILE", help="where to save all numbers")
    args = parser.parse_args()
    if args.device != "cpu":
        if args.only == "pattern":
            parser.error("the pattern of A' has peers on a CPU alone: leave out --device.")
        args.only = "weighted"
    return args


def main() -> None:
    args = arguments()
    host = machine(args.threads, args.device)
    show_machine(host)
    touch_memory()
    results: dict[str, list[Cell]] = {}
    for kind in [args.only] if args.only else CALLS:
        for name, count in cases(args):
            if kind == "weighted" and name == SCALE_FREE:
                continue  # PyG's stage knows no rows.
            settle(args)
            cells = measure(kind, name, count, args)
            shown = columns(kind, cells).values()
            peaks = {
                call: cells[call]["peak"] if "peak" in cells[call]
                else apart(peak_mib, kind, call, name, count, args)
                for call in shown
                if call in cells
            }  # fmt: skip
            title = f"{name} × {count}" if name in TU else name
            print(f"{kind}: {title}", flush=True)
            found = {"case": title, "cells": cells, "peaks": peaks}
            results.setdefault(kind, []).append(found)
            if args.json:
                args.json.write_text(json.dumps({"machine": host, "results": results}, indent=1))
    clocks = {"clock": "ms"} | ({"processor": "processor ms"} if args.device == "cpu" else {})
    for kind, cells_of_kind in results.items():
        show(kind, cells_of_kind, clocks)


if __name__ == "__main__":
    main()
