"""Layers of several runs on a CPU, compiled: each run's rows stay in the cache through a layer.

A run's sums are over its own rows, in order, in double precision: its result does not depend on the
other runs, nor on the number of threads, which share the runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lcpool.ops.fused_lcpool import LCSMPParameters
from lcpool.ops.fused_lcpool.cpu import combine_gradients, combine_rows, shifted_gradients
from lcpool.ops.message.cpu import add_differences
from lcpool.ops.threads import SUMS_PER_THREAD, arrays, compiled, in_parts, sum_rows
from lcpool.train.stack.linear import RunLinear, multiply, multiply_rows
from lcpool.train.stack.rows import RunRows

__all__ = ["RunBatchNorm", "RunBias", "RunLCSMP", "RunLinear"]


def add_bias(x: Tensor, bias: Tensor, rows: RunRows) -> Tensor:
    """x_r + b_r for the rows of each run r."""
    x, out = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
    sum_rows(add_biases, len(bias), x.numel(), x, bias.contiguous(), rows.table, out)
    return out


def run_sums(values: Tensor, rows: RunRows) -> Tensor:
    """The sum over the rows of each run."""
    values, runs = values.contiguous(), len(rows.counts)
    sums = values.new_empty(runs, values.size(1))
    sum_rows(sum_runs, runs, values.numel(), values, rows.table, sums)
    return sums


class RunBias(torch.autograd.Function):
    """x_r + b_r for the rows of each run r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, rows: RunRows) -> Tensor:
        ctx.rows = rows
        return add_bias(x, bias, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        return grad, run_sums(grad, ctx.rows), None


class RunBatchNorm(torch.autograd.Function):
    """Normalised rows, or their relu; updates the running statistics in place.

    A run with fewer than two rows is normalised with its running statistics, which stay as they
    were.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor,
        bias: Tensor, momentum: float, eps: float, relu: bool, rows: RunRows,
    ) -> Tensor:  # fmt: skip
        x = x.contiguous()
        out, mean, scale = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        sum_rows(
            normalize, len(weight), 3 * x.numel(), x, rows.table, weight, bias, running_mean,
            running_var, torch.tensor([momentum, eps], dtype=torch.double),
            torch.tensor([relu]), out, mean, scale,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, bias, mean, scale)
        ctx.rows, ctx.relu = rows, relu
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, scale = ctx.saved_tensors
        grad_x, grad_w, grad_b = (torch.empty_like(t) for t in (x, weight, weight))
        sum_rows(
            normalize_gradients, len(weight), 3 * x.numel(), grad.contiguous(), x,
            ctx.rows.table, weight, bias, mean, scale, torch.tensor([ctx.relu]), grad_x, grad_w,
            grad_b,
        )  # fmt: skip
        return grad_x, None, None, grad_w, grad_b, None, None, None, None


class RunLCSMP(torch.autograd.Function):
    """The scores of LCSMP with the parameters of each run, as :mod:`lcpool.ops.fused_lcpool` does.

    Layer by layer, ten times as many numbers would move between the products.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: RunRows, *given: Tensor) -> Tensor:
        x, edges, p = x.contiguous(), given[:4], LCSMPParameters(*given[4:])
        W = torch.cat([p.W_d, p.W_x], 1)
        YG = multiply_rows(x, W.mT, rows)
        D, s = YG.new_empty(x.size(0), p.b_d.size(1)), YG.new_empty(x.size(0))
        y, d, ptr, node = arrays(YG, D, *edges[:2])
        (b_d,) = arrays(p.b_d)
        each_run(rows, node.size * d.shape[1], lambda run, first, last: add_differences(
            first, last, y, y, b_d[run], ptr, node, d
        ))  # fmt: skip
        F = multiply_rows(D, p.W_fd.mT, rows)
        f, b_fd, b_x, w_s, b_s, out = arrays(F, p.b_fd, p.b_x, p.w_s.squeeze(1), p.b_s, s)
        each_run(rows, f.size, lambda run, first, last: combine_rows(
            first, last, f, y, b_fd[run], b_x[run], w_s[run], b_s[run], out
        ))  # fmt: skip
        ctx.save_for_backward(x, W, YG, D, F, *given)
        ctx.rows = rows
        return s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *saved = ctx.saved_tensors
        (W, YG, D, F), edges, p = saved[:4], saved[4:8], LCSMPParameters(*saved[8:])
        rows, of_F, of_YG = ctx.rows, torch.empty_like(F), torch.empty_like(YG)
        b_fd, b_x, w_s, b_d = arrays(p.b_fd, p.b_x, p.w_s.squeeze(1), p.b_d)
        g, f, y, of_f, of_y = arrays(grad.contiguous(), F, YG, of_F, of_YG)
        sums = each_run(rows, 2 * f.size, lambda run, first, last: combine_gradients(
            first, last, g, f, y, b_fd[run], b_x[run], w_s[run], of_f, of_y
        ))  # fmt: skip
        (of_d, *neighbours) = arrays(multiply_rows(of_F, p.W_fd, rows), *edges)
        of_b_d = each_run(rows, 2 * of_d.size, lambda run, first, last: shifted_gradients(
            first, last, of_d, y, b_d[run], *neighbours, of_y
        ))  # fmt: skip
        width = p.b_d.size(1)
        of_W_d, of_W_x = multiply(of_YG, x, rows).split(width, 1)
        of_b_fd, of_b_x, of_w_s, of_b_s = torch.from_numpy(np.stack(sums)).split(
            [width, width, width, 1], 1
        )
        return (
            multiply_rows(of_YG, W, rows), None, *(None,) * 4,
            of_W_d, torch.from_numpy(np.stack(of_b_d)), multiply(of_F, D, rows), of_b_fd,
            of_W_x, of_b_x, of_w_s.unsqueeze(1), of_b_s,
        )  # fmt: skip


def each_run(rows: RunRows, work: int, compute: Callable[[int, int, int], Any]) -> list[Any]:
    """``compute(run, first row, row after the last)`` for each run; threads share the runs."""
    counts, first = rows.table[:2].tolist()

    def some(start: int, stop: int) -> list[Any]:
        return [compute(run, first[run], first[run] + counts[run]) for run in range(start, stop)]

    found = in_parts(some, len(counts), work, SUMS_PER_THREAD)
    return [result for part in found for result in part]


# Short functions over few arrays: only their loops does the compiler turn into vector instructions.


@compiled
def add_biases(start, stop, x, bias, table, out):
    """x + b for the rows of some runs."""
    for run in range(start, stop):
        b = bias[run]
        for i in range(table[1, run], table[1, run] + table[0, run]):
            for c in range(b.size):
                out[i, c] = x[i, c] + b[c]


@compiled
def sum_runs(start, stop, values, table, sums):
    """The sums over the rows of some runs."""
    for run in range(start, stop):
        first = table[1, run]
        sums[run] = total_of(values[first : first + table[0, run]])


@compiled
def total_of(rows):
    """The sum of the rows, in double precision."""
    total = np.zeros(rows.shape[1], np.float64)
    for i in range(rows.shape[0]):
        for c in range(total.size):
            total[c] += rows[i, c]
    return total


@compiled
def squares_of(rows, center):
    """The sum of the squared distances of the rows from ``center``, in double precision."""
    total = np.zeros(rows.shape[1], np.float64)
    for i in range(rows.shape[0]):
        for c in range(total.size):
            off = rows[i, c] - center[c]
            total[c] += off * off
    return total


@compiled
def products_of(grads, rows, center):
    """Σ g (x − center) over the rows, in double precision."""
    total = np.zeros(rows.shape[1], np.float64)
    for i in range(rows.shape[0]):
        for c in range(total.size):
            total[c] += grads[i, c] * (rows[i, c] - center[c])
    return total


@compiled
def scale_rows(rows, center, factor, shift, relu, out):
    """(x − center) · factor + shift, or its relu."""
    zero = out.dtype.type(0)
    for i in range(rows.shape[0]):
        for c in range(center.size):
            out[i, c] = (rows[i, c] - center[c]) * factor[c] + shift[c]
        if relu:
            for c in range(center.size):
                out[i, c] = zero if out[i, c] <= 0 else out[i, c]  # NaN is not lost.


@compiled
def mask_rows(grads, rows, center, factor, shift, masked):
    """The gradients where (x − center) · factor + shift is not below 0.

    A feature that all nodes share is normalised to 0, and its bias begins there: unlike with
    torch's ReLU the gradient passes, or the bias would never move. With torch rounding decides.
    """
    zero = rows.dtype.type(0)
    for i in range(rows.shape[0]):
        for c in range(center.size):
            masked[i, c] = (rows[i, c] - center[c]) * factor[c] + shift[c]
        for c in range(center.size):
            g = grads[i, c]
            masked[i, c] = zero if masked[i, c] < 0 else g


@compiled
def correct_rows(grads, mean, factor, rows, center, slope):
    """(g − mean) · factor − slope · (x − center), in place."""
    for i in range(rows.shape[0]):
        for c in range(center.size):
            grads[i, c] = (grads[i, c] - mean[c]) * factor[c]
        for c in range(center.size):
            grads[i, c] -= slope[c] * (rows[i, c] - center[c])


@compiled
def normalize(
    start, stop, x, table, weight, bias, running_mean, running_var, rates, relu, out, means, scales
):  # fmt: skip
    """y = (x − mean) / √(var + ε) · w + b or its relu, and a step of the running statistics."""
    momentum, eps = rates
    for run in range(start, stop):
        count, first = table[0, run], table[1, run]
        rows = x[first : first + count]
        var = running_var[run].astype(np.float64)
        means[run] = running_mean[run]
        if count > 1:
            mean = total_of(rows) / count
            means[run] = mean
            squares = squares_of(rows, means[run])
            var = squares / count
            running_mean[run] += momentum * (mean - running_mean[run])
            running_var[run] += momentum * (squares / (count - 1) - running_var[run])
        scales[run] = 1 / np.sqrt(var + eps)
        factor = weight[run] * scales[run]
        scale_rows(rows, means[run], factor, bias[run], relu[0], out[first : first + count])


@compiled
def normalize_gradients(
    start, stop, grad, x, table, weight, bias, means, scales, relu, grad_x, grad_w, grad_b
):  # fmt: skip
    """dx = w/σ · (g − mean(g) − x̂ · mean(g · x̂)), with g = 0 where relu cuts y off."""
    for run in range(start, stop):
        count, first = table[0, run], table[1, run]
        last = first + count
        rows, g = x[first:last], grad_x[first:last]
        factor = weight[run] * scales[run]
        if relu[0]:
            mask_rows(grad[first:last], rows, means[run], factor, bias[run], g)
        else:
            g[:] = grad[first:last]
        grad_b[run] = total_of(g)
        grad_w[run] = products_of(g, rows, means[run]) * scales[run]
        # The running statistics, which normalise a run of fewer than two rows, do not depend on x.
        share = x.dtype.type(1 / count if count > 1 else 0)
        slope = factor * scales[run] * grad_w[run] * share
        correct_rows(g, grad_b[run] * share, factor, rows, means[run], slope)
