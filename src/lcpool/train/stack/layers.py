"""Layers whose parameters have a run as their first dimension.

On a GPU in float32 with Triton, one kernel works on all runs. Otherwise a stacked layer calls, run
by run, the function that the plain layer calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import Linear as PyGLinear

from lcpool.nn.lcsmp import Bias
from lcpool.nn.norm import BatchNorm
from lcpool.nn.score import Projection, project
from lcpool.train.stack.rows import CannotStackError, Levels, Running, RunRows
from lcpool.train.stack.runwise import RunwiseBatchNorm, RunwiseLinear, aligned


class Stacked(nn.Module):
    """A layer for several runs: each parameter and buffer of the plain layers, stacked.

    Args:
        parts: the plain layers, one per run.
        levels: the rows of each run in the current batch.
        level: the level at which this layer works.
    """

    def __init__(self, parts: Sequence[nn.Module], levels: Levels, level: int) -> None:
        super().__init__()
        self.levels, self.level = levels, level
        for name, _ in parts[0].named_parameters(recurse=False):
            stacked = torch.stack([getattr(part, name).detach() for part in parts])
            self.register_parameter(name, nn.Parameter(stacked))
        for name, _ in parts[0].named_buffers(recurse=False):
            self.register_buffer(name, torch.stack([getattr(part, name) for part in parts]))

    def rows_of(self, x: Tensor) -> RunRows:
        """The rows of each run at this layer's level, checked against ``x``."""
        rows = self.levels.rows[self.level]
        if rows.total != x.size(0):  # Kernels would read past the end.
            raise CannotStackError(
                f"a layer works on {x.size(0)} rows where the runs have {rows.total}: inside a "
                f"pooling only layers on the input's nodes can be stacked."
            )
        return rows


class StackedLinear(Stacked):
    """x_r W_rᵀ + b_r for the rows of each run r."""

    weight: Tensor

    def forward(self, x: Tensor) -> Tensor:
        rows, kernels = self.rows_of(x), gpu_kernels(x)
        linear: Any = RunwiseLinear if kernels is None else kernels.TritonLinear
        out: Tensor = linear.apply(x, self.weight, getattr(self, "bias", None), rows)
        return out


class StackedBias(Stacked):
    """x + b_r for the rows of each run r."""

    bias: Tensor

    def forward(self, x: Tensor) -> Tensor:
        kernels, rows = gpu_kernels(x), self.rows_of(x)
        if kernels is None:
            return x + rows.spread(self.bias)
        out: Tensor = kernels.TritonBias.apply(x, self.bias, rows)
        return out


class StackedProjection(Stacked):
    """x_r p_r / ‖p_r‖ for the rows of each run r."""

    weight: Tensor

    def __init__(self, parts: Sequence[Projection], levels: Levels, level: int) -> None:
        super().__init__(parts, levels, level)
        self.normalize = parts[0].normalize

    def forward(self, x: Tensor) -> Tensor:
        rows, p = self.rows_of(x), self.weight
        if not rows.at_once:
            parts = zip(map(aligned, rows.parts(x)), map(aligned, p), strict=True)
            return torch.cat([project(part, of_run, self.normalize) for part, of_run in parts])
        if self.normalize:
            p = p / p.norm(p=2, dim=-1, keepdim=True)
        return (x * rows.spread(p.squeeze(1))).sum(-1)


class StackedBatchNorm(Stacked):
    """Batch normalisation with each run's own statistics; with ``relu``, followed by ReLU.

    A run with fewer than two rows is normalised as by :class:`lcpool.nn.norm.BatchNorm`: with its
    running statistics, which stay as they are.
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, parts: Sequence[nn.BatchNorm1d], levels: Levels, level: int) -> None:
        super().__init__(parts, levels, level)
        self.eps, self.momentum = parts[0].eps, parts[0].momentum or 0.0
        self.relu = False

    def forward(self, x: Tensor) -> Tensor:
        rows, kernels = self.rows_of(x), gpu_kernels(x)
        if self.training:
            self.num_batches_tracked.add_(1 if min(rows.counts) > 1 else rows.table[0] > 1)
            running = Running(self.running_mean, self.running_var, self.momentum, self.eps)
            given = (x, self.weight, self.bias, running, rows)
            if kernels is not None:
                out: Tensor = kernels.TritonBatchNorm.apply(*given, self.relu)
                return out
            normal: Tensor = RunwiseBatchNorm.apply(*given)  # type: ignore[no-untyped-call]
        elif rows.at_once:
            scale = self.weight * (self.running_var + self.eps).rsqrt()
            shift = self.bias - self.running_mean * scale
            normal = x * rows.spread(scale) + rows.spread(shift)
        else:
            own = (self.running_mean, self.running_var, self.weight, self.bias)
            of_run = zip(rows.parts(x), *own, strict=True)
            normal = torch.cat([F.batch_norm(*values, eps=self.eps) for values in of_run])
        return normal.relu() if self.relu else normal


class StackedLayerNorm(Stacked):
    """Layer normalisation with the scale and shift of each run."""

    weight: Tensor
    bias: Tensor

    def __init__(self, parts: Sequence[nn.LayerNorm], levels: Levels, level: int) -> None:
        super().__init__(parts, levels, level)
        self.shape, self.eps = parts[0].normalized_shape, parts[0].eps

    def forward(self, x: Tensor) -> Tensor:
        normal, rows = F.layer_norm(x, self.shape, eps=self.eps), self.rows_of(x)
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


class BiasAfter(nn.Module):
    """A convolution without its bias, then the bias."""

    def __init__(self, conv: nn.Module, bias: nn.Module) -> None:
        super().__init__()
        self.conv, self.added = conv, bias

    @property
    def takes_edges(self) -> bool:
        """Whether the convolution takes :class:`Edges`."""
        return getattr(self.conv, "takes_edges", False)

    def forward(self, *args: Any) -> Tensor:
        out: Tensor = self.added(self.conv(*args))
        return out


KINDS: dict[type[nn.Module], Callable[..., Stacked]] = {
    nn.Linear: StackedLinear,
    PyGLinear: StackedLinear,
    Bias: StackedBias,
    Projection: StackedProjection,
    nn.BatchNorm1d: StackedBatchNorm,
    BatchNorm: StackedBatchNorm,
    nn.LayerNorm: StackedLayerNorm,
}


def gpu_kernels(x: Tensor) -> ModuleType | None:
    """The Triton kernels, if ``x`` is on a GPU in float32 and Triton is installed."""
    return triton_kernels() if x.is_cuda and x.dtype == torch.float32 else None


@cache
def triton_kernels() -> ModuleType | None:
    """The Triton kernels, or None where Triton is not installed."""
    try:
        from lcpool.train.stack import gpu
    except ImportError:
        return None
    return gpu
