"""Runs made up from a seed, in the shape that a sweep gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from lcpool.models import BACKBONES, Architecture
from lcpool.settings import POOLS, flat
from lcpool.sweep.columns import NAMES
from lcpool.sweep.grid import PAPER_DATASETS
from lcpool.sweep.results import Results, key
from lcpool.train import Protocol

DATASETS = PAPER_DATASETS
SIZES = {"PROTEINS": 1113, "ENZYMES": 600, "Mutagenicity": 4337, "DD": 1178, "NCI1": 4110}
# Names that would be markup, were they not names.
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"' onmouseover='alert(1)",
    "{{ 7 * 7 }}",
    "]]>&lt;b&gt;",
)


def make_results(
    datasets=DATASETS,
    backbones=BACKBONES,
    convs=("gcn", "graphconv"),
    pools=POOLS,
    runs=3,
    split="fresh",
    epochs=6,
    seed=0,
    architecture: Architecture | None = None,
    protocol: Protocol | None = None,
    figures: Mapping[tuple[str, ...], tuple[float, float]] | None = None,
) -> Results:
    """Accuracies around the mean of each cell's figure, 70 where it has none."""
    random, rows, curves = np.random.default_rng(seed), [], {}
    protocol = replace(protocol or Protocol(), split=split)
    settings = flat(architecture or Architecture(), protocol)
    for dataset in datasets:
        for backbone in backbones:
            for conv in convs:
                for pool in pools:
                    # As plain values, since an Architecture takes only names that it knows.
                    named = {"backbone": backbone, "conv": conv, "pool": pool}
                    config = {**settings, **named}
                    mean, std = (figures or {}).get((dataset, backbone, conv, pool), (70.0, 3.0))
                    for run in range(runs):
                        row = _row(random, mean, std, epochs, SIZES.get(dataset, 467))
                        row |= {
                            **named, "dataset": dataset, "run": run, "split": split,
                            "seed": protocol.seed, "config": json.dumps(config, sort_keys=True),
                        }  # fmt: skip
                        rows.append(row)
                        curves[key(row)] = _curve(random, epochs, mean)
    return Results(pd.DataFrame(rows, columns=NAMES), curves)


def _row(random, mean: float, std: float, epochs: int, size: int) -> dict[str, Any]:
    by_accuracy, by_loss = (float(v) for v in np.clip(random.normal(mean, std, 2), 0, 100))
    return {
        "test_accuracy": by_accuracy, "test_accuracy_by_loss": by_loss, "val_accuracy": mean,
        "val_loss": 0.5, "epoch": epochs, "epoch_by_loss": epochs, "epochs": epochs,
        "diverged": np.nan, "seconds": float(random.uniform(1, 20)),
        "peak_memory": int(random.integers(2**20, 2**32)), "stack": 10,
        "num_train": size * 8 // 10, "num_val": size // 10, "num_test": size // 10 + 1,
        "device": "a GPU", "lcpool": "0.1.0", "torch": "2", "pyg": "2", "python": "3",
        "commit": "0" * 40,
    }  # fmt: skip


def _curve(random, epochs: int, mean: float) -> np.ndarray:
    rising = mean / 100 * (1 - np.exp(-np.arange(1, epochs + 1) / 2))
    noise = random.normal(0, 0.01, (epochs, 3))
    return (np.column_stack([1 - rising, 1.1 - rising, rising]) + noise).astype(np.float32)
