"""Reductions over the nodes of each graph on a GPU: a program a graph."""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from lcpool.ops.launch import cdiv, kernel

__all__ = ["readout", "readout_backward", "softmax", "softmax_backward"]

NODES, CHANNELS = 32, 64
LONG = 256


def readout(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    out = x.new_empty(ptr.numel() - 1, 2 * x.size(1))
    ties = torch.empty(ptr.numel() - 1, x.size(1), dtype=torch.int32, device=x.device)
    if out.numel():
        mean_and_max[grid(x, ptr)](x, ptr, out, ties, x.size(1), NODES, CHANNELS)
    return out, ties


def readout_backward(grad: Tensor, x: Tensor, ptr: Tensor, out: Tensor, ties: Tensor) -> Tensor:
    grad_x = torch.empty_like(x)
    if grad.numel():
        spread[grid(x, ptr)](grad, x, ptr, out, ties, grad_x, x.size(1), NODES, CHANNELS)
    return grad_x


def softmax(values: Tensor, ptr: Tensor) -> Tensor:
    h = torch.empty_like(values)
    if h.numel():
        normalize[(ptr.numel() - 1,)](values, ptr, h, LONG)
    return h


def softmax_backward(grad: Tensor, h: Tensor, ptr: Tensor) -> Tensor:
    out = torch.empty_like(h)
    if h.numel():
        denormalize[(ptr.numel() - 1,)](grad, h, ptr, out, LONG)
    return out


def grid(x: Tensor, ptr: Tensor) -> tuple[int, int]:
    """A program for each graph and each block of channels."""
    return ptr.numel() - 1, cdiv(x.size(1), CHANNELS)


@kernel
def mean_and_max(x, ptr, out, ties, width, NODES: tl.constexpr, CHANNELS: tl.constexpr):
    """Σ x / n ‖ max x, zeros for an empty graph."""
    g = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < width
    start, stop = tl.load(ptr + g), tl.load(ptr + g + 1)
    total = tl.zeros((NODES, CHANNELS), x.dtype.element_ty)
    most = tl.full((NODES, CHANNELS), float("-inf"), x.dtype.element_ty)
    for first in range(start, stop, NODES):
        i = first + tl.arange(0, NODES)
        mask = (i < stop)[:, None] & inside[None, :]
        rows = tl.load(x + i[:, None] * width + c[None, :], mask, 0.0)
        total += rows
        # A maximum that is NaN must show.
        most = tl.where(mask & ((rows > most) | (rows != rows)), rows, most)
    largest = tl.max(most, 0)
    broken = tl.max((most != most).to(tl.int32), 0) == 1
    largest = tl.where(broken, float("nan"), largest)
    count = tl.zeros((CHANNELS,), tl.int32)
    for first in range(start, stop, NODES):
        i = first + tl.arange(0, NODES)
        mask = (i < stop)[:, None] & inside[None, :]
        rows = tl.load(x + i[:, None] * width + c[None, :], mask, 0.0)
        count += tl.sum((mask & (rows == largest[None, :])).to(tl.int32), 0)
    empty = stop == start
    mean = tl.sum(total, 0) / tl.maximum(stop - start, 1).to(x.dtype.element_ty)
    out += g * 2 * width + c
    tl.store(out, mean, inside)
    tl.store(out + width, tl.where(empty, 0.0, largest), inside)
    tl.store(ties + g * width + c, tl.maximum(count, 1), inside)


@kernel
def spread(grad, x, ptr, out, ties, grad_x, width, NODES: tl.constexpr, CHANNELS: tl.constexpr):
    """What each node gets of its graph's gradient."""
    g = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < width
    start, stop = tl.load(ptr + g), tl.load(ptr + g + 1)
    at = g * 2 * width + c
    number = x.dtype.element_ty
    of_mean = tl.load(grad + at, inside, 0.0) / tl.maximum(stop - start, 1).to(number)
    share = tl.load(ties + g * width + c, inside, 1).to(number)
    of_most = tl.load(grad + width + at, inside, 0.0) / share
    largest = tl.load(out + width + at, inside, 0.0)
    for first in range(start, stop, NODES):
        i = first + tl.arange(0, NODES)
        mask = (i < stop)[:, None] & inside[None, :]
        place = i[:, None] * width + c[None, :]
        is_most = tl.load(x + place, mask, 0.0) == largest[None, :]
        tl.store(grad_x + place, of_mean[None, :] + tl.where(is_most, of_most[None, :], 0.0), mask)


@kernel
def normalize(values, ptr, h, LONG: tl.constexpr):
    """exp(v − max v) / Σ exp(v − max v)."""
    g = tl.program_id(0)
    start, stop = tl.load(ptr + g), tl.load(ptr + g + 1)
    most = tl.full((LONG,), float("-inf"), values.dtype.element_ty)
    for first in range(start, stop, LONG):
        i = first + tl.arange(0, LONG)
        most = tl.maximum(most, tl.load(values + i, i < stop, float("-inf")))
    largest = tl.max(most, 0)
    total = tl.zeros((LONG,), values.dtype.element_ty)
    for first in range(start, stop, LONG):
        i = first + tl.arange(0, LONG)
        total += tl.exp(tl.load(values + i, i < stop, float("-inf")) - largest)
    scale = 1 / tl.where(stop > start, tl.sum(total, 0), 1.0)
    for first in range(start, stop, LONG):
        i = first + tl.arange(0, LONG)
        value = tl.load(values + i, i < stop, float("-inf"))
        tl.store(h + i, tl.exp(value - largest) * scale, i < stop)


@kernel
def denormalize(grad, h, ptr, out, LONG: tl.constexpr):
    """The gradient of the values: h (g − Σ g h)."""
    p = tl.program_id(0)
    start, stop = tl.load(ptr + p), tl.load(ptr + p + 1)
    total = tl.zeros((LONG,), h.dtype.element_ty)
    for first in range(start, stop, LONG):
        i = first + tl.arange(0, LONG)
        total += tl.load(grad + i, i < stop, 0.0) * tl.load(h + i, i < stop, 0.0)
    inner = tl.sum(total, 0)
    for first in range(start, stop, LONG):
        i = first + tl.arange(0, LONG)
        own = tl.load(h + i, i < stop, 0.0)
        tl.store(out + i, own * (tl.load(grad + i, i < stop, 0.0) - inner), i < stop)
