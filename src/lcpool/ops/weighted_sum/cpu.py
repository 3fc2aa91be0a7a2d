"""Products with weighted sparse matrices on a CPU: row by row, in the order of the entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lcpool.ops.compiled import compiled, regrouped
from lcpool.ops.message.cpu import SUMS_PER_THREAD, array
from lcpool.ops.threads import in_parts

__all__ = ["entry_dot", "weighted_sum"]


def weighted_sum(
    x: Tensor, weight: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None
) -> Tensor:
    values, work = array(x), node.numel() * x.size(1)
    out = np.empty((ptr.numel() - 1, x.size(1)), values.dtype)
    given = (values, array(weight), *arrays(ptr, node, entry), out)
    in_parts(add_weighted_rows, len(out), work, SUMS_PER_THREAD, *given)
    return torch.from_numpy(out).to(x.dtype)


def entry_dot(y: Tensor, x: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None) -> Tensor:
    own, work = array(y), node.numel() * x.size(1)
    out = np.empty(node.numel(), own.dtype)
    given = (own, array(x), *arrays(ptr, node, entry), out)
    in_parts(dot_rows, len(own), work, SUMS_PER_THREAD, *given)
    return torch.from_numpy(out).to(x.dtype)


def arrays(ptr: Tensor, node: Tensor, entry: Tensor | None) -> tuple[Any, ...]:
    """Rows as numba reads them."""
    return ptr.numpy(), node.numpy(), None if entry is None else entry.numpy()


@compiled
def add_weighted_rows(start, stop, x, weight, ptr, node, entry, out):
    """Σ_e w_e x_k."""
    for i in range(start, stop):
        out[i] = 0
        for e in range(ptr[i], ptr[i + 1]):
            k, w = node[e], weight[e if entry is None else entry[e]]
            for c in range(x.shape[1]):
                out[i, c] += w * x[k, c]


@regrouped
def dot_rows(start, stop, y, x, ptr, node, entry, out):
    """y_i · x_k."""
    for i in range(start, stop):
        for e in range(ptr[i], ptr[i + 1]):
            k, total = node[e], x.dtype.type(0)
            for c in range(x.shape[1]):
                total += y[i, c] * x[k, c]
            out[e if entry is None else entry[e]] = total
