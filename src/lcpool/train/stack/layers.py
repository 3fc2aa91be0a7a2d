"""Layers whose parameters have a run as their first dimension.

On a GPU in float32 with Triton, one kernel works on all runs (``gpu.py``). Otherwise a stacked
layer calls, run by run, the function that the plain layer calls. In products, inputs are copied if
they are not aligned in memory like a separate tensor: on some CPUs the order of summation depends
on that, and a run's result must not depend on the other runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch_geometric.nn import Linear as PyGLinear

from lcpool.nn.gine import EdgeLinear
from lcpool.nn.lcsmp import Bias
from lcpool.nn.norm import BatchNorm
from lcpool.nn.score import Projection, project
from lcpool.train.stack.rows import CannotStackError, RunRows

ALIGNED = 64  # bytes: where torch lets a tensor begin


def gpu_kernels(x: Tensor) -> ModuleType | None:
    """The Triton kernels, if ``x`` is on a GPU in float32 and Triton is installed."""
    return triton_kernels() if x.is_cuda and x.dtype == torch.float32 else None


@cache
def triton_kernels() -> ModuleType | None:
    """The Triton kernels; None where Triton cannot be imported, as in :mod:`lcpool.ops.kernels`."""
    try:
        from lcpool.train.stack import gpu
    except ImportError:
        return None
    return gpu


class Stacked(nn.Module):
    """A layer for several runs: each parameter and buffer of the plain layers ``parts``, stacked.

    ``levels[level]`` are the rows of each run in the current batch.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, parts: Sequence[nn.Module], levels: dict[int, RunRows], level: int) -> None:
        super().__init__()
        self.levels, self.level = levels, level
        self.plain: Any = (parts[0],)  # for its options; in a tuple it is no part of this layer
        for name, _ in parts[0].named_parameters(recurse=False):
            stacked = torch.stack([getattr(part, name).detach() for part in parts])
            self.register_parameter(name, nn.Parameter(stacked))
        for name, _ in parts[0].named_buffers(recurse=False):
            self.register_buffer(name, torch.stack([getattr(part, name) for part in parts]))

    def rows_of(self, x: Tensor) -> RunRows:
        """The rows of each run at this layer's level, checked against ``x``."""
        rows = self.levels[self.level]
        if rows.total != x.size(0):  # Kernels would read past the end.
            raise CannotStackError(
                f"a layer works on {x.size(0)} rows where the runs have {rows.total}: inside a "
                f"pooling only layers on the input's nodes can be stacked."
            )
        return rows


class StackedLinear(Stacked):
    """x_r W_rᵀ + b_r for the rows of each run r."""

    def forward(self, x: Tensor) -> Tensor:
        rows, kernels = self.rows_of(x), gpu_kernels(x)
        linear: Any = RunwiseLinear if kernels is None else kernels.TritonLinear
        out: Tensor = linear.apply(x, self.weight, getattr(self, "bias", None), rows)
        return out


class StackedBias(Stacked):
    """x + b_r for the rows of each run r."""

    def forward(self, x: Tensor) -> Tensor:
        rows, kernels = self.rows_of(x), gpu_kernels(x)
        if kernels is None:
            return x + rows.spread(self.bias)
        out: Tensor = kernels.TritonBias.apply(x, self.bias, rows)
        return out


class StackedProjection(Stacked):
    """x_r p_r / ‖p_r‖ for the rows of each run r."""

    def forward(self, x: Tensor) -> Tensor:
        rows, p, normalize = self.rows_of(x), self.weight, self.plain[0].normalize
        if not rows.at_once:
            parts = zip(map(aligned, rows.parts(x)), map(aligned, p), strict=True)
            return torch.cat([project(part, of_run, normalize) for part, of_run in parts])
        if normalize:
            p = p / p.norm(p=2, dim=-1, keepdim=True)
        return (x * rows.spread(p.squeeze(1))).sum(-1)


class StackedBatchNorm(Stacked):
    """Batch normalisation with each run's own statistics; with ``relu``, followed by ReLU.

    A run with fewer than two rows is normalised as by :class:`lcpool.nn.norm.BatchNorm`: with its
    running statistics, which stay as they are.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    relu = False

    def forward(self, x: Tensor) -> Tensor:
        rows, kernels, plain = self.rows_of(x), gpu_kernels(x), self.plain[0]
        own = (self.running_mean, self.running_var, self.weight, self.bias)
        if self.training:
            self.num_batches_tracked.add_(1 if rows.all_have(2) else rows.table[0] > 1)
            if kernels is not None:
                options = (plain.momentum, plain.eps, self.relu)
                out: Tensor = kernels.TritonBatchNorm.apply(x, *own, *options, rows)
                return out
        if rows.at_once and not self.training:
            scale = self.weight * (self.running_var + plain.eps).rsqrt()
            shift = self.bias - self.running_mean * scale
            normal = x * rows.spread(scale) + rows.spread(shift)
        else:
            named = {"momentum": plain.momentum, "eps": plain.eps}
            parts = [
                F.batch_norm(*values, training=self.training and len(values[0]) > 1, **named)
                for values in zip(rows.parts(x), *own, strict=True)
            ]
            normal = torch.cat(parts)
        return normal.relu() if self.relu else normal


class StackedLayerNorm(Stacked):
    """Layer normalisation with the scale and shift of each run."""

    def forward(self, x: Tensor) -> Tensor:
        rows, plain = self.rows_of(x), self.plain[0]
        normal = F.layer_norm(x, plain.normalized_shape, eps=plain.eps)
        return normal * rows.spread(self.weight) + rows.spread(self.bias)


class StackedReadouts(nn.Module):
    """For each run the sum of the readouts if its backbone is hierarchical, else the last one."""

    hierarchical: Tensor

    def __init__(self, hierarchical: Sequence[bool]) -> None:
        super().__init__()
        self.register_buffer("hierarchical", torch.tensor(hierarchical))

    def forward(self, readouts: list[Tensor]) -> Tensor:
        last = readouts[-1]
        of_run = self.hierarchical.repeat_interleave(
            last.size(0) // len(self.hierarchical), output_size=last.size(0)
        )
        return torch.stack(readouts).sum(0).where(of_run.unsqueeze(-1), last)


KINDS: dict[type[nn.Module], type[Stacked]] = {
    nn.Linear: StackedLinear,
    PyGLinear: StackedLinear,
    EdgeLinear: StackedLinear,
    Bias: StackedBias,
    Projection: StackedProjection,
    nn.BatchNorm1d: StackedBatchNorm,
    BatchNorm: StackedBatchNorm,
    nn.LayerNorm: StackedLayerNorm,
}


def aligned(values: Tensor) -> Tensor:
    """The same values, at an address where a separate tensor could begin."""
    return values.clone() if values.data_ptr() % ALIGNED else values


def multiply(a: Tensor, b: Tensor, out: Tensor, plus: Tensor | None = None) -> None:
    """``out`` = a b + ``plus``, bit for bit as with separate tensors."""
    room = torch.empty_like(out) if out.data_ptr() % ALIGNED else out
    if plus is None:
        torch.mm(aligned(a), aligned(b), out=room)
    else:
        torch.addmm(plus, aligned(a), aligned(b), out=room)
    if room is not out:
        out.copy_(room)


class RunwiseLinear(torch.autograd.Function):
    """x_r W_rᵀ + b_r for the rows of each run r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rows: RunRows) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.rows = rows
        out = x.new_empty(x.size(0), weight.size(1))
        for r, (part, place) in enumerate(zip(rows.parts(x), rows.parts(out), strict=True)):
            multiply(part, weight[r].t(), place, None if bias is None else bias[r])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None, None]:
        (x, weight), rows = ctx.saved_tensors, ctx.rows
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        grad_weight = torch.empty_like(weight)
        grad_bias = weight.new_empty(weight.shape[:2]) if ctx.needs_input_grad[2] else None
        places = None if grad_x is None else rows.parts(grad_x)
        for r, (part, of_run) in enumerate(zip(rows.parts(x), rows.parts(grad), strict=True)):
            multiply(of_run.t(), part, grad_weight[r])
            if grad_bias is not None:
                torch.sum(of_run, 0, out=grad_bias[r])
            if places is not None:
                multiply(of_run, weight[r], places[r])
        return grad_x, grad_weight, grad_bias, None
