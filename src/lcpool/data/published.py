"""The accuracies that the paper reports, and its ranking."""

from __future__ import annotations

import csv
import functools
from importlib import resources


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
    text = resources.files("lcpool.data").joinpath("paper", name).read_text("utf-8")
    return csv.DictReader(text.splitlines())
