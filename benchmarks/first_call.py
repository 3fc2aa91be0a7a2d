"""What a user waits for before the first result: import, the first call, the second.

    python benchmarks/first_call.py

Each row is a process of its own, which imports a layer and calls it twice, forward and backward, on
a graph of 64 nodes. "first ever" has an empty cache of compiled kernels (numba's), as after an
installation; "later" is a second process, with the cache that the first one wrote. PyG's TopK is
the peer. Seconds by the clock, and by the processor, which other programs disturb less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise

from operators import print_table

LAYERS = {
    "PyG's TopK": "from torch_geometric.nn import TopKPooling as Layer",
    "TopK": "from lcpool import TopKPooling as Layer",
    "LCPool": "from lcpool import LCPooling as Layer",
    "CellPool": "from lcpool import CellPooling as Layer",
    "ASAP": "from lcpool import ASAPooling as Layer",
}
CODE = """
import json, time
times = []
def done():
    times.append((time.perf_counter(), time.process_time()))
done()
{layer}
import torch
done()
torch.manual_seed(0)
x, edges = torch.randn(64, 32, requires_grad=True), torch.randint(64, (2, 200))
pool = Layer(32)
for _ in range(2):
    pool(x, edges.unique(dim=1))[0].sum().backward()
    done()
print(json.dumps(times))
"""


def measure(layer: str, cache: str) -> list[tuple[float, float]]:
    """Seconds of importing, of the first call and of the second, by clock and processor."""
    here = {**os.environ, "NUMBA_CACHE_DIR": cache}
    code = CODE.format(layer=LAYERS[layer])
    run = subprocess.run(
        [sys.executable, "-c", code], env=here, check=True, capture_output=True, text=True
    )
    times = json.loads(run.stdout)
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(times)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS))
    args = parser.parse_args()
    rows = []
    for layer in args.layers:
        with tempfile.TemporaryDirectory() as cache:
            for when in ("first ever", "later"):
                found = measure(layer, cache)
                shown = [f"{clock:.2f} ({processor:.2f})" for clock, processor in found]
                rows.append((layer, when, *shown))
    header = ("", "", "import", "first call", "second call")
    print_table("Seconds by the clock (by the processor)", header, rows)


if __name__ == "__main__":
    main()
