"""Products with weighted sparse matrices on a GPU: a program per row, no atomics."""

from __future__ import annotations

import triton.language as tl
from torch import Tensor

from lcpool.ops.launch import kernel
from lcpool.ops.message.gpu import channel_block, grid, wide

__all__ = ["entry_dot", "weighted_sum"]

# Products that a program computes at a time: sixteen per thread of a warp.
NUMBERS = 512


def weighted_sum(
    x: Tensor, weight: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None
) -> Tensor:
    out = x.new_empty(ptr.numel() - 1, x.size(1))
    if out.numel():
        width = channel_block(x)
        add_weighted_rows[grid(out, width)](
            x, weight, ptr, node, node if entry is None else entry, out, x.size(1),
            entry is not None, width, num_warps=1,
        )  # fmt: skip
    return out


def entry_dot(y: Tensor, x: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None) -> Tensor:
    out = x.new_empty(node.shape)
    if out.numel():
        width = channel_block(x)
        dot_rows[(y.size(0),)](
            y, x, ptr, node, node if entry is None else entry, out, x.size(1),
            entry is not None, min(32, NUMBERS // width), width, num_warps=1,
        )  # fmt: skip
    return out


@kernel
def add_weighted_rows(
    x, weight, ptr, node, entry, out, width, NUMBERED: tl.constexpr, CHANNELS: tl.constexpr
):
    """Σ_e w_e x_k."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < width
    total = wide(tl.zeros((CHANNELS,), x.dtype.element_ty))
    for e in range(tl.load(ptr + i), tl.load(ptr + i + 1)):
        number = tl.load(entry + e) if NUMBERED else e
        row = wide(tl.load(x + tl.load(node + e) * width + c, inside, 0.0))
        total += wide(tl.load(weight + number)) * row
    tl.store(out + i * width + c, total, inside)


@kernel
def dot_rows(
    y, x, ptr, node, entry, out, width,
    NUMBERED: tl.constexpr, ENTRIES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """y_i · x_k of several entries at a time."""
    i = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    for first in range(start, stop, ENTRIES):
        e = first + tl.arange(0, ENTRIES)
        here = e < stop
        k = tl.load(node + e, here, 0)
        total = wide(tl.zeros((ENTRIES, CHANNELS), x.dtype.element_ty))
        for channel in range(0, width, CHANNELS):
            c = channel + tl.arange(0, CHANNELS)
            inside = c < width
            own = wide(tl.load(y + i * width + c, inside, 0.0))
            mask = here[:, None] & inside[None, :]
            total += own[None, :] * wide(tl.load(x + k[:, None] * width + c[None, :], mask, 0.0))
        number = tl.load(entry + e, here, 0) if NUMBERED else e
        tl.store(out + number, tl.sum(total, 1), here)
