"""The accuracies that the paper reports, and its ranking."""

from __future__ import annotations

import csv
import functools
from dataclasses import replace
from pathlib import Path

import numpy as np

from lcpool.report import Comparison, Reference
from lcpool.report.statistics import Array
from lcpool.sweep.results import Results
from paper.datasets import paper_datasets

OURS = "lcpool"
# A variant of it, which the paper does not rank.
VARIANT = "lcpool*"
# What the paper's means and deviations are taken over.
PAPER_RUNS = 10


def published(dataset: str, backbone: str, conv: str, pool: str) -> tuple[float, float] | None:
    """Mean and standard deviation of the paper's test accuracy in percent; None if not reported.

    Args:
        dataset: the name of the dataset.
        backbone: "hierarchical" or "plain".
        conv: "gcn" or "graphconv".
        pool: the pooling's name in the paper.

    Example:
        >>> published("PROTEINS", "hierarchical", "gcn", "nopool")
        (75.0, 2.0)
        >>> published("builtin", "hierarchical", "gcn", "nopool") is None
        True
    """
    return _accuracies().get((dataset, backbone, conv, pool))


def reference() -> Reference:
    """The paper's accuracies, to be shown beside ours in a report."""
    return Reference("paper", _accuracies(), PAPER_RUNS)


def in_paper_order(results: Results) -> Results:
    """The same runs, datasets in the paper's order; others come last."""
    order = list(dict.fromkeys([*paper_datasets(), *results.runs["dataset"]]))
    runs = results.runs.sort_values(
        "dataset", key=lambda names: names.map(order.index), kind="stable", ignore_index=True
    )
    return replace(results, runs=runs)


def published_beside(c: Comparison) -> Array | None:
    """``c.means`` as the paper has them, NaN for the cell that it does not report.

    None if it knows nothing of a pooling or a group.
    """
    nothing = (np.nan, np.nan)
    rows = [
        [(published(g.dataset, g.backbone, g.conv, pool) or nothing)[0] for pool in c.pools]
        for g in c.groups.itertuples()
    ]
    means = np.array(rows).reshape(c.means.shape)
    known = ~np.isnan(means)
    return means if known.any(axis=0).all() and known.any(axis=1).all() else None


@functools.cache
def published_ranks() -> dict[tuple[str, str], dict[str, float]]:
    """The paper's table of average ranks as it is printed: by backbone and convolution, pooling.

    Example:
        >>> published_ranks()["hierarchical", "graphconv"]["nopool"]
        2.33
    """
    return {
        (row.pop("backbone"), row.pop("conv")): {pool: float(rank) for pool, rank in row.items()}
        for row in _rows("ranking.csv")
    }


@functools.cache
def _accuracies() -> dict[tuple[str, str, str, str], tuple[float, float]]:
    """The paper's tables, by dataset, backbone, convolution and pooling."""
    return {
        (row["dataset"], row["backbone"], row["conv"], row["pool"]): (
            float(row["mean"]),
            float(row["std"]),
        )
        for row in _rows("accuracy.csv")
        if row["mean"]  # One cell of the paper's is empty.
    }


def _rows(name: str) -> csv.DictReader[str]:
    text = Path(__file__).with_name(name).read_text("utf-8")
    return csv.DictReader(text.splitlines())
