"""Top-k and gating on a GPU: a node's place is the number of nodes with a better score."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.graph.sizes import longest
from lcpool.ops.launch import cdiv, kernel, power_of_2
from lcpool.ops.message.gpu import wide
from lcpool.ops.topk import plain

__all__ = ["gate", "gate_backward", "topk"]

# Nodes of a program, and nodes that it compares them with at a time.
BLOCK, STEP = 16, 256
# In larger graphs, nodes are sorted rather than each compared with all others.
MAX_COMPARED = 2**14


def topk(
    rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> tuple[Tensor, Tensor]:
    if longest(counts) > MAX_COMPARED:
        return plain.topk(rank, counts, ptr, kept_ptr, num_kept)
    perm = torch.empty(num_kept, dtype=torch.int64, device=rank.device)
    batch = torch.empty_like(perm)
    if num_kept:
        topk_nodes[(cdiv(rank.numel(), BLOCK),)](
            rank, ptr, kept_ptr, perm, batch, rank.numel(), num_kept, ptr.numel() - 1,
            counts.numel().bit_length(), BLOCK, STEP,
        )  # fmt: skip
    return perm, batch


def gate(x: Tensor, h: Tensor, perm: Tensor) -> tuple[Tensor, Tensor]:
    out, score = x.new_empty(perm.numel(), x.size(1)), h.new_empty(perm.numel())
    if perm.numel():
        gate_rows[(perm.numel(),)](x, h, perm, out, score, x.size(1), power_of_2(x.size(1)))
    return out, score


def gate_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, h: Tensor, perm: Tensor
) -> tuple[Tensor, Tensor]:
    grad_x, grad_h = torch.zeros_like(x), torch.zeros_like(h)
    if perm.numel():
        gate_gradients[(perm.numel(),)](
            grad, grad if grad_score is None else grad_score, x, h, perm, grad_x, grad_h, x.size(1),
            grad_score is not None, power_of_2(x.size(1)),
        )  # fmt: skip
    return grad_x, grad_h


@triton.jit
def sort_key(values):
    """Integers in the order of the numbers: −0 as 0, and NaN as the largest, as torch sorts it."""
    if values.dtype == tl.float64:
        code = tl.where(values == 0, 0.0, values).to(tl.int64, bitcast=True)
        code = tl.where(code < 0, code ^ 0x7FFFFFFFFFFFFFFF, code)
        return tl.where(values != values, 0x7FFFFFFFFFFFFFFF, code)
    else:  # noqa: RET505 (Triton compiles what follows a return)
        code = tl.where(values == 0, 0.0, values.to(tl.float32)).to(tl.int32, bitcast=True)
        code = tl.where(code < 0, code ^ 0x7FFFFFFF, code)
        return tl.where(values != values, 0x7FFFFFFF, code)


@kernel
def topk_nodes(
    rank, ptr, kept_ptr, perm, batch, num_nodes, num_kept, num_graphs, steps,
    BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Store a program's nodes at their places in î, and −1 at places for which there is none."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    free = (i >= tl.load(kept_ptr + num_graphs)) & (i < num_kept)
    tl.store(perm + i, tl.full((BLOCK,), -1, tl.int64), free)
    tl.store(batch + i, tl.zeros((BLOCK,), tl.int64) + (num_graphs - 1), free)
    place_nodes(i, rank, ptr, kept_ptr, perm, batch, num_nodes, num_graphs, steps, STEP)


@triton.jit
def place_nodes(
    i, rank, ptr, kept_ptr, perm, batch, num_nodes, num_graphs, steps, STEP: tl.constexpr
):  # fmt: skip
    """Store nodes i at their places in î, if they are kept.

    Returns where their graphs begin and end, the highest score of these, and the places.
    """
    inside = i < tl.load(ptr + num_graphs)
    g = graph_of(i, ptr, num_graphs, steps)
    start = tl.load(ptr + g, inside, 0).to(tl.int32)
    stop = tl.load(ptr + g + 1, inside, 0).to(tl.int32)
    before, most = count_better(i, inside, rank, start, stop, num_nodes, STEP)
    kept, end = tl.load(kept_ptr + g, inside, 0), tl.load(kept_ptr + g + 1, inside, 0)
    p, is_kept = kept + before, inside & (kept + before < end)
    tl.store(perm + p, i.to(tl.int64), is_kept)
    tl.store(batch + p, g.to(tl.int64), is_kept)
    return start, stop, most, p, is_kept


@triton.jit
def graph_of(i, ptr, num_graphs, steps):
    """The last graph that begins at i or before, which is not empty."""
    low, high = tl.zeros_like(i), tl.zeros_like(i) + num_graphs
    for _ in range(steps + 1):
        middle, going = (low + high) // 2, low < high
        below = tl.load(ptr + middle + 1, going, 0) <= i
        low, high = tl.where(going & below, middle + 1, low), tl.where(going & ~below, middle, high)
    return low


@triton.jit
def count_better(i, inside, rank, start, stop, num_nodes, STEP: tl.constexpr):
    """How many nodes of the graph of each node i, ``start`` to ``stop``, have a better score.

    And the highest score of the graph.
    """
    value = tl.load(rank + i, inside, 0.0)
    own, before = sort_key(value), tl.zeros_like(start)
    most = tl.full(value.shape, float("-inf"), value.dtype)
    for first in range(tl.min(tl.where(inside, start, num_nodes)), tl.max(stop), STEP):
        j = first + tl.arange(0, STEP)
        others = tl.load(rank + j, j < num_nodes, 0.0)
        other = sort_key(others)
        same = (j[None, :] >= start[:, None]) & (j[None, :] < stop[:, None])
        better = (other[None, :] > own[:, None]) | (
            (other[None, :] == own[:, None]) & (j[None, :] < i[:, None])
        )
        before += tl.sum((same & better).to(tl.int32), 1)
        most = tl.maximum(most, tl.max(tl.where(same, others[None, :], float("-inf")), 1))
    return before, most


@kernel
def gate_rows(x, h, perm, out, score, width, CHANNELS: tl.constexpr):
    """X'(p, :) = x_i h_i for the kept node i = î_p, zeros where there is none."""
    p = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, CHANNELS)
    i = tl.load(perm + p)
    value = tl.load(h + i, i >= 0, 0.0)
    row = tl.load(x + i * width + c, c < tl.where(i >= 0, width, 0), 0.0)
    tl.store(out + p * width + c, wide(row) * wide(value), c < width)
    tl.store(score + p, value)


@kernel
def gate_gradients(
    grad, grad_score, x, h, perm, grad_x, grad_h, width, SCORED: tl.constexpr,
    CHANNELS: tl.constexpr,
):  # fmt: skip
    """The gradients of x_i and h_i for the kept node i = î_p."""
    p = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, CHANNELS)
    i = tl.load(perm + p)
    inside = c < tl.where(i >= 0, width, 0)
    upstream = tl.load(grad + p * width + c, inside, 0.0)
    row = tl.load(x + i * width + c, inside, 0.0)
    tl.store(grad_x + i * width + c, wide(upstream) * wide(tl.load(h + i, i >= 0, 0.0)), inside)
    total = tl.sum(wide(upstream) * wide(row), 0)
    if SCORED:
        total += wide(tl.load(grad_score + p))
    tl.store(grad_h + i, total, i >= 0)
