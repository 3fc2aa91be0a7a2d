"""The maximum over neighbours on a CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.compiled import compiled
from lcpool.ops.message.cpu import LEAST, array
from lcpool.ops.threads import in_parts

__all__ = ["neighbour_max", "neighbour_max_backward"]


def neighbour_max(x: Tensor, ptr: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    values, row_ptr, nodes = array(x), ptr.numpy(), node.numpy()
    most, ties = np.empty_like(values), np.empty(values.shape, np.int32)

    def part(start: int, stop: int) -> None:
        find_maxima(start, stop, values, row_ptr, nodes, most, ties)

    in_parts(part, len(values), nodes.size * values.shape[1], LEAST)
    return torch.from_numpy(most).to(x.dtype), torch.from_numpy(ties)


def neighbour_max_backward(
    share: Tensor, x: Tensor, most: Tensor, out_ptr: Tensor, out_node: Tensor
) -> Tensor:
    shares, values, maxima = array(share), array(x), array(most)
    rows, grad = (out_ptr.numpy(), out_node.numpy()), np.empty_like(shares)

    def part(start: int, stop: int) -> None:
        add_shares(start, stop, shares, values, maxima, *rows, grad)

    in_parts(part, len(values), out_node.numel() * values.shape[1], LEAST)
    return torch.from_numpy(grad).to(x.dtype)


@compiled
def find_maxima(start, stop, x, ptr, node, most, ties):
    """max_k x_k; a maximum that is NaN must show."""
    for i in range(start, stop):
        most[i] = -np.inf if ptr[i] < ptr[i + 1] else 0
        ties[i] = 0
        for e in range(ptr[i], ptr[i + 1]):
            k = node[e]
            for c in range(x.shape[1]):
                value, before = x[k, c], most[i, c]
                above = value > before or value != value
                most[i, c] = value if above else before
                ties[i, c] = 1 if above else ties[i, c] + (value == before)
        for c in range(x.shape[1]):
            ties[i, c] = max(ties[i, c], 1)


@compiled
def add_shares(start, stop, share, x, most, out_ptr, out_node, grad):
    """Σ_j of the shares of j where x_i is the maximum of j."""
    zero = share.dtype.type(0)
    for i in range(start, stop):
        grad[i] = 0
        for e in range(out_ptr[i], out_ptr[i + 1]):
            j = out_node[e]
            for c in range(x.shape[1]):
                grad[i, c] += share[j, c] if x[i, c] == most[j, c] else zero
