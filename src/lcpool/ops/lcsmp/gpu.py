"""What lies between the matrix products of LCSMP, on a GPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from lcpool.ops.launch import cdiv, kernel, power_of_2
from lcpool.ops.message.gpu import add_differences, block, grid, spread_differences

__all__ = ["combine", "combine_backward", "shifted_difference_backward", "shifted_difference_sum"]

# Numbers of a program's tile.
TILE = 4096
# Nodes of a program that leaves a sum over them: fewer where they are few.
FEWEST, MOST, PROGRAMS = 4, 32, 2048


def shifted_difference_sum(YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    D = YG.new_empty(YG.size(0), b_d.numel())
    if D.numel():
        width = block(D)
        add_differences[grid(D, width)](
            YG, YG, b_d, ptr, node, D, D.size(1), YG.size(1), True, width, num_warps=1
        )
    return D


def shifted_difference_backward(
    grad: Tensor, YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor,
    out_node: Tensor, grad_YG: Tensor, sums: Tensor,
) -> Tensor:  # fmt: skip
    if grad.numel():
        width = block(grad)
        spread_differences[(len(sums), cdiv(grad.size(1), width))](
            grad, YG, YG, b_d, ptr, node, out_ptr, out_node, sums, grad_YG,
            len(grad), grad.size(1), YG.size(1), summed_rows(grad), True, width, num_warps=1,
        )  # fmt: skip
    return sums.sum(0)


def combine(F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor, b_s: Tensor) -> Tensor:
    s = F.new_empty(F.size(0))
    if s.numel():
        tile = rows_of(F)
        add_up[(cdiv(F.size(0), tile[0]),)](
            F, YG, b_fd, b_x, w_s, b_s, s, F.size(0), F.size(1), *tile
        )
    return s


def combine_backward(
    grad: Tensor, F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of F, of G in the right of one like ``YG``, and [b_fd ‖ b_x ‖ w_s ‖ b_s]'s.

    The last for each program: they are added up in order, with those of b_d, which go behind.
    """
    grad_F, grad_YG, (_, columns) = torch.empty_like(F), torch.empty_like(YG), rows_of(F)
    rows = summed_rows(F)
    programs = cdiv(F.size(0), rows)
    sums = F.new_empty(programs, 4 * F.size(1) + 1)
    if programs:
        take_apart[(programs,)](
            grad, F, YG, b_fd, b_x, w_s, grad_F, grad_YG, sums, F.size(0), F.size(1), rows, columns
        )
    return grad_F, grad_YG, sums


def rows_of(F: Tensor) -> tuple[int, int]:
    """The rows and columns of a tile: all channels of some nodes."""
    columns = power_of_2(F.size(1))
    return max(1, TILE // columns), columns


def summed_rows(F: Tensor) -> int:
    """The nodes of a program that leaves a sum over them."""
    usual = power_of_2(max(F.size(0) // PROGRAMS, FEWEST))
    return min(usual, MOST, rows_of(F)[0])


@kernel
def add_up(
    F, YG, b_fd, b_x, w_s, b_s, s, num_nodes, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The scores of a tile of nodes."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    inside = (i < num_nodes)[:, None] & (c < width)[None, :]
    f = positive(F + i[:, None] * width + c[None, :], b_fd + c, inside, c < width)
    g = positive(YG + i[:, None] * 2 * width + width + c[None, :], b_x + c, inside, c < width)
    weight = tl.load(w_s + c, c < width, 0.0)
    tl.store(s + i, tl.sum((f + g) * weight[None, :], 1) + tl.load(b_s), i < num_nodes)


@triton.jit
def positive(rows, bias, inside, in_row):
    """The relu of rows and a bias; NaN is not lost."""
    value = tl.load(rows, inside, 0.0) + tl.load(bias, in_row, 0.0)[None, :]
    return tl.where(value <= 0, 0.0, value)


@kernel
def take_apart(
    grad, F, YG, b_fd, b_x, w_s, grad_F, grad_YG, sums, num_nodes, width,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradients of a tile of nodes, and their sums over these nodes."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    in_row = c < width
    inside = (i < num_nodes)[:, None] & in_row[None, :]
    at, at_g = i[:, None] * width + c[None, :], i[:, None] * 2 * width + width + c[None, :]
    f, g = positive(F + at, b_fd + c, inside, in_row), positive(YG + at_g, b_x + c, inside, in_row)
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
