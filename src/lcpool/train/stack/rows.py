"""Which rows belong to which run, when several runs go through a network as one.

The nodes of all runs are in one matrix, run after run. Layers with parameters must know where each
run begins: at the level of the input's nodes, of the nodes after each pooling, and of the graphs.
If a pooling's counts are known beforehand, the host has them without synchronising with the GPU;
otherwise they are read after the pooling was called.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.graph.bounded import Bounded
from lcpool.graph.capture import NotCapturableError
from lcpool.graph.sizes import owners, send

GRAPHS = -1  # the level after the readout


def edges_of(level: int) -> int:
    """The level of the edges between the nodes of ``level``."""
    return -2 - level


class CannotStackError(TypeError):
    """Runs that cannot go through the network as one; the message says why."""


@dataclass(frozen=True)
class RunRows:
    """``counts[r]`` rows of run r, run after run."""

    counts: list[int]
    device: torch.device

    @property
    def at_once(self) -> bool:
        """Whether to work on all runs at once: on a GPU, one launch per run would cost more."""
        return self.device.type != "cpu"

    @cached_property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def longest(self) -> int:
        return max(self.counts)

    def all_have(self, count: int) -> bool:
        """Whether every run is known to have as many rows."""
        return min(self.counts) >= count

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        """The rows of each run, as views."""
        return torch.split(x, self.counts)

    @cached_property
    def table(self) -> Tensor:
        """Counts, first rows, and how far padding moves the rows; one copy to the device."""
        runs, longest = len(self.counts), self.longest
        if self.total == runs * longest:  # all as long: nothing need be copied
            first = torch.arange(runs, device=self.device) * longest
            return torch.stack([torch.full_like(first, longest), first, torch.zeros_like(first)])
        counts = torch.tensor(self.counts)
        first = counts.cumsum(0) - counts
        table = torch.stack([counts, first, torch.arange(len(counts)) * self.longest - first])
        return send(table, self.device)

    @cached_property
    def run(self) -> Tensor:
        """The run of each row."""
        runs = torch.arange(len(self.counts), device=self.device)
        return runs.repeat_interleave(self.table[0], output_size=self.total)

    def padded(self, x: Tensor) -> Tensor:
        """``[runs, longest, channels]``: the rows of each run, filled up with zeros."""
        runs = len(self.counts)
        if runs * self.longest != self.total:
            place = torch.arange(self.total, device=self.device) + self.table[2][self.run]
            x = x.new_zeros(runs * self.longest, x.size(-1)).index_copy_(0, place, x)
        return x.reshape(runs, self.longest, x.size(-1))

    def sums(self, values: Tensor) -> Tensor:
        """The sum over the rows of each run."""
        return self.padded(values).sum(1)

    def spread(self, values: Tensor) -> Tensor:
        """``values[r]`` for every row of run r."""
        if self.at_once:
            out: Tensor = Spread.apply(values, self)  # type: ignore[no-untyped-call]
            return out
        return torch.cat([v.expand(n, -1) for v, n in zip(values, self.counts, strict=True)])


@dataclass(frozen=True)
class BoundedRows(RunRows):
    """Rows whose numbers the device alone knows, for a step that is captured.

    ``counts`` are bounds. What is in the rows after the last run's is not used.
    """

    ptr: Tensor  # the first row of each run, and the end of the last
    capacity: int  # the rows of a tensor

    @classmethod
    def of(cls, sizes: Bounded) -> BoundedRows:
        """The nodes of each run."""
        per_run = sizes.counts.numel() // sizes.runs
        ptr = sizes.ptr[::per_run].contiguous()
        return cls([sizes.longest] * sizes.runs, ptr.device, ptr, sizes.total)

    @property
    def total(self) -> int:
        return self.capacity

    def all_have(self, count: int) -> bool:
        return False

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        raise NotCapturableError("its layers work run by run: features are not float32")

    def padded(self, x: Tensor) -> Tensor:
        raise NotCapturableError("its layers fill up the rows of runs")

    @cached_property
    def table(self) -> Tensor:
        return torch.stack([self.ptr.diff(), self.ptr[:-1]])

    @cached_property
    def run(self) -> Tensor:
        """The run of each row, of the last for rows that are no run's."""
        return owners(self.ptr, self.capacity).clamp_(max=len(self.counts) - 1)

    def sums(self, values: Tensor) -> Tensor:
        """The sum over the rows of each run."""
        from lcpool.train.stack.gpu import run_sums

        return run_sums(values, self)


class Spread(torch.autograd.Function):
    """``values[r]`` for every row of run r; gradients are summed in a fixed order."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: RunRows) -> Tensor:
        ctx.rows = rows
        return values.index_select(0, rows.run)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.rows.sums(grad), None


def level_of(name: str, depth: int = 1) -> int:
    """The level at which the part ``name`` of a backbone of ``depth`` convolutions a level works.

    >>> level_of("pre.0"), level_of("pools.0.score.lin_x"), level_of("convs.1"), level_of("post.1")
    (0, 0, 1, -1)
    >>> level_of("convs.5.nn.0", depth=3)
    1
    """
    part, *rest = name.split(".")
    if part in ("convs", "norms"):
        return int(rest[0]) // depth
    if part in ("pools", "readouts"):
        return int(rest[0])
    return GRAPHS if part == "post" else 0
