"""How long a job will take: a guess beforehand, better with every cell that finishes."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from lcpool.sweep.grid import Cell
from lcpool.sweep.store import Store

# The first guess: rough figures, not measurements. Only the order of cells depends on it, until the
# first of them has finished.
POOL_COST = {"nopool": 1.0, "topkpool": 1.1, "sagpool": 1.3, "asapool": 3.0, "diffpool": 1.5,
             "mincutpool": 1.4, "lcpool": 2.0, "lcpool*": 2.2}  # fmt: skip
OWN_COST = 2.0
STEP_SECONDS = 0.02
NODE_SECONDS = 2e-5  # on a CPU; a GPU takes many at once
USUAL_EPOCHS = 150
# How strongly the effects of a dataset, pooling, … are held to zero, in observations.
RIDGE = 0.5


class Estimate:
    """Seconds that runs take which are trained as one, learnt from those in a store.

    The logarithm of the ratio of time taken to first guess is the sum of an overall effect and
    effects of dataset, pooling, convolution, backbone and split, fitted by ridge regression.

    Args:
        store: where finished runs are.
        cuda: whether a GPU trains; a CPU's runs say nothing about it, nor the other way round.
    """

    def __init__(self, store: Store, cuda: bool) -> None:
        self.store, self.cuda = store, cuda
        self.effects: dict[object, float] = {}

    def learn(self, cells: Iterable[Cell]) -> None:
        """Fit to the stacks that have finished: what a step costs, a stack's runs share."""
        taken = self.store.rows(
            "SELECT mates, sum(seconds) AS seconds, count(*) AS runs FROM runs "
            "WHERE (device != 'CPU') = ? GROUP BY mates",
            self.cuda,
        )
        known = {cell.id: cell for cell in cells}
        traits, logs = [], []
        for row in taken:
            mates = (known.get(cell) for cell, _ in json.loads(row["mates"]))
            cell = next(filter(None, mates), None)
            if cell is not None and row["seconds"] > 0:
                traits.append(_traits(cell))
                logs.append(math.log(row["seconds"] / self.guess(cell, row["runs"])))
        if logs:
            self.effects = _fit(traits, logs)

    def guess(self, cell: Cell, runs: int) -> float:
        """Seconds for some runs of a cell, before anything is known."""
        a, p, data = cell.architecture, cell.protocol, cell.dataset
        steps = data.graphs / p.batch_size * STEP_SECONDS
        nodes = data.nodes * runs * NODE_SECONDS * a.hidden / 128 / (200 if self.cuda else 1)
        epochs = min(p.epochs, max(USUAL_EPOCHS, p.patience))
        return epochs * a.poolings * POOL_COST.get(a.pool, OWN_COST) * (steps + nodes)

    def seconds(self, runs: Sequence[tuple[Cell, int]], stack: int | None = None) -> float:
        """Seconds for runs that are trained as one, or in stacks of at most ``stack``."""
        cell, size = runs[0][0], stack or len(runs)
        effect = sum(self.effects.get(trait, 0.0) for trait in _traits(cell))
        stacks = [len(runs[start : start + size]) for start in range(0, len(runs), size)]
        return math.exp(effect) * sum(self.guess(cell, count) for count in stacks)


def time_left(at_work: Iterable[float], waiting: Iterable[float], slots: int) -> float:
    """Seconds until all is done, much as if whoever is free took the longest that waits.

    Args:
        at_work: seconds left of each job that is being trained.
        waiting: seconds of each job that is not.
        slots: how many are trained at once.

    Example:
        >>> time_left([5.0], [4.0, 2.0], slots=2)
        6.0
    """
    ends = sorted(at_work)
    free = [0.0] * max(0, slots - len(ends)) + ends
    heapq.heapify(free)
    for seconds in sorted(waiting, reverse=True):
        heapq.heapreplace(free, free[0] + seconds)
    return max(free, default=0.0)


def _traits(cell: Cell) -> list[object]:
    """What the time may depend on; the first is common to all."""
    split, names = cell.protocol.split, ("dataset", "backbone", "conv", "pool")
    return ["all", *zip(names, cell.names, strict=True), ("split", split)]


def _fit(traits: list[list[object]], logs: list[float]) -> dict[object, float]:
    names = list(dict.fromkeys(trait for row in traits for trait in row))
    design: NDArray[np.float64] = np.array(
        [[float(name in row) for name in names] for row in traits]
    )
    ridge = np.diag([0.0 if name == "all" else RIDGE for name in names])
    solution = np.linalg.solve(design.T @ design + ridge, design.T @ np.array(logs))
    return dict(zip(names, solution.tolist(), strict=True))
