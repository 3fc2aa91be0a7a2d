"""The floor of a sweep: how long the GPU works in a training step of each pooling and dataset.

    python benchmarks/steps.py --datasets PROTEINS NCI1 DD --pools nopool lcpool
    python benchmarks/steps.py paper/results/paper/runs-fresh.csv --sweep sweep.csv

A step trains some runs as one, half of them with either backbone. It is captured as a CUDA graph
and replayed: "busy" is the time in which at least one kernel ran, "replay" the time by the clock,
and with ``--eager`` "eager" that of the same step launched kernel by kernel. With a table of runs,
the busy time is multiplied by the steps that their stacks took: a lower bound for one process, that
several processes which share the GPU can beat, where their kernels run side by side. A stack
becomes cheaper when its runs end: ``--ended`` shows it.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from operators import machine, print_table, show_machine
from sweep import STACK, numbered, stacks
from torch.profiler import ProfilerActivity, profile
from training import busy

from lcpool.data import GraphSet, load_dataset
from lcpool.models import CONVS, POOLINGS, Architecture
from lcpool.settings import POOLS
from lcpool.sweep.results import Results
from lcpool.train import Protocol, Trainer

TU = ["COX2", "DD", "ENZYMES", "Mutagenicity", "NCI1", "PROTEINS"]
REPLAYS = 20


class Step(NamedTuple):
    """Milliseconds of a step, and how many kernels it launches."""

    busy: float
    replay: float
    kernels: float
    eager: float | None


def trainer_of(graphs: GraphSet, conv: str, pool: str, runs: int, capture: bool) -> Trainer:
    backbones = ["hierarchical", "plain"] * (runs // 2) + ["plain"] * (runs % 2)
    architecture = Architecture(conv=conv, pool=pool)
    protocol = Protocol(epochs=10**6, patience=10**6)
    return Trainer(
        graphs, architecture, protocol, range(runs), backbones=backbones, capture=capture
    )


def clock(call: Any) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def step_of(trainer: Trainer, eager: Trainer | None) -> Step | None:
    """What a step takes; None if it cannot be captured."""
    for _ in range(3):  # the first compiles, the second captures
        trainer.train_epoch()
    if trainer._steps is None or trainer.notes:
        return None
    replayed = max(trainer._steps.training.values(), key=lambda one: one.feed.size)
    count = min(REPLAYS, len(replayed.table))

    def replay() -> None:
        replayed.step.zero_()
        for _ in range(count):
            replayed.captured.replay()

    replay_ms = statistics.median(clock(replay) for _ in range(5)) / count
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        replay()
        torch.cuda.synchronize()
    kernels = [
        {"ts": event.time_range.start, "dur": event.time_range.elapsed_us()}
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    eager_ms = None
    if eager is not None:
        eager.train_epoch()
        steps = len(eager.protocol.batches(eager.splits[0].train, 0, 1))
        eager_ms = statistics.median(clock(eager._train) for _ in range(3)) / steps
    return Step(busy(kernels) / 1e3 / count, replay_ms, len(kernels) / count, eager_ms)


def text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def end_runs(graphs: GraphSet, conv: str, pool: str, runs: int) -> list[tuple[str, ...]]:
    """Milliseconds of a step in which some runs have ended."""
    trainer, rows = trainer_of(graphs, conv, pool, runs, True), []
    for _ in range(3):
        trainer.train_epoch()
    for left in (runs, runs // 2, runs // 4, 1):
        trainer.active = list(range(left))
        trainer.train_epoch()
        assert trainer._steps is not None
        replayed = max(trainer._steps.training.values(), key=lambda one: one.feed.size)

        def replay(one: Any = replayed) -> None:
            one.step.zero_()
            for _ in range(min(REPLAYS, len(one.table))):
                one.captured.replay()

        ms = statistics.median(clock(replay) for _ in range(5)) / min(REPLAYS, len(replayed.table))
        rows.append((graphs.name, pool, str(runs), str(left), f"{ms:.3f}"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("runs", nargs="*", help="stores, or CSV files exported from them: add up their steps")
    add("--datasets", nargs="+", default=TU)
    add("--root", help="where the datasets are")
    add("--convs", nargs="+", choices=CONVS, default=["gcn", "graphconv"])
    add("--pools", nargs="+", choices=POOLINGS, default=list(POOLS))
    add("--stack", type=int, default=20, help="runs that train as one")
    add("--eager", action="store_true", help="measure steps that are not captured, too")
    add("--ended", action="store_true", help="only show steps of stacks in which runs have ended")
    add("--sweep", type=Path, help="where to write all numbers as CSV")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    show_machine(machine(torch.get_num_threads(), "cuda"))
    found: dict[tuple[str, str, str], Step | None] = {}
    rows = []
    for name in args.datasets:
        graphs = load_dataset(name, root=args.root).to("cuda")
        for conv in args.convs:
            for pool in args.pools:
                if args.ended:
                    rows += end_runs(graphs, conv, pool, args.stack)
                    continue
                eager = trainer_of(graphs, conv, pool, args.stack, False) if args.eager else None
                trainer = trainer_of(graphs, conv, pool, args.stack, True)
                found[name, conv, pool] = one = step_of(trainer, eager)
                print(name, conv, pool, one, file=sys.stderr, flush=True)
                del trainer, eager
                gc.collect()
                torch.cuda.empty_cache()
    if args.ended:
        header = ("", "pooling", "runs", "of which go on", "ms per step")
        print_table("Steps of stacks in which runs have ended", header, rows)
        return
    for (name, conv, pool), one in found.items():
        times = ("not captured", "", "", "")
        if one is not None:
            times = f"{one.busy:.3f}", f"{one.replay:.3f}", f"{one.kernels:.0f}", text(one.eager)
        rows.append((name, conv, pool, *times))
    header = ("", "conv", "pooling", "busy ms", "replay ms", "kernels", "eager ms")
    print_table(f"A step of {args.stack} runs", header, rows)
    if args.sweep:
        lines = [",".join(map(str, row)) for row in (("dataset", *header[1:]), *rows)]
        args.sweep.write_text("\n".join(lines) + "\n")
    if args.runs:
        table = stacks(numbered(Results.read(*args.runs).runs), STACK)
        total = steps = 0.0
        for row in table.itertuples():
            one = found.get((row.dataset, row.conv, row.pool))
            if one is not None:
                total += row.steps * one.busy / 1e3
                steps += row.steps
        share = steps / table["steps"].sum()
        print(f"{steps / 1e3:.0f} thousand steps ({share:.0%}): {total / 60:.1f} minutes busy")


if __name__ == "__main__":
    main()
