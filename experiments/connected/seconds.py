"""Seconds per epoch of the candidates, in turns on one machine: writes ``seconds.csv``.

    python -m experiments.connected.seconds

Ten runs as one, ratio 0.5, both networks, the three small datasets, LCPool and the candidates that
can win. Each trains one epoch that is not counted, then all train one epoch each, several times;
the median counts.
"""

from __future__ import annotations

import tomllib

import pandas as pd
import torch

from experiments.connected.analysis import HERE
from experiments.pace import paces
from lcpool.data import load_dataset
from lcpool.models import Architecture
from lcpool.settings import NetworkSettings

DATASETS = ["COX2", "ENZYMES", "PROTEINS"]
NETWORKS = [("hierarchical", "gcn"), ("plain", "graphconv")]


def main() -> None:
    """Measure, print and write."""
    torch.set_num_threads(1)
    grid = tomllib.loads((HERE / "grid.toml").read_text("utf-8"))["grid"]
    pools = next(part["pools"] for part in grid if part["ratio"] == NetworkSettings.ratio)
    pools = [pool for pool in pools if ":Random" not in pool]
    rows = []
    for dataset in DATASETS:
        graphs = load_dataset(dataset)
        for backbone, conv in NETWORKS:
            networks = [Architecture(pool=pool, backbone=backbone, conv=conv) for pool in pools]
            rows += [
                {"dataset": dataset, "backbone": backbone, "conv": conv, "ratio": 0.5,
                 "pool": pool, "seconds": seconds}
                for pool, seconds in zip(pools, paces(graphs, networks, "fresh", 1), strict=True)
            ]  # fmt: skip
            print(pd.DataFrame(rows[-len(pools) :]).to_string(index=False), flush=True)
    path = HERE / "seconds.csv"
    pd.DataFrame(rows).round(4).to_csv(path, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
