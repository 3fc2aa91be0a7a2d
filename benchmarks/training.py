"""Training time of lcpool's stacked runs beside a plain PyG loop, on the same data.

    python benchmarks/training.py --datasets PROTEINS DD --runs 10 --device cuda
    python benchmarks/training.py --datasets PROTEINS --device cuda --workers --out costs.csv
    python benchmarks/training.py --profile lcpool asapool --datasets PROTEINS --device cuda

lcpool trains all runs as one (``lcpool.train.Trainer``). The plain loop trains one run, the way one
writes it with PyG: a ``DataLoader`` over graphs on the host, the same network of PyG's own layers,
one step a batch; no number is read from the device but once an epoch. An epoch of either is a pass
over the training graphs and one over the validation graphs. Both use Adam, fused on a GPU. The
speed-up is the plain loop's time for an epoch over lcpool's time for an epoch *and run*.

With the same parameters both networks give the same scores, but for what PyG does otherwise: its
ASAPooling leaves out the weights of A' where the graphs have none, DenseGCNConv puts ones on the
diagonal of A', and DiffPool's losses are taken over all graphs and their padding at once. The
plain loop has a little less to do: it does not keep the best parameters, and its batches carry no
edge attributes, which no network here reads. PyG's DiffPool and MinCut pad all graphs to the
largest of the batch; on a CPU they are skipped where that adjacency could take more than
``--dense-limit`` and kill the process. LCPooling has no peer in PyG: the plain loop uses lcpool's
as a layer.

Both train in one process in turns, so that noise meets both alike. Times are medians. With several
``--workers`` the fastest plain loop counts; with ``--workers`` and no number lcpool trains alone,
and ``--out`` keeps what an epoch of its runs takes, seconds and peak memory, as a table. Peak
memory is what torch allocates on the GPU for one side: its data, parameters, optimizer and the
largest step.

``--profile`` instead shows, for both sides, where a few training steps spend their time. The GPU's
busy share is its busy time over the steps' time *without* the profiler, which slows the host only.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from operators import machine, print_table, reason, show_machine, wait
from torch import Tensor, nn
from torch.autograd import DeviceType
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.utils import to_dense_adj, to_dense_batch

from lcpool import LCPooling
from lcpool.data import GraphSet, load_dataset
from lcpool.models import BACKBONES, Architecture, make_pooling
from lcpool.models.backbone import pooled_clusters
from lcpool.train import Protocol, Trainer
from lcpool.train.loop import EVAL_BATCH

POOLS = ("lcpool", "asapool", "sagpool", "nopool")
LOCAL = {"topkpool": pyg.TopKPooling, "sagpool": pyg.SAGPooling, "asapool": pyg.ASAPooling}
DENSE = ("diffpool", "mincutpool")
CHOICES = (*POOLS, "topkpool", *DENSE, "lcpool*")
SPARSE_CONVS = {"gcn": pyg.GCNConv, "graphconv": pyg.GraphConv}
DENSE_CONVS = {"gcn": pyg.DenseGCNConv, "graphconv": pyg.DenseGraphConv}
OURS = "lcpool"
TOP = 15  # lines of a profile
Cell = dict[str, Any]


# --- the network in PyG's layers ------------------------------------------------------------------


class Network(nn.Module):
    """``lcpool.models.Backbone`` with one pooling, in PyG's layers.

    Args:
        graphs: the data, for widths and the mean number of nodes.
        architecture: what the backbone is made from.
    """

    def __init__(self, graphs: GraphSet, architecture: Architecture) -> None:
        super().__init__()
        a, hidden = architecture, architecture.hidden
        second = DENSE_CONVS if a.pool in DENSE else SPARSE_CONVS
        self.hierarchical = a.backbone == "hierarchical"
        self.pre = nn.Sequential(nn.Linear(graphs.num_features, hidden), nn.BatchNorm1d(hidden))
        convs = (SPARSE_CONVS[a.conv], second[a.conv])
        self.convs = nn.ModuleList(conv(hidden, hidden) for conv in convs)
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(2))
        self.pools = nn.ModuleList([plain_pooling(graphs, a)])
        self.post = nn.Sequential(
            nn.Linear(2 * hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(),
            nn.Linear(hidden, graphs.num_classes),
        )  # fmt: skip

    def forward(self, data: Batch) -> tuple[Tensor, Tensor | None]:
        """Scores of the classes, and the auxiliary loss if there is one."""
        x = self.pre(data.x).relu()
        x = self.norms[0](self.convs[0](x, data.edge_index)).relu()
        before = readout(x, data.batch, data.num_graphs)
        pooled = self.after_dense if isinstance(self.pools[0], DensePooling) else self.after_local
        after, loss = pooled(x, data.edge_index, data.batch, data.num_graphs)
        return self.post(before + after if self.hierarchical else after), loss

    def after_local(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int
    ) -> tuple[Tensor, None]:
        """The readout behind a pooling that selects, or behind none."""
        pool, weight = self.pools[0], None
        if not isinstance(pool, nn.Identity):
            # PyG's poolings take no number of graphs; with it lcpool's need not ask a GPU.
            known = {"batch_size": size} if isinstance(pool, LCPooling) else {}
            x, edge_index, weight, batch = pool(x, edge_index, None, batch, **known)[:4]
        x = self.norms[1](self.convs[1](x, edge_index, weight)).relu()
        return readout(x, batch, size), None

    def after_dense(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int
    ) -> tuple[Tensor, Tensor]:
        """The readout behind a dense assignment, and its loss."""
        x, A, loss = self.pools[0](x, edge_index, batch, size)
        x = self.convs[1](x, A)
        x = self.norms[1](x.flatten(0, 1)).relu().view_as(x)
        return torch.cat([x.mean(1), x.amax(1)], dim=-1), loss


class DensePooling(nn.Module):
    """DiffPool or MinCut as PyG has them: functions of padded tensors.

    Args:
        name: "diffpool" or "mincutpool".
        channels: width of the features.
        clusters: k.
    """

    def __init__(self, name: str, channels: int, clusters: int) -> None:
        super().__init__()
        self.diff = name == "diffpool"
        self.assign = (pyg.GCNConv if self.diff else nn.Linear)(channels, clusters)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, size: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """X', A' and the loss, weighted as lcpool weights it."""
        logits = self.assign(x, edge_index) if self.diff else self.assign(x)
        x, mask = to_dense_batch(x, batch, batch_size=size)
        S, _ = to_dense_batch(logits, batch, max_num_nodes=x.size(1), batch_size=size)
        A = to_dense_adj(edge_index, batch, max_num_nodes=x.size(1), batch_size=size)
        if self.diff:
            x, A, link, entropy = pyg.dense_diff_pool(x, A, S, mask)
            return x, A, 0.1 * (link + entropy)
        x, A, cut, ortho = pyg.dense_mincut_pool(x, A, S, mask)
        return x, A, 0.5 * cut + ortho


def plain_pooling(graphs: GraphSet, a: Architecture) -> nn.Module:
    """PyG's layer, or lcpool's where PyG has none."""
    clusters = max(pooled_clusters(a.ratio, int(graphs.node_counts.double().mean())), 1)
    if a.pool in DENSE:
        return DensePooling(a.pool, a.hidden, clusters)
    if a.pool in LOCAL:
        return LOCAL[a.pool](a.hidden, a.ratio)
    return make_pooling(a.pool, a.hidden, clusters, a) or nn.Identity()


def readout(x: Tensor, batch: Tensor, size: int) -> Tensor:
    pooled = pyg.global_mean_pool(x, batch, size), pyg.global_max_pool(x, batch, size)
    return torch.cat(pooled, dim=-1)


# --- the two loops --------------------------------------------------------------------------------


class StackedLoop:
    """Ours: all runs as one.

    Args:
        graphs: the data, on the host.
        architecture: the network.
        protocol: how to train it.
        runs: how many runs.
        device: where to train.
    """

    def __init__(
        self,
        graphs: GraphSet,
        architecture: Architecture,
        protocol: Protocol,
        runs: int,
        device: str,
    ) -> None:
        self.runs = runs
        self.trainer = Trainer(graphs.to(device), architecture, protocol, range(runs))

    def epoch(self) -> None:
        """Train and validate every run once."""
        self.trainer.train_epoch()
        if len(self.trainer.active) < self.runs:  # Fewer runs would take less time.
            raise RuntimeError("a run has diverged")

    @property
    def figures(self) -> list[float]:
        """Training loss, validation loss and accuracy of the first run, last epoch."""
        return list(self.trainer.runs[0].curves[-1])

    def steps(self, count: int) -> None:
        """The trainer's own loop over the first few batches of the training graphs."""
        trainer, all_graphs = self.trainer, self.trainer.splits
        few = count * trainer.protocol.batch_size
        trainer.splits = [split._replace(train=split.train[:few]) for split in all_graphs]
        trainer._train()
        trainer.splits = all_graphs


class PlainLoop:
    """What one writes with PyG: one run.

    Args:
        graphs: the data, on the host.
        architecture: the network.
        protocol: learning rate, batch size and split.
        device: where to train.
        workers: processes that make batches.
        pin: copy batches from pinned memory.
    """

    runs = 1

    def __init__(
        self,
        graphs: GraphSet,
        architecture: Architecture,
        protocol: Protocol,
        device: str,
        workers: int,
        pin: bool,
    ) -> None:
        self.device, self.pin = device, pin
        split = protocol.split_of(graphs, 0)
        graphs = replace(graphs, edge_attr=None)
        train, val = (graphs.subset(part).to_graphs() for part in (split.train, split.val))
        more = {"num_workers": workers, "persistent_workers": workers > 0, "pin_memory": pin}
        size = protocol.batch_size
        # Batch norm has no statistics of a single graph. Padding makes large batches dear.
        alone = len(train) % size == 1
        self.train_loader = DataLoader(train, size, shuffle=True, drop_last=alone, **more)
        self.val_loader = DataLoader(
            val, size if architecture.pool in DENSE else EVAL_BATCH, **more
        )
        torch.manual_seed(protocol.seed)
        self.model = Network(graphs, architecture).to(device)
        fused = device.startswith("cuda")
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=protocol.lr, fused=fused)

    def epoch(self) -> None:
        """Train and validate once."""
        self.figures = torch.stack([self.train(), *self.validate()]).tolist()

    def steps(self, count: int) -> None:
        """A few training steps."""
        self.train(count)

    def train(self, steps: int | None = None) -> Tensor:
        """The mean training loss of an epoch, or of fewer steps."""
        self.model.train()
        total = torch.zeros((), device=self.device)
        for data in islice(self.train_loader, steps):
            data = data.to(self.device, non_blocking=self.pin)
            logits, auxiliary = self.model(data)
            loss = F.cross_entropy(logits, data.y)
            if auxiliary is not None:
                loss = loss + auxiliary
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        return total / (steps or len(self.train_loader))

    @torch.no_grad()
    def validate(self) -> tuple[Tensor, Tensor]:
        """Mean loss and accuracy over the validation graphs."""
        self.model.eval()
        loss, right = torch.zeros(2, device=self.device)
        for data in self.val_loader:
            data = data.to(self.device, non_blocking=self.pin)
            logits, _ = self.model(data)
            loss += F.cross_entropy(logits, data.y, reduction="sum")
            right += (logits.argmax(-1) == data.y).sum()
        count = len(self.val_loader.dataset)
        return loss / count, right / count


Makers = dict[str, Callable[[], StackedLoop | PlainLoop]]


def makers(graphs: GraphSet, pool: str, args: argparse.Namespace) -> Makers:
    """How to make each loop of a comparison, by name: ours, and one for each ``workers``."""
    architecture = Architecture(args.backbone, args.conv, pool, args.hidden)
    data = (graphs, architecture, endless(args))
    loops: Makers = {OURS: partial(StackedLoop, *data, args.runs, args.device)}
    for workers in args.workers:
        loops[plain_name(workers)] = partial(PlainLoop, *data, args.device, workers, args.pin)
    return loops


def endless(args: argparse.Namespace) -> Protocol:
    """The paper's protocol, but no run ends while it is timed."""
    return Protocol(epochs=10**9, patience=10**9, split="shared", seed=args.seed)


def plain_name(workers: int) -> str:
    return f"plain, {workers} workers"


# --- how it is measured ---------------------------------------------------------------------------


@dataclass
class Contender:
    """A loop, and what was measured of it.

    Attributes:
        make: makes the loop.
        device: where it trains.
        note: why there are no numbers, if so.
        loop: the loop, once made.
        seconds: times of an epoch.
        held: bytes it holds on the GPU between epochs.
        peak: the most bytes it has taken beyond these.
    """

    make: Callable[[], StackedLoop | PlainLoop]
    device: str
    note: str | None = None
    loop: Any = None
    seconds: list[float] = field(default_factory=list)
    held: int = 0
    peak: int = 0

    def attempt(self, measure: Callable[..., None], *values: Any) -> None:
        """Call one of the methods below; once one has failed, nothing."""
        if self.note is not None:
            return
        try:
            measure(*values)
        except Exception as error:
            traceback.print_exc()
            self.note = reason(error)
        if self.note is not None:  # Outside of except: the error's frames hold tensors.
            self.loop = None
            free(self.device)

    def warm_up(self) -> None:
        """Make the loop and let it go through one epoch."""
        before = allocated(self.device)
        self.loop = self.make()
        self.loop.epoch()
        wait(self.device)
        self.held = allocated(self.device) - before

    def time(self, epochs: int) -> None:
        """Time some epochs, and see how much memory they take."""
        on_gpu, before = self.device.startswith("cuda"), allocated(self.device)
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(self.device)
        self.seconds.append(seconds(self.loop.epoch, epochs, self.device))
        if on_gpu:
            most = torch.cuda.max_memory_allocated(self.device)
            self.peak = max(self.peak, most - before)

    def cell(self) -> Cell:
        """Everything, as plain values."""
        if self.note is not None:
            return {"note": self.note}
        epoch = statistics.median(self.seconds)
        cell = {"runs": self.loop.runs, "epoch": epoch, "run": epoch / self.loop.runs}
        if self.device.startswith("cuda"):
            cell["mib"] = (self.held + self.peak) / 2**20
        return cell | {"all": self.seconds, "figures": self.loop.figures}


def seconds(call: Callable[[], None], times: int, device: str) -> float:
    """The time of one call, over several."""
    wait(device)
    start = time.perf_counter()
    for _ in range(times):
        call()
    wait(device)
    return (time.perf_counter() - start) / times


def allocated(device: str) -> int:
    return torch.cuda.memory_allocated(device) if device.startswith("cuda") else 0


def free(device: str) -> None:
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()


def touch(device: str) -> None:
    """Let the GPU's libraries take their work space before anybody's memory is counted."""
    layer = nn.Linear(8, 8).to(device)
    layer(torch.ones(8, 8, device=device)).sum().backward()
    wait(device)


def compare(graphs: GraphSet, pool: str, args: argparse.Namespace) -> dict[str, Cell]:
    """The cell of each loop: an epoch to warm up, then some epochs of each in turns."""
    contenders = contend(graphs, pool, args)
    for contender in contenders.values():
        contender.attempt(contender.warm_up)
    for _ in range(args.repeats):
        for contender in contenders.values():
            contender.attempt(contender.time, args.epochs)
    return {name: contender.cell() for name, contender in contenders.items()}


def contend(graphs: GraphSet, pool: str, args: argparse.Namespace) -> dict[str, Contender]:
    """All loops of a comparison, not yet made; those too large for a CPU are out already."""
    free(args.device)
    loops = makers(graphs, pool, args).items()
    contenders = {name: Contender(make, args.device) for name, make in loops}
    padded = endless(args).batch_size * int(graphs.node_counts.max()) ** 2 * 4 / 2**30
    if pool in DENSE and args.device == "cpu" and padded > args.dense_limit:
        for workers in args.workers:
            contenders[plain_name(workers)].note = f"skipped: {padded:.1f} GiB"
    return contenders


# --- where the time goes --------------------------------------------------------------------------


def profile(contender: Contender, count: int) -> Cell:
    """A profile of a few training steps, after an epoch to warm up."""
    result: Cell = {}

    def run() -> None:
        contender.warm_up()
        steps = partial(contender.loop.steps, count)
        steps()
        result["runs"] = contender.loop.runs
        result["step_ms"] = 1e3 * seconds(steps, 1, contender.device) / count
        result.update(recorded(steps, count, contender.device))

    contender.attempt(run)
    contender.loop = None
    return result if contender.note is None else {"note": contender.note}


def recorded(steps: Callable[[], None], count: int, device: str) -> Cell:
    """What torch's profiler sees of ``count`` steps, each figure that of one step."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.startswith("cuda"):
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        profiled = seconds(steps, 1, device)
    # Rows of the GPU itself are kernels and annotations; the time of ops is on the CPU's rows.
    ops = [row for row in profiler.key_averages() if row.device_type == DeviceType.CPU]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return {
        "profiled_step_ms": 1e3 * profiled / count,
        "ops": sum(row.count for row in ops if row.key.startswith("aten::")) / count,
        "cpu": top([(row.key, row.self_cpu_time_total, row.count) for row in ops], count),
        "gpu": top([(row.key, row.self_device_time_total, row.count) for row in ops], count),
        **gpu_figures(events, count),
    }


def gpu_figures(events: Iterable[dict[str, Any]], count: int) -> Cell:
    """Kernels, copies, waits and busy time of one step, from a trace; empty without a GPU."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        kinds.setdefault(event.get("cat", ""), []).append(event)
    kernels, copies = kinds.get("kernel", []), kinds.get("gpu_memcpy", [])
    if not kernels:
        return {}
    calls = kinds.get("cuda_runtime", []) + kinds.get("cuda_driver", [])
    launches = sum("LaunchKernel" in call["name"] for call in calls)
    waits = sum("StreamSync" in c["name"] or "EventSync" in c["name"] for c in calls)
    work = [*kernels, *copies, *kinds.get("gpu_memset", [])]
    return {
        "launches": launches / count,
        "kernels": len(kernels) / count,
        "copies": len(copies) / count,
        "waits": waits / count,
        "busy_ms": busy(work) / 1e3 / count,
        "kernel": top([(short(e["name"]), e["dur"], 1) for e in kernels], count),
    }


def busy(events: list[dict[str, Any]]) -> float:
    """Microseconds in which at least one of the events was under way."""
    total, until = 0.0, float("-inf")
    for start, duration in sorted((float(e["ts"]), float(e["dur"])) for e in events):
        end = start + duration
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def top(rows: Iterable[tuple[str, float, int]], count: int) -> list[tuple[str, float, float]]:
    """Name, milliseconds and calls a step of those that take longest, and the sum of all."""
    times: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for name, microseconds, called in rows:
        times[name] += microseconds
        calls[name] += called
    longest = [(name, t, calls[name]) for name, t in times.most_common(TOP) if t > 0]
    everything = ("all", sum(times.values()), sum(calls[name] for name in times if times[name] > 0))
    return [(name, t / 1e3 / count, n / count) for name, t, n in (*longest, everything)]


def short(kernel: str) -> str:
    """The name of a kernel without what all of them have."""
    for part in ("void ", "at::native::", "(anonymous namespace)::", "at::cuda::"):
        kernel = kernel.replace(part, "")
    return kernel[:70]


# --- what is printed ------------------------------------------------------------------------------


def best_plain(cells: dict[str, Cell]) -> Cell:
    """The fastest plain loop, or the note of one if none has a time; a dash if there is none."""
    plain = [cell | {"name": name} for name, cell in cells.items() if name != OURS]
    nobody = {"name": "none", "note": "–"}
    return min(plain, key=lambda cell: cell.get("epoch", float("inf")), default=nobody)


def speed_up(cells: dict[str, Cell]) -> float | None:
    """Throughput of runs beside the plain loop's."""
    ours, plain = cells[OURS], best_plain(cells)
    return plain["run"] / ours["run"] if "run" in ours and "run" in plain else None


def show_comparison(
    title: str, pools: dict[str, dict[str, Cell]], args: argparse.Namespace
) -> None:
    """Print the table of one dataset."""
    on_gpu, several = args.device.startswith("cuda"), len(args.workers) > 1
    header = ["", "lcpool s/epoch", "s/epoch/run", "plain s/epoch", "speed-up per run"]
    header += ["lcpool MiB", "plain MiB"] if on_gpu else []
    header += ["fastest"] if several else []
    rows = []
    for pool, cells in pools.items():
        ours, plain, ratio = cells[OURS], best_plain(cells), speed_up(cells)
        row = [pool, text(ours, "epoch"), text(ours, "run"), text(plain, "epoch")]
        row.append("–" if ratio is None else f"{ratio:.2f}")
        row += [f"{cell['mib']:.0f}" if "mib" in cell else "–" for cell in (ours, plain)] * on_gpu
        row += [plain["name"]] * several
        rows.append(tuple(row))
    print()
    print_table(title, tuple(header), rows)
    sys.stdout.flush()


def text(cell: Cell, key: str) -> str:
    """A time; where the epoch's would stand, a note if there is none."""
    if key not in cell:
        return cell["note"] if key == "epoch" else "–"
    return f"{cell[key]:.4f}" if cell[key] < 1 else f"{cell[key]:.2f}"


def write_costs(results: Iterable[Cell], path: Path, host: dict[str, Any]) -> None:
    """A row for each dataset and pooling: what an epoch of lcpool's runs, trained as one, takes."""
    made = (host["gpu"] or host["cpu"], host["versions"]["lcpool"], host["versions"]["torch"])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(
            ["dataset", "pool", "seconds_per_epoch", "peak_mib", "device", "lcpool", "torch"]
        )
        for result in results:
            ours = result.get("cells", {}).get(OURS, {})
            if "epoch" in ours:
                mib = f"{ours['mib']:.1f}" if "mib" in ours else ""
                found = (f"{ours['epoch']:.5f}", mib)
                table.writerow([result["dataset"], result["pool"], *found, *made])


def describe(graphs: GraphSet, args: argparse.Namespace) -> str:
    """A dataset, and what an epoch of it is."""
    protocol = endless(args)
    split = protocol.split_of(graphs, 0)
    steps = len(protocol.batches(split.train, 0, 1))
    return (
        f"{graphs.name}: {steps} steps over {len(split.train):,} graphs, {len(split.val):,} to "
        f"validate; {args.runs} runs as one, and 1"
    )


def show_profile(title: str, cell: Cell) -> None:
    """Print what one loop's steps consist of."""
    print(f"\n{title}")
    if "note" in cell:
        print(cell["note"])
        return
    wall, ops = cell["step_ms"], cell["cpu"][-1][1]
    print(
        f"{wall:.2f} ms a step, {wall / cell['runs']:.2f} a step and run; with the profiler "
        f"{cell['profiled_step_ms']:.2f}, of which {ops:.2f} in ops on the CPU; "
        f"{cell['ops']:.0f} calls of torch's ops"
    )
    if "busy_ms" in cell:
        print(
            f"GPU busy {cell['busy_ms']:.2f} ms a step, {cell['busy_ms'] / wall:.0%}; "
            f"{cell['kernels']:.0f} kernels, {cell['launches']:.0f} launches, "
            f"{cell['copies']:.1f} copies, {cell['waits']:.1f} waits of the host for the GPU"
        )
    names = {"cpu": "ops by CPU time", "gpu": "ops by GPU time", "kernel": "kernels by GPU time"}
    for key, name in names.items():
        rows = cell.get(key, [])
        if rows and rows[-1][1]:
            lines = [(n, f"{t:.3f}", f"{t / rows[-1][1]:.0%}", f"{c:.1f}") for n, t, c in rows]
            print_table(f"{name}, own time", ("", "ms a step", "share", "calls a step"), lines)
    sys.stdout.flush()


# --- the command line -----------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--device", default="cpu", help="cpu, cuda, cuda:1, …")
    add("--datasets", nargs="+", default=["PROTEINS", "DD"], metavar="NAME",
        help="TU names, paths, or 'builtin', which needs no data")  # fmt: skip
    add("--root", help="where the datasets are; else LCPOOL_DATA, else they are downloaded")
    add("--pools", nargs="+", choices=CHOICES, default=list(POOLS), metavar="POOL",
        help=f"any of {', '.join(CHOICES)}; by default {', '.join(POOLS)}")  # fmt: skip
    add("--runs", type=int, default=10, help="runs that lcpool trains as one")
    add("--backbone", choices=BACKBONES, default="hierarchical")
    add("--conv", choices=SPARSE_CONVS, default="gcn")
    add("--hidden", type=int, default=128, help="width of the network")
    add("--epochs", type=int, default=2, help="epochs timed at a time")
    add("--repeats", type=int, default=5, help="how often each loop has its turn")
    add("--workers", nargs="*", type=int, default=[0], metavar="N",
        help="DataLoader workers of the plain loop; of several, the fastest counts; without a "
        "number there is no plain loop")  # fmt: skip
    add("--pin", action="store_true", help="let the plain loop copy from pinned memory")
    add("--threads", type=int, default=torch.get_num_threads(), help="threads on the CPU")
    add("--dense-limit", type=float, default=1.0, metavar="GIB",
        help="largest padded adjacency that the plain loop may make on a CPU")  # fmt: skip
    add("--seed", type=int, default=0)
    add("--profile", nargs="+", choices=CHOICES, metavar="POOL",
        help="instead, show where training steps of these spend their time")  # fmt: skip
    add("--steps", type=int, default=8, help="training steps to profile")
    add("--json", type=Path, metavar="FILE", help="where to save all numbers")
    add("--out", type=Path, metavar="FILE", help="where to write lcpool's costs as CSV")
    args = parser.parse_args()
    for name in ("runs", "epochs", "repeats", "threads", "steps"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return args


def compare_all(graphs: GraphSet, args: argparse.Namespace, save: Callable[[Cell], None]) -> None:
    """Compare on one dataset, pooling by pooling."""
    pools = {}
    for pool in args.pools:
        started = time.perf_counter()
        pools[pool] = cells = compare(graphs, pool, args)
        ratio = speed_up(cells)
        # A long job may be cut off before its table.
        figures = "; ".join(f"{name}: {text(cell, 'epoch')}" for name, cell in cells.items())
        taken = f"{time.perf_counter() - started:.0f} s for this"
        print(f"{graphs.name} {pool}, s/epoch: {figures} ({taken})", file=sys.stderr, flush=True)
        save({"dataset": graphs.name, "pool": pool, "cells": cells, "speed_up": ratio})
    show_comparison(describe(graphs, args), pools, args)


def profile_all(graphs: GraphSet, args: argparse.Namespace, save: Callable[[Cell], None]) -> None:
    """Profile both sides on one dataset, pooling by pooling."""
    for pool in args.profile:
        for name, contender in contend(graphs, pool, args).items():
            cell = profile(contender, args.steps)
            runs = args.runs if name == OURS else 1
            show_profile(f"{graphs.name} {pool}: {name}, runs in a step: {runs}", cell)
            save({"dataset": graphs.name, "pool": pool, "loop": name, "profile": cell})


def prepare(args: argparse.Namespace) -> None:
    """Quiet what would talk, and set up the device."""
    # PyG's ASAP goes through torch.sparse CSR, which announces itself as beta.
    warnings.filterwarnings("ignore", "Sparse")
    os.environ["KINETO_LOG_LEVEL"] = "99"  # or the profiler writes two lines for every profile
    torch.set_num_threads(args.threads)
    touch(args.device)


def main() -> None:
    args = arguments()
    prepare(args)
    host = machine(args.threads, args.device)
    show_machine(host)
    # Paths say something about this machine, not about the figures.
    paths = ("json", "out", "root")
    settings = {key: value for key, value in vars(args).items() if key not in paths}
    results: list[Cell] = []

    def save(result: Cell) -> None:
        results.append(result)
        if args.json:
            saved = {"machine": host, "settings": settings, "results": results}
            args.json.write_text(json.dumps(saved, indent=1))
        if args.out:
            write_costs(results, args.out, host)

    for dataset in args.datasets:
        try:
            graphs = load_dataset(dataset, root=args.root)
        except Exception as error:  # The other datasets may be there.
            print(f"{dataset}: {reason(error)}")
            save({"dataset": dataset, "note": reason(error)})
            continue
        (profile_all if args.profile else compare_all)(graphs, args, save)


if __name__ == "__main__":
    main()
