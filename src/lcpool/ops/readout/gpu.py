"""Reductions over the nodes of each graph on a GPU: a program per graph."""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from lcpool.ops.launch import cdiv, kernel

__all__ = ["readout", "readout_backward", "softmax", "softmax_backward"]

# Nodes and channels that a program reads at a time; nodes, in a softmax.
NODES, CHANNELS = 32, 64
BLOCK = 256


def readout(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    out = x.new_empty(ptr.numel() - 1, 2 * x.size(1))
    ties = torch.empty(ptr.numel() - 1, x.size(1), dtype=torch.int32, device=x.device)
    if out.numel():
        mean_and_max[grid(x, ptr)](x, ptr, out, ties, x.size(1), NODES, CHANNELS)
    return out, ties


def readout_backward(grad: Tensor, x: Tensor, ptr: Tensor, out: Tensor, ties: Tensor) -> Tensor:
    grad_x = torch.empty_like(x)
    if grad.numel():
        readout_gradients[grid(x, ptr)](grad, x, ptr, out, ties, grad_x, x.size(1), NODES, CHANNELS)
    return grad_x


def softmax(values: Tensor, ptr: Tensor) -> Tensor:
    h = torch.empty_like(values)
    if h.numel():
        softmax_graphs[(ptr.numel() - 1,)](values, ptr, h, BLOCK)
    return h


def softmax_backward(grad: Tensor, h: Tensor, ptr: Tensor) -> Tensor:
    out = torch.empty_like(h)
    if h.numel():
        softmax_gradients[(ptr.numel() - 1,)](grad, h, ptr, out, BLOCK)
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
        # NaN is not lost.
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
def readout_gradients(
    grad, x, ptr, out, ties, grad_x, width, NODES: tl.constexpr, CHANNELS: tl.constexpr
):
    """1/n of the mean's gradient to each node, the maximum's to those that share it."""
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
def softmax_graphs(values, ptr, h, BLOCK: tl.constexpr):
    """exp(v − max v) / Σ exp(v − max v)."""
    g = tl.program_id(0)
    start, stop = tl.load(ptr + g), tl.load(ptr + g + 1)
    most = tl.full((BLOCK,), float("-inf"), values.dtype.element_ty)
    for first in range(start, stop, BLOCK):
        i = first + tl.arange(0, BLOCK)
        most = tl.maximum(most, tl.load(values + i, i < stop, float("-inf")))
    largest = tl.max(most, 0)
    total = tl.zeros((BLOCK,), values.dtype.element_ty)
    for first in range(start, stop, BLOCK):
        i = first + tl.arange(0, BLOCK)
        total += tl.exp(tl.load(values + i, i < stop, float("-inf")) - largest)
    scale = 1 / tl.where(stop > start, tl.sum(total, 0), 1.0)
    for first in range(start, stop, BLOCK):
        i = first + tl.arange(0, BLOCK)
        value = tl.load(values + i, i < stop, float("-inf"))
        tl.store(h + i, tl.exp(value - largest) * scale, i < stop)


@kernel
def softmax_gradients(grad, h, ptr, out, BLOCK: tl.constexpr):
    """The gradient of the values: h (g − Σ g h)."""
    g = tl.program_id(0)
    start, stop = tl.load(ptr + g), tl.load(ptr + g + 1)
    total = tl.zeros((BLOCK,), h.dtype.element_ty)
    for first in range(start, stop, BLOCK):
        i = first + tl.arange(0, BLOCK)
        total += tl.load(grad + i, i < stop, 0.0) * tl.load(h + i, i < stop, 0.0)
    inner = tl.sum(total, 0)
    for first in range(start, stop, BLOCK):
        i = first + tl.arange(0, BLOCK)
        own = tl.load(h + i, i < stop, 0.0)
        tl.store(out + i, own * (tl.load(grad + i, i < stop, 0.0) - inner), i < stop)
