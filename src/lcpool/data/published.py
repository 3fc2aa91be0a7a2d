"""The accuracies that the paper reports."""

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
def _accuracies() -> dict[tuple[str, str, str, str], tuple[float, float]]:
    """The paper's tables, by dataset, backbone, convolution and pooling."""
    text = resources.files("lcpool.data").joinpath("paper/accuracy.csv").read_text("utf-8")
    return {
        (row["dataset"], row["backbone"], row["conv"], row["pool"]): (
            float(row["mean"]),
            float(row["std"]),
        )
        for row in csv.DictReader(text.splitlines())
        if row["mean"]  # One cell of the paper's is empty.
    }
