"""Layers whose parameters carry a run in front.

On a CPU a stacked layer calls, run by run, the very function the plain layer calls, and on a GPU
in float64 or without Triton as well; else one kernel works on all runs.
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
from lcpool.nn.score import Projection, project
from lcpool.train.stack.rows import Levels, Running, RunRows
from lcpool.train.stack.runwise import RunwiseBatchNorm, RunwiseLinear, aligned
from lcpool.train.stack.spread import Spread
from lcpool.train.stack.stackable import CannotStackError


class Stacked(nn.Module):
    """A layer for several runs: each parameter and buffer of the plain layer, stacked.

    Args:
        parts: the plain layers, one a run.
        levels: where the rows of each run are for the batch at hand.
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
        """The rows of each run at this layer's level, which ``x`` must be."""
        rows = self.levels.rows[self.level]
        if rows.total != x.size(0):  # kernels would read past the end
            raise CannotStackError(
                f"a layer works on {x.size(0)} rows where the runs have {rows.total}: inside a "
                f"pooling only layers on the input's nodes can be stacked."
            )
        return rows


class StackedLinear(Stacked):
    """x_r W_rᵀ + b_r for the rows of each run r."""

    weight: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Transform every row with the parameters of its run."""
        rows, kernels = self.rows_of(x), gpu_kernels(x)
        linear: Any = RunwiseLinear if kernels is None else kernels.TritonLinear
        out: Tensor = linear.apply(x, self.weight, getattr(self, "bias", None), rows)
        return out


class StackedBias(Stacked):
    """x + b_r for the rows of each run r."""

    bias: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Add the bias of its run to every row."""
        kernels, rows = gpu_kernels(x), self.rows_of(x)
        if kernels is None:
            return x + per_row(self.bias, rows)
        out: Tensor = kernels.TritonBias.apply(x, self.bias, rows)
        return out


class StackedProjection(Stacked):
    """Xp_r / ‖p_r‖ for the rows of each run r."""

    weight: Tensor

    def __init__(self, parts: Sequence[Projection], levels: Levels, level: int) -> None:
        super().__init__(parts, levels, level)
        self.normalize = parts[0].normalize

    def forward(self, x: Tensor) -> Tensor:
        """One value a row."""
        rows, p = self.rows_of(x), self.weight
        if not rows.at_once:
            parts = zip(map(aligned, torch.split(x, rows.counts)), map(aligned, p), strict=True)
            return torch.cat([project(part, of_run, self.normalize) for part, of_run in parts])
        if self.normalize:
            p = p / p.norm(p=2, dim=-1, keepdim=True)
        return (x * per_row(p.squeeze(1), rows)).sum(-1)


class StackedBatchNorm(Stacked):
    """Batch normalisation with the statistics of each run for itself; with ``relu``, its ReLU."""

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
        """Normalise every row as its run does."""
        if not self.training:
            return self._finished(self._by_running(x))
        self.num_batches_tracked.add_(1)
        running = Running(self.running_mean, self.running_var, self.momentum, self.eps)
        rows, kernels = self.rows_of(x), gpu_kernels(x)
        given = (x, self.weight, self.bias, running, rows)
        if kernels is not None:
            out: Tensor = kernels.TritonBatchNorm.apply(*given, self.relu)
            return out
        normal: Tensor = RunwiseBatchNorm.apply(*given)  # type: ignore[no-untyped-call]
        return self._finished(normal)

    def _by_running(self, x: Tensor) -> Tensor:
        rows = self.rows_of(x)
        if rows.at_once:
            scale = self.weight * (self.running_var + self.eps).rsqrt()
            shift = self.bias - self.running_mean * scale
            return x * per_row(scale, rows) + per_row(shift, rows)
        running = (self.running_mean, self.running_var)
        of_run = zip(rows.parts(x), *running, self.weight, self.bias, strict=True)
        return torch.cat([F.batch_norm(*values, eps=self.eps) for values in of_run])

    def _finished(self, normal: Tensor) -> Tensor:
        return normal.relu() if self.relu else normal


class StackedLayerNorm(Stacked):
    """Layer normalisation with the scale and shift of each run."""

    weight: Tensor
    bias: Tensor

    def __init__(self, parts: Sequence[nn.LayerNorm], levels: Levels, level: int) -> None:
        super().__init__(parts, levels, level)
        self.shape, self.eps = parts[0].normalized_shape, parts[0].eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every row."""
        normal, rows = F.layer_norm(x, self.shape, eps=self.eps), self.rows_of(x)
        return normal * per_row(self.weight, rows) + per_row(self.bias, rows)


class StackedSummary(nn.Module):
    """The readouts of runs with different backbones, as many graphs of each."""

    hierarchical: Tensor

    def __init__(self, hierarchical: Sequence[bool]) -> None:
        super().__init__()
        self.register_buffer("hierarchical", torch.tensor(hierarchical))

    def forward(self, readouts: list[Tensor]) -> Tensor:
        """Their sum where a run's backbone is hierarchical, else the last."""
        last = readouts[-1]
        of_run = self.hierarchical.repeat_interleave(
            last.size(0) // len(self.hierarchical), output_size=last.size(0)
        )
        return torch.stack(readouts).sum(0).where(of_run.unsqueeze(-1), last)


class BiasAfter(nn.Module):
    """A convolution that adds its bias itself, taken apart: the convolution, then the bias."""

    def __init__(self, conv: nn.Module, bias: nn.Module) -> None:
        super().__init__()
        self.conv, self.added = conv, bias

    @property
    def takes_edges(self) -> bool:
        """Whether the convolution takes :class:`Edges`."""
        return getattr(self.conv, "takes_edges", False)

    def forward(self, *args: Any) -> Tensor:
        """conv(x) + b."""
        out: Tensor = self.added(self.conv(*args))
        return out


KINDS: dict[type[nn.Module], Callable[..., Stacked]] = {
    nn.Linear: StackedLinear,
    PyGLinear: StackedLinear,
    Bias: StackedBias,
    Projection: StackedProjection,
    nn.BatchNorm1d: StackedBatchNorm,
    nn.LayerNorm: StackedLayerNorm,
}


def gpu_kernels(x: Tensor) -> ModuleType | None:
    """The Triton kernels, if there are some for ``x``."""
    return triton_kernels() if x.is_cuda and x.dtype == torch.float32 else None


@cache
def triton_kernels() -> ModuleType | None:
    """The Triton kernels, or None where Triton is not installed."""
    try:
        from lcpool.train.stack import gpu
    except ImportError:
        return None
    return gpu


def per_row(values: Tensor, rows: RunRows) -> Tensor:
    """The value of its run for every row."""
    if rows.at_once:
        spread: Tensor = Spread.apply(values, rows)  # type: ignore[no-untyped-call]
        return spread
    return torch.cat([v.expand(n, -1) for v, n in zip(values, rows.counts, strict=True)])
