"""The steps of LCPool between its matrix products on a GPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.graph.sizes import longest
from lcpool.ops.fused_lcpool import GatedTopK, plain
from lcpool.ops.launch import cdiv, kernel, power_of_2
from lcpool.ops.message.gpu import add_differences, difference_gradients, launch_rows
from lcpool.ops.topk.gpu import BLOCK, MAX_COMPARED, STEP, place_nodes

__all__ = [
    "combine", "combine_backward", "shifted_difference_backward", "shifted_difference_sum",
    "softmax_topk_gate", "softmax_topk_gate_backward",
]  # fmt: skip

# Numbers of a program's tile.
TILE = 4096
# Nodes over which a program sums gradients: few where there are few nodes, so that all
# multiprocessors have work.
FEWEST_ROWS, MOST_ROWS, PROGRAMS = 4, 32, 2048
# Channels, and rows, that a selection takes at a time, and its warps.
CHANNELS, ROWS, WARPS = 64, 64, 8


def shifted_difference_sum(YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    D = YG.new_empty(YG.size(0), b_d.numel())
    given = (YG, YG, b_d, ptr, node, D, D.size(1), YG.size(1))
    launch_rows(add_differences, D.shape, *given, True)
    return D


def shifted_difference_backward(
    grad: Tensor, YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor,
    out_node: Tensor, grad_YG: Tensor, sums: Tensor,
) -> Tensor:  # fmt: skip
    given = (grad, YG, YG, b_d, ptr, node, out_ptr, out_node, sums, grad_YG)
    sizes = (len(grad), grad.size(1), YG.size(1), summed_rows(grad))
    launch_rows(difference_gradients, (len(sums), grad.size(1)), *given, *sizes, True)
    return sums.sum(0)


def combine(F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor, b_s: Tensor) -> Tensor:
    s = F.new_empty(F.size(0))
    if s.numel():
        tile = tile_shape(F)
        combine_rows[(cdiv(F.size(0), tile[0]),)](
            F, YG, b_fd, b_x, w_s, b_s, s, F.size(0), F.size(1), *tile
        )
    return s


def combine_backward(
    grad: Tensor, F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    # The sums of each program, with room for those of b_d; they are added in order at the end.
    grad_F, grad_YG, (_, columns) = torch.empty_like(F), torch.empty_like(YG), tile_shape(F)
    rows = summed_rows(F)
    programs = cdiv(F.size(0), rows)
    sums = F.new_empty(programs, 4 * F.size(1) + 1)
    if programs:
        combine_gradients[(programs,)](
            grad, F, YG, b_fd, b_x, w_s, grad_F, grad_YG, sums, F.size(0), F.size(1), rows, columns
        )
    return grad_F, grad_YG, sums


def tile_shape(F: Tensor) -> tuple[int, int]:
    """The rows and columns of a tile: all channels of several nodes."""
    columns = power_of_2(F.size(1))
    return max(1, TILE // columns), columns


def summed_rows(F: Tensor) -> int:
    """The number of nodes over which a program sums gradients."""
    rows = power_of_2(max(F.size(0) // PROGRAMS, FEWEST_ROWS))
    return min(rows, MOST_ROWS, tile_shape(F)[0])


def softmax_topk_gate(
    x: Tensor, rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> GatedTopK:
    if longest(counts) > MAX_COMPARED:
        return plain.softmax_topk_gate(x, rank, counts, ptr, kept_ptr, num_kept)
    out, score, h = x.new_empty(num_kept, x.size(1)), x.new_empty(num_kept), torch.empty_like(rank)
    perm, batch = ptr.new_empty(num_kept), ptr.new_empty(num_kept)
    place, ok = perm.new_empty(rank.numel()), perm.new_ones(())
    if num_kept:
        select_nodes[(cdiv(rank.numel(), BLOCK),)](
            x, rank, ptr, kept_ptr, out, score, perm, batch, place, h, ok, rank.numel(),
            ptr.numel() - 1, x.size(1), counts.numel().bit_length(), BLOCK, STEP, CHANNELS,
        )  # fmt: skip
    return GatedTopK(out, score, perm, batch, place, ok, h)


def softmax_topk_gate_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, perm: Tensor, place: Tensor, h: Tensor,
    counts: Tensor, ptr: Tensor, kept_ptr: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if longest(counts) > MAX_COMPARED:
        return plain.softmax_topk_gate_backward(
            grad, grad_score, x, perm, place, h, counts, ptr, kept_ptr
        )
    grad_rank, grad_kept, grad_x = torch.empty_like(h), h.new_empty(len(grad)), torch.empty_like(x)
    if h.numel():
        selection_gradients[(ptr.numel() - 1,)](
            grad, h if grad_score is None else grad_score, x, perm, place, h, ptr, kept_ptr,
            grad_kept, grad_rank, grad_x, grad.size(1), grad_score is not None, ROWS, CHANNELS,
            num_warps=WARPS,
        )  # fmt: skip
    return grad_rank, grad_x


@kernel
def combine_rows(
    F, YG, b_fd, b_x, w_s, b_s, s, num_nodes, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The scores of a tile of nodes."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    inside = (i < num_nodes)[:, None] & (c < width)[None, :]
    f = relu_sum(F + i[:, None] * width + c[None, :], b_fd + c, inside, c < width)
    g = relu_sum(YG + i[:, None] * 2 * width + width + c[None, :], b_x + c, inside, c < width)
    weight = tl.load(w_s + c, c < width, 0.0)
    tl.store(s + i, tl.sum((f + g) * weight[None, :], 1) + tl.load(b_s), i < num_nodes)


@triton.jit
def relu_sum(rows, bias, inside, in_row):
    """relu(rows + bias); NaN is not lost."""
    value = tl.load(rows, inside, 0.0) + tl.load(bias, in_row, 0.0)[None, :]
    return tl.where(value <= 0, 0.0, value)


@kernel
def combine_gradients(
    grad, F, YG, b_fd, b_x, w_s, grad_F, grad_YG, sums, num_nodes, width,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradients of a tile of nodes, and their sums over it."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    in_row = c < width
    inside = (i < num_nodes)[:, None] & in_row[None, :]
    at, at_g = i[:, None] * width + c[None, :], i[:, None] * 2 * width + width + c[None, :]
    f, g = relu_sum(F + at, b_fd + c, inside, in_row), relu_sum(YG + at_g, b_x + c, inside, in_row)
    upstream = tl.load(grad + i, i < num_nodes, 0.0)[:, None]
    each = upstream * tl.load(w_s + c, in_row, 0.0)[None, :]
    of_f, of_g = tl.where(f == 0, 0.0, each), tl.where(g == 0, 0.0, each)
    tl.store(grad_F + at, of_f, inside)
    tl.store(grad_YG + at_g, of_g, inside)
    sums += tl.program_id(0).to(tl.int64) * (4 * width + 1)
    tl.store(sums + c, tl.sum(of_f, 0), in_row)
    tl.store(sums + width + c, tl.sum(of_g, 0), in_row)
    tl.store(sums + 2 * width + c, tl.sum(tl.where(inside, upstream * (f + g), 0.0), 0), in_row)
    tl.store(sums + 3 * width, tl.sum(upstream))


@kernel
def select_nodes(
    x, rank, ptr, kept_ptr, out, score, perm, batch, place, h, ok, num_nodes, num_graphs, width,
    steps, BLOCK: tl.constexpr, STEP: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Keep a program's nodes if they are among the best of their graph."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < num_nodes
    start, stop, most, p, is_kept = place_nodes(
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
def selection_gradients(
    grad, grad_score, x, perm, place, h, ptr, kept_ptr, grad_kept, grad_rank, grad_x, width,
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
            tl.store(grad_x + at, share[:, None] * upstream, mask)
        if SCORED:
            own += tl.load(grad_score + p, p < last, 0.0)
        own *= share
        tl.store(grad_kept + p, own, p < last)
        total += own
    inner = tl.sum(total, 0)
    tl.debug_barrier()  # so that each thread sees what the others have stored
    stop = tl.load(ptr + graph + 1)
    for first in range(tl.load(ptr + graph), stop, ROWS):
        i = first + tl.arange(0, ROWS)
        p = tl.load(place + i, i < stop, 0)
        own = tl.load(grad_kept + p, (i < stop) & (p >= 0), 0.0)
        tl.store(grad_rank + i, own - tl.load(h + i, i < stop, 0.0) * inner, i < stop)
        for block in range(0, width, CHANNELS):
            c = block + tl.arange(0, CHANNELS)
            mask = (p < 0)[:, None] & (c < width)[None, :]
            tl.store(grad_x + i[:, None] * width + c[None, :], 0.0, mask)
