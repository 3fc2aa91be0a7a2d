"""The softmax of scores, the nodes that they choose, and X' on a GPU, in one kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.graph.sizes import longest
from lcpool.ops.fused_lcpool import GatedTopK, plain
from lcpool.ops.launch import cdiv, kernel
from lcpool.ops.topk.gpu import BLOCK, MAX_NODES, STEP, placed

__all__ = ["softmax_topk_gate", "softmax_topk_gate_backward"]

CHANNELS = 64
ROWS, WARPS = 64, 8


def softmax_topk_gate(
    x: Tensor, rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> GatedTopK:
    if longest(counts) > MAX_NODES:
        return plain.softmax_topk_gate(x, rank, counts, ptr, kept_ptr, num_kept)
    out, score, h = x.new_empty(num_kept, x.size(1)), x.new_empty(num_kept), torch.empty_like(rank)
    perm, batch = ptr.new_empty(num_kept), ptr.new_empty(num_kept)
    place, ok = perm.new_empty(rank.numel()), perm.new_ones(())
    if num_kept:
        choose_nodes[(cdiv(rank.numel(), BLOCK),)](
            x, rank, ptr, kept_ptr, out, score, perm, batch, place, h, ok, rank.numel(),
            ptr.numel() - 1, x.size(1), counts.numel().bit_length(), BLOCK, STEP, CHANNELS,
        )  # fmt: skip
    return GatedTopK(out, score, perm, batch, place, h, ok)


def softmax_topk_gate_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, perm: Tensor, place: Tensor, h: Tensor,
    counts: Tensor, ptr: Tensor, kept_ptr: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if longest(counts) > MAX_NODES:
        return plain.softmax_topk_gate_backward(
            grad, grad_score, x, perm, place, h, counts, ptr, kept_ptr
        )
    of_rank, of_kept, past = torch.empty_like(h), h.new_empty(len(grad)), torch.empty_like(x)
    if h.numel():
        spread_choice[(ptr.numel() - 1,)](
            grad, h if grad_score is None else grad_score, x, perm, place, h, ptr, kept_ptr,
            of_kept, of_rank, past, grad.size(1), grad_score is not None, ROWS, CHANNELS,
            num_warps=WARPS,
        )  # fmt: skip
    return of_rank, past


@kernel
def choose_nodes(
    x, rank, ptr, kept_ptr, out, score, perm, batch, place, h, ok, num_nodes, num_graphs, width,
    steps, BLOCK: tl.constexpr, STEP: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Some nodes."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < num_nodes
    start, stop, most, p, is_kept = placed(
        i, rank, ptr, kept_ptr, perm, batch, num_nodes, num_graphs, steps, STEP
    )
    share = probability(i, inside, rank, start, stop, most, num_nodes, STEP)
    tl.store(h + i, share, inside)
    tl.store(place + i, tl.where(is_kept, p, -1), inside)
    tl.store(ok + tl.zeros_like(i), 0, inside & (share != share))
    tl.store(score + p, share, is_kept)
    for first in range(0, width, CHANNELS):
        c = first + tl.arange(0, CHANNELS)
        mask = is_kept[:, None] & (c < width)[None, :]
        rows = tl.load(x + i.to(tl.int64)[:, None] * width + c[None, :], mask, 0.0)
        tl.store(out + p[:, None] * width + c[None, :], rows * share[:, None], mask)


@triton.jit
def probability(i, inside, rank, start, stop, most, num_nodes, STEP: tl.constexpr):
    """exp(s_i − max s) / Σ exp(s − max s) over the graph, from ``start`` to ``stop``, of each i."""
    own = tl.load(rank + i, inside, 0.0)
    most = tl.where(inside, most, 0.0)
    total = tl.zeros_like(own)
    for block in range(tl.min(tl.where(inside, start, num_nodes)), tl.max(stop), STEP):
        j = block + tl.arange(0, STEP)
        others = tl.load(rank + j, j < num_nodes, 0.0)
        same = (j[None, :] >= start[:, None]) & (j[None, :] < stop[:, None])
        less = tl.where(same, others[None, :] - most[:, None], float("-inf"))
        total += tl.sum(tl.exp(less), 1)
    return tl.exp(own - most) / tl.where(inside, total, 1.0)


@kernel
def spread_choice(
    grad, grad_score, x, perm, place, h, ptr, kept_ptr, of_kept, of_rank, past, width,
    SCORED: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """h_i (g_i − Σ_j g_j h_j) of a graph, and h_i times the gradient of X'."""
    graph = tl.program_id(0)
    total = tl.zeros((ROWS,), h.dtype.element_ty)
    last = tl.load(kept_ptr + graph + 1)
    for first in range(tl.load(kept_ptr + graph), last, ROWS):
        p = first + tl.arange(0, ROWS)
        i = tl.load(perm + p, p < last, 0)
        share = tl.load(h + i, p < last, 0.0)
        own = tl.zeros((ROWS,), h.dtype.element_ty)
        for block in range(0, width, CHANNELS):
            c = block + tl.arange(0, CHANNELS)
            mask = (p < last)[:, None] & (c < width)[None, :]
            upstream = tl.load(grad + p[:, None] * width + c[None, :], mask, 0.0)
            at = i[:, None] * width + c[None, :]
            own += tl.sum(upstream * tl.load(x + at, mask, 0.0), 1)
            tl.store(past + at, share[:, None] * upstream, mask)
        if SCORED:
            own += tl.load(grad_score + p, p < last, 0.0)
        own *= share
        tl.store(of_kept + p, own, p < last)
        total += own
    inner = tl.sum(total, 0)
    tl.debug_barrier()  # All threads of the program see what the others have stored.
    stop = tl.load(ptr + graph + 1)
    for first in range(tl.load(ptr + graph), stop, ROWS):
        i = first + tl.arange(0, ROWS)
        p = tl.load(place + i, i < stop, 0)
        own = tl.load(of_kept + p, (i < stop) & (p >= 0), 0.0)
        tl.store(of_rank + i, own - tl.load(h + i, i < stop, 0.0) * inner, i < stop)
        for block in range(0, width, CHANNELS):
            c = block + tl.arange(0, CHANNELS)
            mask = (p < 0)[:, None] & (c < width)[None, :]
            tl.store(past + i[:, None] * width + c[None, :], 0.0, mask)
