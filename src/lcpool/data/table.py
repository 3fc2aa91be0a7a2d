"""The paper's table of datasets, and whether what was read agrees with it."""

from __future__ import annotations

import csv
import functools
from importlib import resources
from typing import NamedTuple

from lcpool.data.graphset import GraphSet

# Half of the last decimal that the paper prints.
TOLERANCE = 0.005

QUANTITIES = ("graphs", "classes", "avg_nodes", "avg_edges", "node_labels", "node_attributes")


class Figure(NamedTuple):
    """One figure of one dataset: as published (None where it is not) and as read."""

    quantity: str
    paper: float | None
    read: float

    @property
    def agrees(self) -> bool:
        """Whether the two are the same at the paper's precision."""
        return self.paper is None or abs(self.read - self.paper) <= TOLERANCE


@functools.cache
def paper_datasets() -> dict[str, dict[str, float]]:
    """The paper's figures by dataset and quantity, in its order."""
    text = resources.files("lcpool.data").joinpath("paper/datasets.csv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    return {row.pop("dataset"): {key: float(row[key]) for key in row} for row in rows}


def check(graphs: GraphSet) -> list[Figure]:
    """What was read of a dataset, next to what the paper says of it."""
    paper = paper_datasets().get(graphs.name, {})
    return [Figure(key, paper.get(key), value) for key, value in figures(graphs).items()]


def figures(graphs: GraphSet) -> dict[str, float]:
    """The quantities of the paper's table. An undirected edge counts once, though stored twice."""
    count = max(len(graphs), 1)
    values = (
        len(graphs),
        graphs.num_classes,
        graphs.x.size(0) / count,
        graphs.edge_index.size(1) / 2 / count,
        len(graphs.label_widths),
        graphs.num_features - sum(graphs.label_widths),
    )
    return dict(zip(QUANTITIES, values, strict=True))
