"""Seconds of an epoch of several networks, in turns: noise of the machine meets all alike."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from lcpool.data import GraphSet
from lcpool.models import Architecture
from lcpool.train import Protocol, Trainer

RUNS = 10  # trained as one


def paces(
    graphs: GraphSet, networks: Sequence[Architecture], split: str, seed: int, turns: int = 3
) -> list[float]:
    """The median seconds of an epoch of each network; one epoch before them is not counted."""
    protocol = Protocol(epochs=10**9, patience=10**9, split=split, seed=seed)
    trainers = [Trainer(graphs, network, protocol, range(RUNS)) for network in networks]
    taken: list[list[float]] = [[] for _ in trainers]
    for turn in range(1 + turns):
        for trainer, seconds in zip(trainers, taken, strict=True):
            trainer.train_epoch()
            if turn:
                seconds.append(trainer.pace)
    return [statistics.median(seconds) for seconds in taken]
