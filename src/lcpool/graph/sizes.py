"""How many nodes each graph of a batch has, known on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lcpool.graph.capture import check_copies
from lcpool.graph.lazy import lazy
from lcpool.ops.operator import as_operator, is_traced, new_size


class Sizes:
    """The number of nodes of each graph; the nodes are sorted by graph.

    Attributes:
        counts: ``counts[g]`` nodes of graph g, on the host, int64.
        ptr: the first node of each graph, and the end of the last, on the device of the nodes.
        total: the number of all nodes.
    """

    def __init__(self, counts: Tensor, device: torch.device) -> None:
        if not is_traced():
            right = (
                counts.dim() == 1 and counts.dtype == torch.int64 and counts.device.type == "cpu"
            )
            if not right or counts.numpy().min(initial=0) < 0:
                raise ValueError(
                    f"'counts' must be int64 numbers of nodes, one per graph, on the CPU, not "
                    f"{counts}."
                )
        self.counts, self.ptr = counts, send(begins(counts), device)
        self.total = total_of(counts)

    @classmethod
    def trusted(cls, counts: Tensor, ptr: Tensor, total: int) -> Sizes:
        """From values that are known to agree: kernels read memory by ``ptr``."""
        sizes = cls.__new__(cls)
        sizes.counts, sizes.ptr, sizes.total = counts, ptr, total
        return sizes

    @classmethod
    def of(cls, counts: Tensor, device: torch.device, total: int | None = None) -> Sizes:
        """From counts that are known to be right."""
        total = total_of(counts) if total is None else total
        return cls.trusted(counts, send(begins(counts), device), total)

    @classmethod
    def equal(cls, graphs: int, nodes: int, device: torch.device) -> Sizes:
        """As many nodes in each graph."""
        counts = torch.full((graphs,), nodes, device="cpu")
        return cls.trusted(counts, torch.arange(graphs + 1, device=device) * nodes, graphs * nodes)

    @classmethod
    def of_one(cls, total: int, device: torch.device) -> Sizes:
        """All nodes as one graph."""
        # Not torch.tensor: tracing would make a constant of it, and of what is computed from it.
        counts = torch.full((1,), total, dtype=torch.int64, device="cpu")
        return cls.of(counts, device, total)

    @classmethod
    def by_graph(cls, batch: Tensor, batch_size: int) -> Sizes:
        """From the graph of each node, sorted; a GPU synchronises."""
        ptr = row_pointers(batch, batch_size)
        return cls.trusted(ptr.cpu().diff(), ptr, batch.numel())

    @classmethod
    def of_begins(cls, begins: Any, ptr: Tensor, total: int) -> Sizes:
        """From ``ptr`` and a copy of it on the host, as a numpy array."""
        return cls.trusted(torch.from_numpy(begins[1:] - begins[:-1]), ptr, total)

    @lazy
    def batch(self) -> Tensor:
        """The graph of each node, on the device."""
        return owners(self.ptr, self.total)


@as_operator("total(Tensor counts) -> SymInt", lambda counts: new_size(min=1))
def total_of(counts: Tensor) -> int:
    """The sum of counts that are not all 0, as a number on the host."""
    return int(counts.numpy().sum())


@as_operator("begins(Tensor counts) -> Tensor", lambda n: n.new_empty(n.numel() + 1))
def begins(counts: Tensor) -> Tensor:
    """Where each of ``counts`` begins, and the end of the last, on the host."""
    # numpy: for few numbers it is faster than torch
    ptr = np.zeros(counts.numel() + 1, np.int64)
    np.cumsum(counts.numpy(), out=ptr[1:])
    return torch.from_numpy(ptr)


def longest(counts: Tensor) -> int:
    """The largest of ``counts``, which are on the host."""
    return int(counts.numpy().max(initial=0))


def counts_of(batch: Tensor, size: int) -> Tensor:
    """How many members each of ``size`` groups has. Not by bincount: a GPU synchronises for it."""
    ones = torch.ones_like(batch, dtype=torch.int64)
    return ones.new_zeros(size).index_add(0, batch, ones)


def row_pointers(row: Tensor, num_rows: int) -> Tensor:
    """Where each row begins among entries sorted by row, and the end of the last."""
    return torch.searchsorted(row, torch.arange(num_rows + 1, device=row.device))


def owners(ptr: Tensor, total: int) -> Tensor:
    """The group of each of ``total`` members, from where groups begin and end.

    Members after the end of the last group have its number plus one.
    """
    if ptr.is_cpu and not is_traced():  # there some thirty times as fast as a binary search
        counts = ptr.diff(append=ptr.new_full((1,), total))
        return torch.repeat_interleave(counts, output_size=total)
    return torch.searchsorted(ptr[1:], torch.arange(total, device=ptr.device), right=True)


def inverse(order: Tensor) -> Tensor:
    """The place of each number in ``order``, which has every number once."""
    numbers = torch.arange(order.numel(), device=order.device)
    return torch.empty_like(order).scatter(0, order, numbers)


def send(values: Tensor, device: torch.device) -> Tensor:
    """Copy to a device, without synchronising: only from pinned memory is that possible."""
    check_copies()
    if device.type == "cuda" and not torch.compiler.is_compiling():
        # On the host, also if the default device is another.
        pinned = torch.empty(values.shape, dtype=values.dtype, device="cpu", pin_memory=True)
        values = pinned.copy_(values)
    return values.to(device, non_blocking=True)
