"""Many networks as one: layers whose parameters carry a run in front.

:func:`stack` takes networks of one architecture and replaces the few kinds of layers that hold
parameters. All others (aggregation, top-k, connect, readout) work on a disjoint union of graphs and
need not know of runs. On a CPU a stacked layer calls, run by run, the very function the plain layer
calls; on a GPU one kernel works on all runs (in float64, or without Triton, the runs are bands of
one batched product).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.nn import Linear as PyGLinear

from lcpool.data import GraphBatch
from lcpool.models import Backbone, Output
from lcpool.nn.leaf import Bias, Projection, project
from lcpool.train.bands import BandedBatchNorm, BandedLinear, Spread
from lcpool.train.rows import Levels, Rows, Running, level_of
from lcpool.train.runwise import RunwiseBatchNorm, RunwiseLinear
from lcpool.train.stackable import why_not_stacked
from lcpool.train.tensors import tensors_of


class CannotStackError(TypeError):
    """A part of the network holds parameters in a way that is not known here."""


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

    @property
    def rows(self) -> Rows:
        """The rows of each run at this layer's level."""
        return self.levels.rows[self.level]


class StackedLinear(Stacked):
    """x_r W_rᵀ + b_r for the rows of each run r."""

    weight: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Transform every row with the parameters of its run."""
        rows, bias = self.rows, getattr(self, "bias", None)
        linear = fastest(x, rows, RunwiseLinear, BandedLinear, "TritonLinear")
        out: Tensor = linear.apply(x, self.weight, bias, rows)
        return out


class StackedBias(Stacked):
    """x + b_r for the rows of each run r."""

    bias: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Add the bias of its run to every row."""
        kernels = gpu_kernels(x)
        if kernels is None:
            return x + per_row(self.bias, self.rows)
        out: Tensor = kernels.TritonBias.apply(x, self.bias, self.rows)
        return out


class StackedProjection(Stacked):
    """Xp_r / ‖p_r‖ for the rows of each run r."""

    weight: Tensor

    def __init__(self, parts: Sequence[Projection], levels: Levels, level: int) -> None:
        super().__init__(parts, levels, level)
        self.normalize = parts[0].normalize

    def forward(self, x: Tensor) -> Tensor:
        """One value a row."""
        rows, p = self.rows, self.weight
        if not rows.banded:
            parts = zip(torch.split(x, rows.counts), p, strict=True)
            return torch.cat([project(part, of_run, self.normalize) for part, of_run in parts])
        if self.normalize:
            p = p / p.norm(p=2, dim=-1, keepdim=True)
        return (x * per_row(p.squeeze(1), rows)).sum(-1)


class StackedBatchNorm(Stacked):
    """Batch normalisation with the statistics of each run for itself."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, parts: Sequence[nn.BatchNorm1d], levels: Levels, level: int) -> None:
        super().__init__(parts, levels, level)
        self.eps, self.momentum = parts[0].eps, parts[0].momentum or 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every row as its run does."""
        rows = self.rows
        if self.training:
            self.num_batches_tracked.add_(1)
        if not self.training and not rows.banded:
            running = (self.running_mean, self.running_var)
            of_run = zip(rows.parts(x), *running, self.weight, self.bias, strict=True)
            return torch.cat([F.batch_norm(*values, eps=self.eps) for values in of_run])
        if not self.training:
            scale = self.weight * (self.running_var + self.eps).rsqrt()
            shift = self.bias - self.running_mean * scale
            return x * per_row(scale, rows) + per_row(shift, rows)
        norm = fastest(x, rows, RunwiseBatchNorm, BandedBatchNorm, "TritonBatchNorm")
        statistics = Running(self.running_mean, self.running_var, self.momentum, self.eps)
        normal: Tensor = norm.apply(x, self.weight, self.bias, statistics, rows)
        return normal


class StackedLayerNorm(Stacked):
    """Layer normalisation with the scale and shift of each run."""

    weight: Tensor
    bias: Tensor

    def __init__(self, parts: Sequence[nn.LayerNorm], levels: Levels, level: int) -> None:
        super().__init__(parts, levels, level)
        self.shape, self.eps = parts[0].normalized_shape, parts[0].eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every row."""
        normal = F.layer_norm(x, self.shape, eps=self.eps)
        return normal * per_row(self.weight, self.rows) + per_row(self.bias, self.rows)


class BiasAfter(nn.Module):
    """A convolution that adds its bias itself, taken apart: the convolution, then the bias."""

    def __init__(self, conv: nn.Module, bias: nn.Module) -> None:
        super().__init__()
        self.conv, self.added = conv, bias

    @property
    def usual(self) -> bool:
        """Whether the convolution knows what to make of what is known of edges."""
        return getattr(self.conv, "usual", False)

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
        from lcpool.train import gpu
    except ImportError:
        return None
    return gpu


def fastest(x: Tensor, rows: Rows, runwise: type, banded: type, kernel: str) -> Any:
    """The way to compute a layer of several runs here: a kernel, in bands, or run by run."""
    kernels = gpu_kernels(x)
    if kernels is not None:
        return getattr(kernels, kernel)
    return banded if rows.banded else runwise


def per_row(values: Tensor, rows: Rows) -> Tensor:
    """The value of its run for every row."""
    if rows.banded:
        spread: Tensor = Spread.apply(values, rows)  # type: ignore[no-untyped-call]
        return spread
    return torch.cat([v.expand(n, -1) for v, n in zip(values, rows.counts, strict=True)])


class Stack:
    """Networks of one architecture as one, for batches with the graphs of run 0 first.

    Args:
        models: the networks, one a run.

    Raises:
        CannotStackError: where a pooling's counts are not known beforehand, or parameters or
            buffers lie in a layer of a kind that is not known here, or in several.
    """

    def __init__(self, models: Sequence[Backbone]) -> None:
        if (reason := why_not_stacked(models[0])) is not None:
            raise CannotStackError(reason)
        self.model = copy.deepcopy(models[0])
        self.levels = Levels()
        self.leaves: dict[str, Stacked] = {}
        modules = [dict(model.named_modules()) for model in models]
        for name in reversed(modules[0]):  # inner layers first: a GCN's own bias comes last
            parts = [of_run[name] for of_run in modules]
            if next(parts[0].parameters(recurse=False), None) is not None:
                self._replace(name, parts)

    def _replace(self, name: str, parts: Sequence[nn.Module]) -> None:
        """Put a stacked layer in the place of ``name``."""
        level, kind = level_of(name), type(parts[0])
        old = self.model.get_submodule(name)
        if kind in KINDS:
            new: nn.Module = KINDS[kind](parts, self.levels, level)
            leaf = new
        elif isinstance(old, GCNConv):
            leaf = StackedBias([_bias_of(part) for part in parts], self.levels, level)
            old.register_parameter("bias", None)
            new = BiasAfter(old, leaf)
        else:
            raise CannotStackError(
                f"'{name}' is a {kind.__name__}, whose parameters cannot be stacked."
            )
        assert isinstance(leaf, Stacked)
        self.leaves[name] = leaf
        parent, _, child = name.rpartition(".")
        setattr(self.model.get_submodule(parent), child, new)

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers by their names in a plain network, runs in front."""
        return {
            f"{name}.{key}": value
            for name, leaf in self.leaves.items()
            for key, value in (*leaf.named_parameters(), *leaf.named_buffers())
        }

    def keep(self, positions: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Let only some of the runs go on, with their part of the optimizer's memory."""
        for leaf in self.leaves.values():
            for parameter in leaf.parameters():
                parameter.grad = None
                parameter.data = parameter.data[positions]
                memory = optimizer.state[parameter]
                for key, value in memory.items():
                    if value.shape:  # Adam's step count has none: all runs are equally old.
                        memory[key] = value[positions]
            for name, buffer in list(leaf.named_buffers()):
                setattr(leaf, name, buffer[positions])

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take over parameters and buffers, of another number of runs if need be."""
        for name, leaf in self.leaves.items():
            for key, value in (*leaf.named_parameters(), *leaf.named_buffers()):
                value.data = tensors[f"{name}.{key}"].to(value.device, copy=True)

    def __call__(self, graphs: GraphBatch, runs: int) -> Output:
        """Score the classes of all graphs, those of run 0 first."""
        self.levels.lay_out(self.model, graphs.node_counts, runs, graphs.x.device)
        out: Output = self.model(graphs)
        return out


class Single:
    """One network that cannot be stacked, used like a :class:`Stack`."""

    def __init__(self, model: Backbone) -> None:
        self.model = model

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers, with one run in front; they share memory with the network."""
        return {name: value.unsqueeze(0) for name, value in tensors_of(self.model).items()}

    def keep(self, positions: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """The only run goes on."""

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take over parameters and buffers."""
        for name, value in self.tensors().items():
            value.copy_(tensors[name])

    def __call__(self, graphs: GraphBatch, runs: int) -> Output:
        """Score the classes of all graphs."""
        out: Output = self.model(graphs)
        return out


def as_one(models: Sequence[Backbone]) -> Stack | Single:
    """Networks of one architecture as one.

    A single one is a stack too: layers of a network by itself may join steps that layers of a stack
    take one by one, and a run must not depend on its company.

    Raises:
        CannotStackError: for several networks that cannot be stacked.
    """
    try:
        return Stack(models)
    except CannotStackError:
        if len(models) > 1:
            raise
        return Single(models[0])


def _bias_of(conv: nn.Module) -> Bias:
    """The bias of a convolution as a layer."""
    values: Any = conv.bias
    bias = Bias(values.numel(), 1)
    bias.bias.data = values.detach().clone()
    return bias
