"""Whether two versions of lcpool compute the same, to the last bit.

    python benchmarks/bits.py --root DATASETS --out before.json        # in the old work tree
    python benchmarks/bits.py --root DATASETS --against before.json    # in the new one

Trains every pooling with every backbone and convolution for a few epochs and takes digests of the
losses and of all parameters and buffers after each epoch. Bits depend on the CPU, the number of
threads and the versions of torch and numba: compare on one machine, one after the other.

``--runs paper/results/paper/runs-fresh.csv`` instead trains cells of a table of runs again, to the
end, and compares the figures of each run with those in the table (on the kind of GPU they came
from).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from lcpool.data import load_dataset
from lcpool.models import BACKBONES
from lcpool.settings import PAPER_CONVS, POOLS
from lcpool.train import RULES, Result, Trainer, train

# Columns of a table of runs that must come out the same, and where they are in a run.
FIGURES = ("test_accuracy", "test_accuracy_by_loss", "val_accuracy", "val_loss", "epochs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, help="folder with the datasets")
    parser.add_argument("--datasets", nargs="+", default=["MUTAG", "ENZYMES"])
    parser.add_argument("--pools", nargs="+", default=list(POOLS))
    parser.add_argument("--backbones", nargs="+", default=list(BACKBONES))
    parser.add_argument("--convs", nargs="+", default=list(PAPER_CONVS))
    parser.add_argument("--num-runs", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write the digests to this file")
    parser.add_argument("--against", type=Path, help="compare with the digests in this file")
    parser.add_argument("--runs", type=Path, help="a table of runs to train again, to the end")
    parser.add_argument("--seconds", type=float, default=500.0, help="with --runs: stop after this")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    return replay(args) if args.runs else digests(args)


def cells(args: argparse.Namespace) -> list[tuple[str, ...]]:
    return list(itertools.product(args.datasets, args.pools, args.backbones, args.convs))


def digests(args: argparse.Namespace) -> int:
    """Train every cell for a few epochs; write digests, or compare them."""
    found = {}
    for cell in cells(args):
        found["/".join(cell)] = digest(args, *cell)
        print(*cell, found["/".join(cell)], flush=True)
    if args.out is not None:
        args.out.write_text(json.dumps(found, indent=1))
    if args.against is None:
        return 0
    before = json.loads(args.against.read_text())
    differ = [name for name, value in found.items() if before.get(name) != value]
    print(f"{len(found) - len(differ)} of {len(found)} cells have the same bits")
    for name in differ:
        print(f"  not the same: {name}")
    return 1 if differ else 0


def digest(args: argparse.Namespace, dataset: str, pool: str, backbone: str, conv: str) -> str:
    """A digest of losses, parameters and buffers after every epoch of one cell."""
    total = hashlib.sha256()

    def add(trainer: Trainer) -> None:
        for run in trainer.runs:
            total.update(repr(run.curves[-1]).encode())
        for name, value in sorted(trainer.stack.tensors().items()):
            # The names of layers may change; what they hold may not.
            total.update(name.rpartition(".")[2].encode())
            total.update(value.detach().cpu().contiguous().numpy().tobytes())

    train(
        dataset, pool, backbone, conv, args.num_runs, epochs=args.epochs, split="shared",
        device=args.device, root=args.root, on_epoch=add,
    )  # fmt: skip
    return total.hexdigest()[:16]


def replay(args: argparse.Namespace) -> int:
    """Train cells of a table again, to the end, and compare run by run."""
    started, same, count = time.monotonic(), 0, 0
    with args.runs.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for dataset, pool, backbone, conv in cells(args):
        names = {"dataset": dataset, "pool": pool, "backbone": backbone, "conv": conv}
        stored = {int(r["run"]): r for r in rows if all(r[n] == v for n, v in names.items())}
        if not stored or time.monotonic() - started > args.seconds:
            continue
        split, seed = (next(iter(stored.values()))[n] for n in ("split", "seed"))
        result = train(
            load_dataset(dataset, root=args.root), pool, backbone, conv, len(stored),
            split=split, seed=int(seed), device=args.device,
        )  # fmt: skip
        equal = [figures(result, n) == expected(stored[n]) for n in range(len(stored))]
        same, count = same + sum(equal), count + len(equal)
        print(dataset, pool, backbone, conv, f"{sum(equal)} of {len(equal)} runs", flush=True)
    print(f"{same} of {count} runs came out the same")
    return 0 if same == count else 1


def expected(row: dict[str, str]) -> list[float | None]:
    return [float(row[name]) if row[name] else None for name in FIGURES]


def figures(result: Result, number: int) -> list[Any]:
    run = result.runs[number]
    by_accuracy, by_loss = (run.choices[rule] for rule in RULES)
    tests = [100 * run.test[rule][0] for rule in RULES]
    return [*tests, 100 * by_accuracy.value, by_loss.loss, float(run.epochs)]


if __name__ == "__main__":
    sys.exit(main())
