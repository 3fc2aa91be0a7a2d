"""Sums and maxima over neighbours on a GPU: a program per node, in the order of the edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.ops.launch import cdiv, kernel, power_of_2

__all__ = [
    "aggregate", "difference_sum", "difference_sum_backward", "entry_dot", "gcn_roots",
    "neighbour_max", "neighbour_max_backward", "weighted_sum",
]  # fmt: skip

# Channels that a program adds at a time: four 32-bit numbers per thread of a warp.
CHANNELS = 128
NODES = 128
# Products that a program computes at a time: sixteen per thread of a warp.
PRODUCTS = 512


def gcn_roots(ptr: Tensor, node: Tensor) -> Tensor:
    num_nodes = ptr.numel() - 1
    roots = torch.empty(num_nodes, dtype=torch.float64, device=ptr.device)
    if num_nodes:
        inverse_roots[(cdiv(num_nodes, NODES),)](ptr, node, roots, num_nodes, NODES)
    return roots


def aggregate(x: Tensor, ptr: Tensor, node: Tensor, roots: Tensor | None) -> Tensor:
    out, scale = torch.empty_like(x), x if roots is None else roots
    launch_rows(add_rows, out.shape, x, ptr, node, scale, out, x.size(1), roots is not None)
    return out


def weighted_sum(
    x: Tensor, weight: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None
) -> Tensor:
    out = x.new_empty(ptr.numel() - 1, x.size(1))
    given = (x, weight, ptr, node, node if entry is None else entry, out)
    launch_rows(add_weighted_rows, out.shape, *given, x.size(1), entry is not None)
    return out


def entry_dot(y: Tensor, x: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None) -> Tensor:
    out = x.new_empty(node.shape)
    if out.numel():
        width = min(CHANNELS, power_of_2(x.size(1)))
        dot_rows[(y.size(0),)](
            y, x, ptr, node, node if entry is None else entry, out, x.size(1),
            entry is not None, min(32, PRODUCTS // width), width, num_warps=1,
        )  # fmt: skip
    return out


def difference_sum(z: Tensor, y: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    out, width = torch.empty_like(y), y.size(1)
    launch_rows(add_differences, y.shape, z, y, y, ptr, node, out, width, width, False)
    return out


def difference_sum_backward(
    grad: Tensor, z: Tensor, y: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor, out_node: Tensor
) -> tuple[Tensor, Tensor]:
    grad_z, grad_y, (size, width) = torch.empty_like(z), torch.empty_like(y), y.shape
    given = (grad, z, y, y, ptr, node, out_ptr, out_node, grad_z, grad_y)
    launch_rows(difference_gradients, y.shape, *given, size, width, width, 1, False)
    return grad_z, grad_y


def neighbour_max(x: Tensor, ptr: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    most, ties = torch.empty_like(x), torch.empty(x.shape, dtype=torch.int32, device=x.device)
    launch_rows(find_maxima, x.shape, x, ptr, node, most, ties, x.size(1))
    return most, ties


def neighbour_max_backward(
    share: Tensor, x: Tensor, most: Tensor, out_ptr: Tensor, out_node: Tensor
) -> Tensor:
    grad = torch.empty_like(x)
    launch_rows(add_shares, x.shape, share, x, most, out_ptr, out_node, grad, x.size(1))
    return grad


def launch_rows(function: Any, shape: Sequence[int], *args: Any) -> None:
    """Launch a program for each row and each block of channels, if there are any."""
    rows, width = shape
    if rows and width:
        block = min(CHANNELS, power_of_2(width))
        function[(rows, cdiv(width, block))](*args, block, num_warps=1)


@triton.jit
def wide(x):
    """16-bit numbers as 32-bit ones, to add them."""
    return x.to(tl.float32) if x.dtype.primitive_bitwidth < 32 else x


@kernel
def inverse_roots(ptr, node, roots, num_nodes, NODES: tl.constexpr):
    """D^(-1/2), where D counts a self-loop of each node once."""
    i = tl.program_id(0) * NODES + tl.arange(0, NODES)
    inside = i < num_nodes
    start, stop = tl.load(ptr + i, inside, 0), tl.load(ptr + i + 1, inside, 0)
    degree = tl.full((NODES,), 1, tl.int64)
    for step in range(0, tl.max(stop - start)):
        here = start + step < stop
        other = tl.load(node + start + step, here, 0) != i
        degree += (here & other).to(tl.int64)
    tl.store(roots + i, 1 / tl.sqrt(degree.to(tl.float64)), inside)


@kernel
def add_rows(x, ptr, node, scale, out, width, NORMED: tl.constexpr, CHANNELS: tl.constexpr):
    """Σ_k x_k, or s_i (s_i x_i + Σ_{k ≠ i} s_k x_k)."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < width
    total = wide(tl.load(x + i * width + c, inside, 0.0))
    if NORMED:
        own = tl.load(scale + i).to(total.dtype)
        total = own * total
    else:
        total = tl.zeros_like(total)
    for e in range(tl.load(ptr + i), tl.load(ptr + i + 1)):
        k = tl.load(node + e)
        row = wide(tl.load(x + k * width + c, inside, 0.0))
        if NORMED:
            # Masked, not multiplied by zero: a self-loop's row may hold infinities.
            total += tl.where(k != i, tl.load(scale + k).to(total.dtype) * row, 0.0)
        else:
            total += row
    if NORMED:
        total = own * total
    tl.store(out + i * width + c, total, inside)


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


# In the comparisons below NaN counts as positive, as in torch's relu: it must not be lost. The rows
# of z and y are ``stride`` apart. SHIFTED: z = y + shift, and the gradient of z is added to y's.


@kernel
def add_differences(
    z, y, shift, ptr, node, out, width, stride, SHIFTED: tl.constexpr, CHANNELS: tl.constexpr
):
    """Σ_k relu(z_i − y_k)."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < width
    own = wide(tl.load(z + i * stride + c, inside, 0.0))
    if SHIFTED:
        own += tl.load(shift + c, inside, 0.0)
    total = tl.zeros_like(own)
    for e in range(tl.load(ptr + i), tl.load(ptr + i + 1)):
        k = tl.load(node + e)
        difference = own - wide(tl.load(y + k * stride + c, inside, 0.0))
        total += tl.where(difference <= 0, 0.0, difference)
    tl.store(out + i * width + c, total, inside)


@kernel
def difference_gradients(
    grad, z, y, shift, ptr, node, out_ptr, out_node, grad_z, grad_y, num_nodes, width, stride, rows,
    SHIFTED: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The gradient of z_i from its own sum, and that of y_i from the sums it is in.

    SHIFTED: the gradient of z is summed over the program's nodes, for the shift, and written behind
    the sums of :func:`lcpool.ops.fused_lcpool.gpu.combine_gradients`.
    """
    first = tl.program_id(0).to(tl.int64) * rows
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < width
    offset = wide(tl.zeros((CHANNELS,), y.dtype.element_ty))
    if SHIFTED:
        offset += tl.load(shift + c, inside, 0.0)
    to_shift = tl.zeros_like(offset)
    for i in range(first, tl.minimum(first + rows, num_nodes)):
        at = i * stride + c
        z_i = wide(tl.load(z + at, inside, 0.0)) + offset
        y_i = wide(tl.load(y + at, inside, 0.0))
        grad_i = wide(tl.load(grad + i * width + c, inside, 0.0))
        to_z, to_y = tl.zeros_like(z_i), tl.zeros_like(z_i)
        for e in range(tl.load(ptr + i), tl.load(ptr + i + 1)):
            other = wide(tl.load(y + tl.load(node + e) * stride + c, inside, 0.0))
            to_z += tl.where(z_i - other <= 0, 0.0, grad_i)
        for e in range(tl.load(out_ptr + i), tl.load(out_ptr + i + 1)):
            k = tl.load(out_node + e)
            other = wide(tl.load(z + k * stride + c, inside, 0.0)) + offset
            upstream = wide(tl.load(grad + k * width + c, inside, 0.0))
            to_y -= tl.where(other - y_i <= 0, 0.0, upstream)
        if SHIFTED:
            to_y += to_z
            to_shift += to_z
        else:
            tl.store(grad_z + i * width + c, to_z, inside)
        tl.store(grad_y + at, to_y, inside)
    if SHIFTED:
        behind = tl.program_id(0).to(tl.int64) * (4 * width + 1) + 3 * width + 1
        tl.store(grad_z + behind + c, to_shift, inside)


@kernel
def find_maxima(x, ptr, node, most, ties, width, CHANNELS: tl.constexpr):
    """max_k x_k, NaN if one of them is."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < width
    start, stop = tl.load(ptr + i), tl.load(ptr + i + 1)
    largest = wide(tl.full((CHANNELS,), float("-inf"), x.dtype.element_ty))
    count = tl.zeros((CHANNELS,), tl.int32)
    for e in range(start, stop):
        row = wide(tl.load(x + tl.load(node + e) * width + c, inside, 0.0))
        above = (row > largest) | (row != row)
        count = tl.where(above, 1, count + (row == largest).to(tl.int32))
        largest = tl.where(above, row, largest)
    at = i * width + c
    tl.store(most + at, tl.where(stop > start, largest, 0.0), inside)
    tl.store(ties + at, tl.maximum(count, 1), inside)


@kernel
def add_shares(share, x, most, out_ptr, out_node, grad, width, CHANNELS: tl.constexpr):
    """Σ_j of the shares of the nodes j whose maximum is x_i."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < width
    own = tl.load(x + i * width + c, inside, 0.0)
    total = tl.zeros((CHANNELS,), share.dtype.element_ty)
    for e in range(tl.load(out_ptr + i), tl.load(out_ptr + i + 1)):
        at = tl.load(out_node + e) * width + c
        part = tl.load(share + at, inside, 0.0)
        total += tl.where(tl.load(most + at, inside, 0.0) == own, part, 0.0)
    tl.store(grad + i * width + c, total, inside)
