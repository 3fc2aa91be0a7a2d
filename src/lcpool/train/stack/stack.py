"""Many networks as one: layers whose parameters carry a run in front.

:class:`Stack` takes networks of one architecture and replaces the few kinds of layers that hold
parameters. All others (aggregation, top-k, connect, readout) work on a disjoint union of graphs and
need not know of runs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from lcpool.data import GraphBatch, GraphSet
from lcpool.models import Backbone, Output
from lcpool.nn.lcsmp import Bias
from lcpool.pool import Pooled
from lcpool.train.seeding import seeded
from lcpool.train.stack.layers import (
    KINDS,
    BiasAfter,
    Stacked,
    StackedBatchNorm,
    StackedBias,
    StackedSummary,
)
from lcpool.train.stack.rows import Levels, level_of
from lcpool.train.stack.stackable import CannotStackError, why_not_stacked
from lcpool.train.tensors import tensors_of


class Stack:
    """Networks alike in all but the backbone as one, for batches with the graphs of run 0 first.

    Args:
        models: the networks, one a run.

    Raises:
        CannotStackError: where a pooling is not ours, or parameters or buffers lie in a layer of a
            kind that is not known here, or in several.
    """

    def __init__(self, models: Sequence[Backbone]) -> None:
        if (reason := why_not_stacked(models[0])) is not None:
            raise CannotStackError(reason)
        self.model = copy.deepcopy(models[0])
        self.levels = Levels()
        self.leaves: dict[str, Stacked | StackedSummary] = {}
        modules = [dict(model.named_modules()) for model in models]
        for name in reversed(modules[0]):  # inner layers first: a GCN's own bias comes last
            parts = [of_run[name] for of_run in modules]
            if next(parts[0].parameters(recurse=False), None) is not None:
                self._replace(name, parts)
        hierarchical = [model.architecture.backbone == "hierarchical" for model in models]
        if len(set(hierarchical)) > 1:
            self.model.summary = self.leaves["summary"] = StackedSummary(hierarchical)
        for module in self.model.modules():
            if isinstance(module, nn.Sequential):
                join_relu(module)
        for level, pool in enumerate(self.model.pools, start=1):
            pool.register_forward_hook(partial(self._lay_out, level))

    @classmethod
    def tried(cls, models: Sequence[Backbone], graphs: GraphSet) -> Stack:
        """A stack on the device of the graphs; with a pooling of one's own, once it was tried.

        Raises:
            CannotStackError: where runs cannot be stacked, or a stack computes something else.
        """
        with seeded(0, graphs.x.device):  # layers of a stack draw before they are given theirs
            stack = cls(models)
            if ":" in models[0].architecture.pool:
                compare_with_runs(models[:2], graphs)
        stack.model.to(graphs.x.device)
        return stack

    def _lay_out(self, level: int, pool: nn.Module, _: Any, out: Pooled) -> None:
        """Once a pooling was called, it is known where the runs begin behind it."""
        if out.graph_loss is None and isinstance(out.loss, Tensor):
            raise CannotStackError(
                f"{type(pool).__name__} gives one loss for the whole batch; 'losses' gives one "
                f"per graph."
            )
        self.levels.lay_out(level, out.graph.host_counts())

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
        """Parameters and buffers by their names in a plain network, runs in front.

        With different backbones, also which runs are hierarchical.
        """
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
        self.levels.begin(graphs.node_counts, runs, graphs.x.device)
        out: Output = self.model(graphs)
        return out


def compare_with_runs(models: Sequence[Backbone], graphs: GraphSet) -> None:
    """Send two graphs of each run through a stack of these networks, and through each alone.

    What a pooling of one's own does that a stack cannot (look at the parameters themselves, or at
    other graphs of the batch) shows only so.

    Raises:
        CannotStackError: where the stack fails or gives other scores or losses.
    """
    device, runs = graphs.x.device, len(models)
    # Other graphs for each run, of middling size: what is the same in all runs would not show.
    middle = graphs.node_counts.argsort()[max(0, len(graphs) // 2 - runs) :][: 2 * runs]
    parts = [graphs.batch(part) for part in middle.chunk(runs)]
    for training in (False, True):
        copies = [copy.deepcopy(model).to(device).train(training) for model in models]
        alone, again = (
            [_scores(*pair, seed) for pair in zip(copies, parts, strict=True)] for seed in (0, 1)
        )
        if not all(map(_close, alone, again)):
            return  # It draws: a stack draws other numbers.
        try:
            stack = Stack(models)
            stack.model.to(device).train(training)
            both = _scores(partial(stack, runs=runs), graphs.batch(middle), seed=0)
            if both.requires_grad:
                torch.autograd.backward(both.sum())
        except CannotStackError:
            raise
        except Exception as error:
            raise CannotStackError(
                f"{models[0].architecture.pool} works by itself, but not as part of a stack: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not all(map(_close, both.chunk(runs), alone)):
            raise CannotStackError(
                f"{models[0].architecture.pool} gives something else in a stack of runs than alone."
            )


def _scores(network: Callable[..., Output], batch: GraphBatch, seed: int) -> Tensor:
    """The scores of the classes and the auxiliary loss of each graph."""
    with seeded(seed, batch.x.device):
        out = network(batch)
    loss = out.logits.new_zeros(batch.batch_size) if out.graph_loss is None else out.graph_loss
    return torch.cat([out.logits, loss.unsqueeze(-1)], dim=1)


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)


def join_relu(layers: nn.Sequential) -> None:
    """Let a batch norm do what the ReLU behind it does, in the same kernel on a GPU."""
    for i, (norm, act) in enumerate(pairwise(layers), start=1):
        if isinstance(norm, StackedBatchNorm) and type(act) is nn.ReLU:
            norm.relu, layers[i] = True, nn.Identity()


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


def as_one(models: Sequence[Backbone], graphs: GraphSet) -> Stack | Single:
    """Networks alike in all but the backbone as one, on the device of the graphs.

    A single one is a stack too: layers of a network by itself may join steps that layers of a stack
    take one by one, and a run must not depend on its company.

    Raises:
        CannotStackError: for several networks that cannot be stacked.
    """
    try:
        return Stack.tried(models, graphs)
    except CannotStackError:
        if len(models) > 1:
            raise
        return Single(models[0].to(graphs.x.device))


def _bias_of(conv: nn.Module) -> Bias:
    """The bias of a convolution as a layer."""
    values: Any = conv.bias
    bias = Bias(values.numel(), 1)
    bias.bias.data = values.detach().clone()
    return bias
