"""How many nodes each graph of a batch has, known on the host."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.utils import cumsum


@dataclass(frozen=True, eq=False)
class Sizes:
    """``counts[g]`` nodes of graph g, the nodes of graph 0 first, then those of graph 1, and so on.

    Attributes:
        counts: on the host, int64.
        ptr: the first node of each graph, and the end of the last, on the device of the nodes.
    """

    counts: Tensor
    ptr: Tensor

    @classmethod
    def of(cls, counts: Tensor, device: torch.device) -> Sizes:
        """Let the device know what the host knows."""
        return cls(counts, send(cumsum(counts), device))

    @cached_property
    def total(self) -> int:
        """The number of all nodes."""
        return int(self.counts.sum())

    @cached_property
    def batch(self) -> Tensor:
        """The graph of each node, on the device."""
        return owners(self.ptr, self.total)


def row_pointers(row: Tensor, num_rows: int) -> Tensor:
    """Where each row begins among entries sorted by row, and the end of the last."""
    return torch.searchsorted(row, torch.arange(num_rows + 1, device=row.device))


def owners(ptr: Tensor, total: int) -> Tensor:
    """The group of each of ``total`` members, from where groups begin and end."""
    return torch.searchsorted(ptr[1:], torch.arange(total, device=ptr.device), right=True)


def send(values: Tensor, device: torch.device) -> Tensor:
    """Copy to a device. Only from pinned memory does a copy to a GPU not hold up the host."""
    if device.type == "cuda":
        values = values.pin_memory()
    return values.to(device, non_blocking=True)
