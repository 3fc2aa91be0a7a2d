"""Training on a busy CPU: how long torch's threads look for work before they sleep.

    python benchmarks/busy.py --dataset PROTEINS --others 3

Each row is a process of its own, which trains ten runs as one on two threads and times epochs,
first alone, then beside ``--others`` processes that keep a core busy each. The commands of
``lcpool`` set GOMP_SPINCOUNT; in a program of your own set one of these before torch is imported. A
row that takes longer than ``--most`` seconds is ended.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from operators import machine, print_table, show_machine

from lcpool.cli import SPINS

SETTINGS: dict[str, dict[str, str]] = {
    "torch's default": {},
    "GOMP_SPINCOUNT=10000": {"GOMP_SPINCOUNT": "10000"},
    f"GOMP_SPINCOUNT={SPINS}, as lcpool's commands": {"GOMP_SPINCOUNT": SPINS},
    "OMP_WAIT_POLICY=passive": {"OMP_WAIT_POLICY": "passive"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
CODE = """
import time
from lcpool.data import load_dataset
from lcpool.models import Architecture
from lcpool.train import Protocol, Trainer
trainer = Trainer(load_dataset({dataset!r}), Architecture(pool={pool!r}), Protocol(), range(10))
trainer.train_epoch()
trainer.train_epoch()
first = trainer.pace
trainer.train_epoch()
print(min(first, trainer.pace))
"""


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Other programs that work without a pause."""
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def seconds(code: str, setting: dict[str, str], most: float) -> str:
    """Seconds of an epoch, the faster of two."""
    ours = {"OMP_NUM_THREADS", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}
    here = {key: value for key, value in os.environ.items() if key not in ours}
    here |= {"OMP_NUM_THREADS": "2", **setting}
    try:
        run = subprocess.run(
            [sys.executable, "-c", code], env=here, check=True, capture_output=True, text=True,
            timeout=most,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"> {most / 3:.0f}"  # three epochs did not end
    return f"{float(run.stdout):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="PROTEINS")
    parser.add_argument("--pool", default="nopool")
    parser.add_argument("--others", type=int, default=3)
    parser.add_argument("--most", type=float, default=90)
    args = parser.parse_args()
    show_machine(machine(2))
    code = CODE.format(dataset=args.dataset, pool=args.pool)
    rows = []
    for name, setting in SETTINGS.items():
        alone = seconds(code, setting, args.most)
        with busy(args.others):
            rows.append((name, alone, seconds(code, setting, args.most)))
    header = ("", "alone", f"beside {args.others} others")
    print_table(
        f"Seconds of an epoch, {args.pool} on {args.dataset}, ten runs as one", header, rows
    )


if __name__ == "__main__":
    main()
