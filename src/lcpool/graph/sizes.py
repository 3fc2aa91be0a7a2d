"""How many nodes each graph of a batch has, known on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lcpool.graph.lazy import lazy
from lcpool.ops.operator import operator


@dataclass(frozen=True, eq=False)
class Sizes:
    """``counts[g]`` nodes of graph g, the nodes of graph 0 first, then those of graph 1, and so on.

    Attributes:
        counts: on the host, int64.
        ptr: the first node of each graph, and the end of the last, on the device of the nodes.
        total: the number of all nodes.
    """

    counts: Tensor
    ptr: Tensor
    total: int

    @classmethod
    def of(cls, counts: Tensor, device: torch.device, total: int | None = None) -> Sizes:
        """Let the device know what the host knows."""
        total = total_of(counts) if total is None else total
        return cls(counts, send(begins(counts), device), total)

    @classmethod
    def of_one(cls, total: int, device: torch.device) -> Sizes:
        """All nodes as one graph."""
        # Not a constant: what is computed from one while a call is traced would be one, too.
        counts = torch.full((1,), total, dtype=torch.int64, device="cpu")
        return cls.of(counts, device, total)

    @classmethod
    def by_graph(cls, batch: Tensor, batch_size: int) -> Sizes:
        """From the graph of each node, sorted. A GPU is waited for."""
        ptr = row_pointers(batch, batch_size)
        return cls(ptr.cpu().diff(), ptr, batch.numel())

    @lazy
    def batch(self) -> Tensor:
        """The graph of each node, on the device."""
        return owners(self.ptr, self.total)


class Total:
    """The sum of counts that are not all 0, as a number on the host."""

    @staticmethod
    def forward(counts: Tensor) -> int:
        """Add."""
        return int(counts.numpy().sum())

    @staticmethod
    def fake(counts: Tensor) -> Any:
        return torch.library.get_ctx().new_dynamic_size(min=1)


class Begins:
    """Where each of ``counts`` begins, and the end of the last, on the host."""

    @staticmethod
    def forward(counts: Tensor) -> Tensor:
        """By numpy, which is done before torch has begun."""
        ptr = np.zeros(counts.numel() + 1, np.int64)
        np.cumsum(counts.numpy(), out=ptr[1:])
        return torch.from_numpy(ptr)

    @staticmethod
    def fake(counts: Tensor) -> Tensor:
        return counts.new_empty(counts.numel() + 1)


total_of = operator("total(Tensor counts) -> SymInt", Total)
begins = operator("begins(Tensor counts) -> Tensor", Begins)


def longest(counts: Tensor) -> int:
    """The most of ``counts``, on the host, by numpy, which is done before torch has begun."""
    return int(counts.numpy().max(initial=0))


def row_pointers(row: Tensor, num_rows: int) -> Tensor:
    """Where each row begins among entries sorted by row, and the end of the last."""
    return torch.searchsorted(row, torch.arange(num_rows + 1, device=row.device))


def owners(ptr: Tensor, total: int) -> Tensor:
    """The group of each of ``total`` members, from where groups begin and end."""
    return torch.searchsorted(ptr[1:], torch.arange(total, device=ptr.device), right=True)


def send(values: Tensor, device: torch.device) -> Tensor:
    """Copy to a device. Only from pinned memory does a copy to a GPU not hold up the host."""
    if device.type == "cuda" and not torch.compiler.is_compiling():
        # On the host, whatever the default device.
        pinned = torch.empty(values.shape, dtype=values.dtype, device="cpu", pin_memory=True)
        values = pinned.copy_(values)
    return values.to(device, non_blocking=True)
