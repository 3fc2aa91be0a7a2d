"""Layers whose parameters have a run as their first dimension.

Where there is a kernel, it works on all runs (``cpu.py``, ``gpu.py``); else torch does, run by run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import Linear as PyGLinear

from lcpool.graph.graph import Graph
from lcpool.nn.gine import EdgeLinear
from lcpool.nn.lcsmp import LCSMP, Bias
from lcpool.nn.norm import BatchNorm
from lcpool.nn.score import Projection, project
from lcpool.ops.fused_lcpool import LCSMPParameters
from lcpool.ops.matmul.plain import aligned
from lcpool.train.stack.linear import RunLinear
from lcpool.train.stack.rows import CannotStackError, RunRows


def run_kernels(x: Tensor) -> ModuleType | None:
    """The kernels that work on all runs where ``x`` is; None if there are none for it."""
    if x.is_cuda:
        return _kernels("gpu") if x.dtype == torch.float32 else None
    return _kernels("cpu") if x.is_cpu and x.dtype in (torch.float32, torch.float64) else None


@cache
def _kernels(name: str) -> ModuleType | None:
    """None where Triton or numba cannot be imported, as in :mod:`lcpool.ops.kernels`."""
    try:
        return import_module(f"lcpool.train.stack.{name}")
    except ImportError:
        return None


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
        rows, kernels = self.rows_of(x), run_kernels(x)
        linear: Any = RunLinear if kernels is None else kernels.RunLinear
        out: Tensor = linear.apply(x, self.weight, getattr(self, "bias", None), rows)
        return out


class StackedBias(Stacked):
    """x + b_r for the rows of each run r."""

    def forward(self, x: Tensor) -> Tensor:
        rows, kernels = self.rows_of(x), run_kernels(x)
        if kernels is None:
            return x + rows.spread(self.bias)
        out: Tensor = kernels.RunBias.apply(x, self.bias, rows)
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
        rows, kernels, plain = self.rows_of(x), run_kernels(x), self.plain[0]
        own = (self.running_mean, self.running_var, self.weight, self.bias)
        if self.training:
            self.num_batches_tracked.add_(1 if rows.all_have(2) else rows.table[0] > 1)
            if kernels is not None:
                options = (plain.momentum, plain.eps, self.relu)
                out: Tensor = kernels.RunBatchNorm.apply(x, *own, *options, rows)
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


def join_scores(score: LCSMP) -> None:
    """Compute the scores of all runs by one operator where there is one, on a CPU."""
    layers, by_layers = score._layers(), score.values

    def values(x: Tensor, graph: Graph) -> Tensor:
        L_d, b_d, L_fd, L_x, L_s = layers
        kernels = run_kernels(x)
        if not hasattr(kernels, "RunLCSMP"):
            return by_layers(x, graph)
        assert kernels is not None
        parameters = LCSMPParameters(
            L_d.weight, b_d.bias, L_fd.weight, L_fd.bias, L_x.weight, L_x.bias, L_s.weight, L_s.bias
        )
        out: Tensor = kernels.RunLCSMP.apply(x, L_d.rows_of(x), *graph.edges.rows(), *parameters)
        return out

    if all(isinstance(layer, StackedLinear | StackedBias) for layer in layers):
        score.values = values  # type: ignore[method-assign]


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
