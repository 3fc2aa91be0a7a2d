"""Train everything of the plan: ``python -m experiments.distance.run``.

It continues where it was stopped (``build/distance.sqlite``), and writes ``runs.csv`` beside this
file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.distance.graphs import far, near
from lcpool import compare
from lcpool.data.graphset import GraphSet
from lcpool.sweep.results import Results

HERE = Path(__file__).parent
STORE = Path("build/distance.sqlite")
SEED = 3
DISTANCES = {far: (2, 4, 8, 16), near: (4, 16)}
POOLS = (
    "nopool", "topkpool", "sagpool", "asapool", "diffpool", "mincutpool", "dmon", "lcpool",
    "cellpool", "kmis", "edgepool", "graclus", "random", "randomassign",
)  # fmt: skip
SETTINGS: dict[str, Any] = {
    "backbone": "plain", "poolings": 3, "hidden": 32, "lr": 2e-3, "epochs": 150, "patience": 40,
    "split": "stratified", "seed": SEED, "runs": 5,
}  # fmt: skip
# Controls without a pooling: four times the convolutions, and none that reads an edge.
CONTROLS: tuple[dict[str, Any], ...] = (
    {"conv": "graphconv", "depth": 4},
    {"conv": "experiments.benchmark.networks:WithoutEdges"},
)


def datasets() -> dict[str, GraphSet]:
    """All sets by name, those of the first family first."""
    made = [family(d, SEED) for family, several in DISTANCES.items() for d in several]
    return {graphs.name: graphs for graphs in made}


def main() -> None:
    """Train what the store does not have yet, and export all runs."""
    STORE.parent.mkdir(exist_ok=True)
    common = {**SETTINGS, "store": STORE, "workers": 2, "device": "cpu", "progress": True}
    compare(datasets(), list(POOLS), conv="graphconv", **common)
    for control in CONTROLS:
        compare(datasets(), "nopool", **control, **common)
    print(f"all runs are in {Results.read(STORE).write(HERE / 'runs.csv')}")


if __name__ == "__main__":
    main()
