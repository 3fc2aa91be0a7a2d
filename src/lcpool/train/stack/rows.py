"""Which rows belong to which run, when several runs go through a network as one.

The nodes of all runs stand in one matrix, run after run. What holds parameters must know where each
run begins: at the level of the input's nodes, of the nodes after each pooling, and of the graphs.
Where a pooling knows its counts beforehand (k follows from n) the host knows them without asking
the GPU; where only selecting tells, they are read once the pooling was called.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from lcpool.graph.sizes import send

GRAPHS = -1  # the level behind the readout


class Running(NamedTuple):
    """Batch norm's running statistics, ``[runs, channels]``, and how it goes about them."""

    mean: Tensor
    var: Tensor
    momentum: float
    eps: float


@dataclass(frozen=True)
class RunRows:
    """``counts[r]`` rows of run r, run after run."""

    counts: list[int]
    device: torch.device

    @property
    def at_once(self) -> bool:
        """Whether a launch a run would cost more than to work on all runs at once."""
        return self.device.type != "cpu"

    @cached_property
    def even(self) -> bool:
        """Whether all runs have equally many rows."""
        return len(set(self.counts)) == 1

    @cached_property
    def total(self) -> int:
        """The rows of all runs together."""
        return sum(self.counts)

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        """The rows of each run, as views."""
        return torch.split(x, self.counts)

    @property
    def longest(self) -> int:
        """The most rows of a run."""
        return max(self.counts)

    @cached_property
    def table(self) -> Tensor:
        """Counts, first rows, and how far padding moves the rows; one copy to the device."""
        counts = torch.tensor(self.counts)
        first = counts.cumsum(0) - counts
        table = torch.stack([counts, first, torch.arange(len(counts)) * self.longest - first])
        return send(table, self.device)

    @property
    def sizes(self) -> Tensor:
        """The counts, on the device."""
        return self.table[0]

    @cached_property
    def run(self) -> Tensor:
        """The run of each row."""
        runs = torch.arange(len(self.counts), device=self.device)
        return runs.repeat_interleave(self.sizes, output_size=self.total)

    @cached_property
    def place(self) -> Tensor:
        """The place of each row where runs are padded to the longest, ``[rows]``."""
        return torch.arange(self.total, device=self.device) + self.table[2][self.run]


class Levels:
    """The :class:`RunRows` of every level of a network for the current batch, shared by layers."""

    def __init__(self) -> None:
        self.rows: dict[int, RunRows] = {}
        self.runs, self.device = 1, torch.device("cpu")

    def begin(self, node_counts: Tensor, runs: int, device: torch.device) -> None:
        """Lay out a new batch: its nodes, and its graphs.

        Args:
            node_counts: nodes of each graph, on the host; the graphs of run 0 first, and so on,
                equally many for each.
            runs: the number of runs.
            device: where the batch lies.
        """
        self.runs, self.device = runs, device
        self.rows = {GRAPHS: RunRows([node_counts.numel() // runs] * runs, device)}
        self.lay_out(0, node_counts)

    def lay_out(self, level: int, node_counts: Tensor) -> None:
        """Count the rows of each run at a level, from the nodes of each graph, on the host."""
        counts = node_counts.view(self.runs, -1).sum(1).tolist()
        self.rows[level] = RunRows(counts, self.device)


def level_of(name: str) -> int:
    """The level at which the part ``name`` of a backbone works.

    >>> level_of("pre.0"), level_of("pools.0.score.lin_x"), level_of("convs.1"), level_of("post.1")
    (0, 0, 1, -1)
    """
    part, *rest = name.split(".")
    if part in ("convs", "norms", "pools"):
        return int(rest[0])
    return GRAPHS if part == "post" else 0
