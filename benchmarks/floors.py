"""What LCPool cannot do without, and how far it is from that.

    python benchmarks/floors.py --shapes PROTEINS DD --sizes 32 320 --device cpu

Multiplications: LCSMP's three products X·W_d, D·W_fd and X·W_x and their two gradients each, 9 n c²
for n nodes of c features. Bytes: X and the edges are read, X' and A' written; on the way back the
gradient of X' and X again are read, and the gradient of X is written. Whatever else is moved (what
lies between the products, and is kept for the way back) is this implementation's own.

The floor is the longer of two times: the multiplications at the speed of a large matrix product,
torch's or lcpool's, whichever is faster, and the bytes at the speed of a large copy, all measured
here, in the same run. Next to it stand the same products as separate calls of torch on this batch.
"""

from __future__ import annotations

import argparse
import statistics

import torch
from operators import Step, call_local, floor_step, machine, milliseconds, print_table, show_machine
from shapes import SHAPES, TU, draw

import lcpool
from lcpool.ops.matmul import matmul

WARM_UPS = 5
LARGE = 4096


def medians(steps: dict[str, Step], args: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of each step, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(WARM_UPS + args.repeats):
        for name, step in steps.items():
            times[name].append(milliseconds(step, args.device))
    return {name: statistics.median(taken[WARM_UPS:]) for name, taken in times.items()}


def speeds(args: argparse.Namespace) -> tuple[float, float]:
    """Multiplications and bytes a millisecond."""
    x = torch.randn(LARGE, LARGE, device=args.device)
    many = torch.randn(LARGE * LARGE, device=args.device)  # 64 MiB, beyond the caches of a CPU
    other = torch.empty_like(many)
    steps = {
        "torch": Step(lambda: [x @ x], []),
        "lcpool": Step(lambda: [matmul(x, x)], []),
        "copy": Step(lambda: [other.copy_(many)], []),
    }
    found = medians(steps, args)
    return LARGE**3 / min(found["torch"], found["lcpool"]), 2 * many.nbytes / found["copy"]


def row(shape: str, count: int, speed: tuple[float, float], args: argparse.Namespace) -> list[str]:
    """One batch."""
    torch.manual_seed(args.seed)
    data = draw(SHAPES[shape], count, args.channels, args.seed, args.device)
    pool = lcpool.LCPooling(args.channels, args.ratio).to(args.device)
    out = pool(data.x, data.edge_index, batch=data.batch)
    multiplications = 9 * data.x.size(0) * args.channels**2
    moved = 3 * data.x.nbytes + data.edge_index.nbytes + 2 * out.x.nbytes + out.edge_index.nbytes
    steps = {
        "lcpool": Step(lambda: call_local(pool, data), [data.x, *pool.parameters()]),
        "products": floor_step(pool.score, data.x),
    }
    found = medians(steps, args)
    by = (multiplications / speed[0], moved / speed[1])
    floor = max(by)
    return [
        f"{shape} × {count}", f"{data.x.size(0):,}", f"{multiplications / 1e6:.0f}",
        f"{moved / 2**20:.1f}", *(f"{ms:.2f}" for ms in (*by, found["products"], found["lcpool"])),
        f"{found['lcpool'] / floor:.1f}", f"{found['lcpool'] / found['products']:.2f}",
    ]  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--shapes", nargs="+", choices=SHAPES, default=list(TU), metavar="SHAPE")
    add("--sizes", nargs="+", type=int, default=[32, 320], help="numbers of graphs in a batch")
    add("--channels", type=int, default=128)
    add("--ratio", type=float, default=0.5)
    add("--device", default="cpu")
    add("--threads", type=int, default=torch.get_num_threads())
    add("--repeats", type=int, default=30)
    add("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    show_machine(machine(args.threads, args.device))
    speed = speeds(args)
    print(f"{speed[0] / 1e6:,.0f} · 10⁹ multiplications and {speed[1] / 1e6:,.0f} GB a second")
    rows = [row(shape, count, speed, args) for shape in args.shapes for count in args.sizes]
    header = (
        "", "nodes", "10⁶ ×", "MiB", "× ms", "MiB ms", "products", "LCPool", "÷ floor",
        "÷ products",
    )  # fmt: skip
    print_table("LCPool forward + backward and its floors", header, [tuple(r) for r in rows])


if __name__ == "__main__":
    main()
