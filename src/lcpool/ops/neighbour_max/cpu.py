"""The maximum over neighbours on a CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.compiled import compiled
from lcpool.ops.message.cpu import SUMS_PER_THREAD, array
from lcpool.ops.threads import in_parts

__all__ = ["neighbour_max", "neighbour_max_backward"]


def neighbour_max(x: Tensor, ptr: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    values = array(x)
    most, ties = np.empty_like(values), np.empty(values.shape, np.int32)
    arrays = (values, ptr.numpy(), node.numpy(), most, ties)
    in_parts(find_maxima, len(values), node.numel() * x.size(1), SUMS_PER_THREAD, *arrays)
    return torch.from_numpy(most).to(x.dtype), torch.from_numpy(ties)


def neighbour_max_backward(
    share: Tensor, x: Tensor, most: Tensor, out_ptr: Tensor, out_node: Tensor
) -> Tensor:
    shares, work = array(share), out_node.numel() * x.size(1)
    grad = np.empty_like(shares)
    arrays = (shares, array(x), array(most), out_ptr.numpy(), out_node.numpy(), grad)
    in_parts(add_shares, len(shares), work, SUMS_PER_THREAD, *arrays)
    return torch.from_numpy(grad).to(x.dtype)


@compiled
def find_maxima(start, stop, x, ptr, node, most, ties):
    """max_k x_k, NaN if one of them is."""
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
    """Σ_j of the shares of the nodes j whose maximum is x_i."""
    zero = share.dtype.type(0)
    for i in range(start, stop):
        grad[i] = 0
        for e in range(out_ptr[i], out_ptr[i + 1]):
            j = out_node[e]
            for c in range(x.shape[1]):
                grad[i, c] += share[j, c] if x[i, c] == most[j, c] else zero
