"""Time and memory of every operator beside PyG's, on graphs of the TU datasets' shapes.

    python benchmarks/operators.py --shapes PROTEINS DD --sizes 32 320 --device cpu

A cell is the median time of a forward and a backward pass, and its peak memory. The features ask
for a gradient, as behind a convolution, and every differentiable output gets one: for lcpool's
ASAPooling also the weights of A', which PyG's does not have when the input has no weights. Both
layers of a pair have the same parameters. ``batch_size`` is passed only where PyG takes one as
well, to the dense poolings. DiffPool and MinCut make k = ⌈ratio · mean nodes⌉ clusters, at most
256. PyG's pad all graphs to the largest; they are skipped where that adjacency alone would take
more than ``--dense-limit``, and at the peak they hold several of its size.

Beside the layers stand LCSMP's four matrix products with their gradients, which no LCPooling can
do without (the floor), and the connect step of LCPooling alone (forward; it has no gradient).

All layers of a batch are measured in one process in turns, so that noise meets all of them alike.
Every batch has a process of its own: a layer that kills it, for lack of memory or by a fault, is
marked, and the others are measured anew without it. On a busy CPU torch's threads wait for each
other; the load is printed, and ``--threads 1`` suffers least.

Peak memory is what a pass allocates beyond its input: on a GPU all of torch's allocations; on a CPU
those of torch plus those of numpy and Python, peak plus peak. On a CPU the scratch memory inside
numba's kernels (the connect step) and inside MKL (the sparse products of PyG's ASAP) is not seen.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from functools import cached_property, partial
from importlib import metadata
from itertools import accumulate
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch_geometric.nn as pyg
from shapes import SHAPES, TU, Batch, draw
from torch import Tensor, nn
from torch_geometric.utils import to_dense_adj, to_dense_batch

import lcpool
from lcpool.graph.checks import Checks
from lcpool.graph.edges import Edges
from lcpool.graph.graph import Graph
from lcpool.ops.connect import MAX_EDGES, connect_clusters
from lcpool.ops.topk import KeepPlan, Kept

LOCAL = ("TopKPooling", "SAGPooling", "ASAPooling")
DENSE = ("DiffPooling", "MinCutPooling")
OPERATORS = (*LOCAL, *DENSE, "LCPooling", "LCPooling*", "CellPooling")
FLOOR = "LCSMP's products"
CONNECT = "connect step"
MAX_CLUSTERS = 256
WARM_UPS = 3
PACKAGES = ("torch", "torch_geometric", "numba", "numpy", "triton", "pyg_lib", "torch_scatter")
Cell = dict[str, Any]


@dataclass
class Step:
    """What is measured: ``call`` gives tensors, and those that can get a gradient get one."""

    call: Callable[[], Iterable[Any]]
    leaves: list[Tensor]

    def run(self) -> None:
        """Forward and backward."""
        outputs = [out for out in self.call() if isinstance(out, Tensor) and out.requires_grad]
        if outputs:
            torch.autograd.backward(outputs, [torch.ones_like(out) for out in outputs])

    def clear(self) -> None:
        """Forget the gradients."""
        for leaf in self.leaves:
            leaf.grad = None


# --- what is measured -----------------------------------------------------------------------------


def build_steps(data: Batch, ratio: float, k: int) -> dict[str, Step]:
    """All steps on one batch, by name: ``"lcpool …"``, ``"PyG …"`` and the two without a peer."""
    channels, device = data.x.size(1), data.x.device
    steps = {}

    def add(name: str, call: Callable[..., Iterable[Any]], layer: nn.Module) -> None:
        layer.to(device)
        steps[name] = Step(partial(call, layer, data), [data.x, *layer.parameters()])

    for name in LOCAL:
        ours, theirs = (getattr(package, name)(channels, ratio) for package in (lcpool, pyg))
        if name == "ASAPooling":
            # A negative one makes PyG keep the least fit clusters, others than ours.
            nn.init.ones_(theirs.select.weight)
        ours.load_state_dict(theirs.state_dict())
        add(f"lcpool {name}", call_local, ours)
        add(f"PyG {name}", call_local, theirs)
    for name, call_pyg in zip(DENSE, (call_pyg_diff, call_pyg_mincut), strict=True):
        ours = getattr(lcpool, name)(channels, k)
        add(f"lcpool {name}", call_dense, ours)
        add(f"PyG {name}", call_pyg, ours.assign)
    lc = lcpool.LCPooling(channels, ratio)
    add("lcpool LCPooling", call_local, lc)
    star = lcpool.LCPooling(channels, ratio, cluster=pyg.GCNConv(channels, channels))
    add("lcpool LCPooling*", call_local, star)
    add("lcpool CellPooling", call_local, lcpool.CellPooling(channels, ratio))
    steps[FLOOR] = floor_step(lc.score, data.x)
    steps[CONNECT] = Step(Connect(lc, data).call, [])
    return steps


def call_local(pool: nn.Module, data: Batch) -> Iterable[Any]:
    out = pool(data.x, data.edge_index, batch=data.batch)
    return out[0], out[2]  # X' and the weights of A', in lcpool's and in PyG's output


def call_dense(pool: nn.Module, data: Batch) -> Iterable[Any]:
    out = pool(data.x, data.edge_index, batch=data.batch, batch_size=len(data.sizes))
    return out.x, out.edge_attr, out.loss


def call_pyg_diff(conv: nn.Module, data: Batch) -> Iterable[Tensor]:
    S, _ = to_dense_batch(conv(data.x, data.edge_index), data.batch, batch_size=len(data.sizes))
    x, mask, A = padded(data)
    return pyg.dense_diff_pool(x, A, S, mask)


def call_pyg_mincut(lin: nn.Module, data: Batch) -> Iterable[Tensor]:
    x, mask, A = padded(data)
    return pyg.dense_mincut_pool(x, A, lin(x), mask)


def padded(data: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """X, which of its rows are nodes, and A, as PyG's dense poolings take them."""
    size = len(data.sizes)
    x, mask = to_dense_batch(data.x, data.batch, batch_size=size)
    A = to_dense_adj(data.edge_index, data.batch, max_num_nodes=x.size(1), batch_size=size)
    return x, mask, A


def floor_step(score: lcpool.LCSMP, x: Tensor) -> Step:
    """X·W_d, D·W_fd, X·W_x and H·W_s, for random D and H, and their gradients."""
    d, hidden = (torch.randn_like(x, requires_grad=True) for _ in range(2))
    weights = [lin.weight for lin in (score.lin_d, score.lin_fd, score.lin_x, score.lin_s)]

    def call() -> Iterable[Tensor]:
        return map(nn.functional.linear, (x, d, x, hidden), weights)

    return Step(call, [x, d, hidden, *weights])


@dataclass
class Connect:
    """The connect step of an LCPooling, for the nodes that it keeps."""

    pool: nn.Module
    data: Batch

    @cached_property
    def chosen(self) -> tuple[Graph, Kept, KeepPlan]:
        """Graph, kept nodes and plan, found in the first call: if that fails, this has failed."""
        data = self.data
        graph = Graph.of(data.x, data.edge_index, None, data.batch)
        with torch.no_grad():
            pooled = self.pool(graph)
        return graph, Kept(pooled.perm, pooled.batch), KeepPlan.of(self.pool.ratio, graph)

    def call(self) -> Iterable[Tensor]:
        """The edges of A', from edges of which nothing is known yet."""
        graph, kept, plan = self.chosen
        edges = Edges(graph.edge_index, graph.num_nodes)
        yield connect_clusters(edges, kept, graph.batch, plan, True, MAX_EDGES, Checks())


# --- how it is measured ---------------------------------------------------------------------------


def wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def milliseconds(step: Step, device: str) -> float:
    """The time of one pass."""
    step.clear()
    wait(device)
    start = time.perf_counter()
    step.run()
    wait(device)
    return 1e3 * (time.perf_counter() - start)


def peak_mib(step: Step, device: str) -> float:
    """The peak memory of one pass."""
    step.clear()
    if not device.startswith("cuda"):
        return (torch_peak(step) + numpy_peak(step)) / 2**20
    wait(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    step.run()
    return (torch.cuda.max_memory_allocated(device) - before) / 2**20


def torch_peak(step: Step) -> int:
    """The highest sum that torch's allocations and releases on the CPU reach."""
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as profiler:
        step.run()
    step.clear()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e["name"] == "[memory]"]
    events.sort(key=lambda e: e["ts"])
    return max(accumulate(e["args"]["Bytes"] for e in events), default=0)


def numpy_peak(step: Step) -> int:
    tracemalloc.start()
    step.run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@dataclass
class Session:
    """Measures the steps of one batch; notes say why a step has no numbers."""

    device: str
    parent: Connection
    notes: dict[str, str]

    def measure(self, steps: dict[str, Step], repeats: int) -> dict[str, Cell]:
        """The cell of each step: times, taken in turns, and memory."""
        times: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(WARM_UPS + repeats):
            for name, step in steps.items():
                times[name].append(self.attempt(milliseconds, name, step))
        memory = {name: self.attempt(peak_mib, name, step) for name, step in steps.items()}

        def cell(name: str) -> Cell:
            if name in self.notes:
                return {"note": self.notes[name]}
            taken = times[name][WARM_UPS:]
            return {"ms": statistics.median(taken), "mib": memory[name], "all_ms": taken}

        return {name: cell(name) for name in steps}

    def attempt(self, measure: Callable[[Step, str], float], name: str, step: Step) -> float:
        """``measure`` a step, announced to the parent process; NaN once it has failed."""
        if name in self.notes:
            return math.nan
        self.parent.send(name)
        try:
            return measure(step, self.device)
        except Exception as error:
            self.notes[name] = reason(error)
        try:
            wait(self.device)
        except Exception:  # After a fault on a GPU nothing works in this process any more.
            traceback.print_exc()
            os._exit(1)
        return math.nan


def reason(error: Exception) -> str:
    """Why a step failed: in a few words, a colon, and the details."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate memory" in str(error):
        return "out of memory"
    return f"{type(error).__name__}: {error}"


def measure_here(
    parent: Connection, shape: str, count: int, args: argparse.Namespace, dead: dict[str, str]
) -> None:
    """Measure one batch in this process and send the result to the parent."""
    # PyG's ASAP goes through torch.sparse CSR, which announces itself as beta.
    warnings.filterwarnings("ignore", "Sparse")
    os.environ["KINETO_LOG_LEVEL"] = "99"  # or the profiler writes two lines for every step
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    data = draw(SHAPES[shape], count, args.channels, args.seed, args.device)
    k = min(math.ceil(args.ratio * SHAPES[shape].nodes), MAX_CLUSTERS)
    adjacency = count * max(data.sizes) ** 2 * data.x.element_size() / 2**30
    skipped = {f"PyG {name}": f"skipped: A alone would take {adjacency:.1f} GiB" for name in DENSE}
    session = Session(args.device, parent, dead | (skipped if adjacency > args.dense_limit else {}))
    result = {
        "shape": shape,
        "graphs": count,
        "nodes": data.x.size(0),
        "edges": data.edge_index.size(1) // 2,
        "largest": max(data.sizes),
        "clusters": k,
        "cells": session.measure(build_steps(data, args.ratio, k), args.repeats),
    }
    parent.send(result)


def measure_apart(shape: str, count: int, args: argparse.Namespace) -> dict[str, Any]:
    """Measure one batch in a process of its own, again without any step that kills it."""
    # CUDA cannot be used in a process that was forked after torch had looked for it.
    context = multiprocessing.get_context("spawn")
    dead: dict[str, str] = {}
    while True:
        here, there = context.Pipe(duplex=False)
        child = context.Process(target=measure_here, args=(there, shape, count, args, dead))
        child.start()
        there.close()  # so that the child's end is the only one, and its death an EOFError here
        message: Any = None
        try:
            while not isinstance(message, dict):
                message = here.recv()
            return message
        except EOFError:
            child.join()
            if message is None:
                sys.exit(f"{shape} × {count}: the batch could not be made.")
            dead[message] = f"killed: the process ended with {child.exitcode}"


# --- what is printed ------------------------------------------------------------------------------


def machine(threads: int, device: str = "cpu") -> dict[str, Any]:
    """The day, the processor, how busy it is, and the versions of what runs on it."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.open() if "model name" in line] if info.exists() else []
    versions = {"python": platform.python_version(), "lcpool": lcpool.__version__}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "date": date.today().isoformat(),
        "cpu": names[0].split(":")[1].strip() if names else platform.processor(),
        "gpu": torch.cuda.get_device_name(device) if "cuda" in device else None,
        "threads": threads,
        "load": os.getloadavg()[0],
        "versions": versions,
    }


def show_machine(host: dict[str, Any]) -> None:
    gpu = f"{host['gpu']}, " if host["gpu"] else ""
    print(f"{host['date']}: {gpu}{host['cpu']}, {host['threads']} threads, load {host['load']:.1f}")
    versions = (f"{name} {version}" for name, version in host["versions"].items())
    print(", ".join(versions), flush=True)


def show_result(result: dict[str, Any]) -> None:
    """Print one batch's table."""
    cells = result["cells"]
    pairs = {name: (cells[f"lcpool {name}"], cells.get(f"PyG {name}", {})) for name in OPERATORS}
    # The floor's memory is none: D and H get gradients there that a layer would not keep.
    floor = {key: value for key, value in cells[FLOOR].items() if key != "mib"}
    pairs |= {CONNECT: (cells[CONNECT], {}), FLOOR: (floor, {})}
    rows = [
        (name, *columns(ours, theirs, "ms"), *columns(ours, theirs, "mib"))
        for name, (ours, theirs) in pairs.items()
    ]
    title = (
        f"{result['shape']} × {result['graphs']}: {result['nodes']:,} nodes, "
        f"{result['edges']:,} edges, largest {result['largest']:,}, k = {result['clusters']}"
    )
    print()
    print_table(title, ("", "lcpool ms", "PyG ms", "ratio", "lcpool MiB", "PyG MiB", "ratio"), rows)
    for name, cell in cells.items():
        if "note" in cell:
            print(f"{name}: {cell['note']}")
    lc = cells["lcpool LCPooling"]
    against = {name: cells[name] for name in ("PyG ASAPooling", "PyG TopKPooling", FLOOR)}
    times = ", ".join(f"{ratio(lc, cell, 'ms')} × {name}" for name, cell in against.items())
    print(f"LCPooling takes {times}; its connect step takes {ratio(cells[CONNECT], lc, 'ms')} × it")


def columns(ours: Cell, theirs: Cell, key: str) -> tuple[str, str, str]:
    """Both numbers and their ratio; the beginning of a note stands where the time would."""

    def text(cell: Cell) -> str:
        if key in cell:
            return f"{cell[key]:.{2 if cell[key] < 100 else 0}f}"
        return cell.get("note", "").split(":")[0] if key == "ms" else ""

    return text(ours), text(theirs), ratio(ours, theirs, key)


def ratio(ours: Cell, theirs: Cell, key: str) -> str:
    return f"{ours[key] / theirs[key]:.2f}" if key in ours and key in theirs else "–"


def print_table(title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """By rich where it is installed, else as plain text."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ModuleNotFoundError:
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        print(title)
        for row in (header, *rows):
            print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
        return
    # A file or a pipe has no width that a table would have to be cut to.
    console = Console(width=None if sys.stdout.isatty() else 200)
    table = Table(title=title, title_justify="left")
    for name in header:
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--device", default="cpu", help="cpu, cuda, cuda:1, …")
    add("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), metavar="NAME",
        help=f"any of {', '.join(SHAPES)}; all by default")  # fmt: skip
    add("--sizes", nargs="+", type=int, default=[32, 320], help="numbers of graphs in a batch")
    add("--repeats", type=int, default=15, help="timed passes of each layer")
    add("--threads", type=int, default=torch.get_num_threads(), help="threads on the CPU")
    add("--channels", type=int, default=128, help="width of the features")
    add("--ratio", type=float, default=0.5, help="share of the nodes that is kept")
    add("--dense-limit", type=float, default=1.0, metavar="GIB",
        help="largest padded adjacency that PyG's dense poolings may make")  # fmt: skip
    add("--seed", type=int, default=0)
    add("--json", type=Path, metavar="FILE", help="where to save all numbers")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    host = machine(args.threads, args.device)
    show_machine(host)
    settings = {key: str(value) if key == "json" else value for key, value in vars(args).items()}
    results: list[dict[str, Any]] = []
    for shape in args.shapes:
        for count in args.sizes if shape in TU else [1]:
            results.append(measure_apart(shape, count, args))
            show_result(results[-1])
            if args.json:
                saved = {"machine": host, "settings": settings, "results": results}
                args.json.write_text(json.dumps(saved, indent=1))


if __name__ == "__main__":
    main()
