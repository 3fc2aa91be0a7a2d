"""Many networks as one.

:class:`Stack` takes networks of one architecture and replaces the few kinds of layers that have
parameters. All other operations (aggregation, top-k, connect, readout) work on a disjoint union of
graphs and need no change.
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
from lcpool.train.model import tensors_of
from lcpool.train.seeding import seeded
from lcpool.train.stack.layers import (
    KINDS,
    BiasAfter,
    Stacked,
    StackedBatchNorm,
    StackedBias,
    StackedReadouts,
)
from lcpool.train.stack.rows import CannotStackError, Levels, level_of


class Stack:
    """Several networks as one, for batches with the graphs of run 0 first.

    Args:
        models: the networks, one per run; they may differ in the backbone only.

    Raises:
        CannotStackError: if a pooling is not lcpool's, or a layer has parameters or buffers that
            cannot be stacked.
    """

    def __init__(self, models: Sequence[Backbone]) -> None:
        if (reason := why_not_stacked(models[0])) is not None:
            raise CannotStackError(reason)
        self.model = copy.deepcopy(models[0])
        self.levels = Levels()
        self.leaves: dict[str, Stacked | StackedReadouts] = {}
        modules = [dict(model.named_modules()) for model in models]
        for name in reversed(modules[0]):  # Inner layers first: a GCN's own bias comes last.
            parts = [of_run[name] for of_run in modules]
            if next(parts[0].parameters(recurse=False), None) is not None:
                self._replace(name, parts)
        hierarchical = [model.architecture.backbone == "hierarchical" for model in models]
        if len(set(hierarchical)) > 1:
            self.model.summary = self.leaves["summary"] = StackedReadouts(hierarchical)
        for module in self.model.modules():
            if isinstance(module, nn.Sequential):
                join_relu(module)
        for level, pool in enumerate(self.model.pools, start=1):
            pool.register_forward_hook(partial(self._lay_out, level))

    @classmethod
    def tried(cls, models: Sequence[Backbone], graphs: GraphSet) -> Stack:
        """A stack on the device of the graphs; the user's own pooling is compared with runs alone.

        Raises:
            CannotStackError: if runs cannot be stacked, or a stack computes something else.
        """
        with seeded(0, graphs.x.device):  # Stacked layers draw before they get their parameters.
            stack = cls(models)
            if ":" in models[0].architecture.pool:
                compare_with_runs(models[:2], graphs)
        stack.model.to(graphs.x.device)
        return stack

    def _lay_out(self, level: int, pool: nn.Module, _: Any, out: Pooled) -> None:
        """After a pooling, set the rows of each run behind it."""
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
        """Parameters and buffers by their names in a plain network, with runs in front."""
        return {
            f"{name}.{key}": value
            for name, leaf in self.leaves.items()
            for key, value in (*leaf.named_parameters(), *leaf.named_buffers())
        }

    def keep(self, positions: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Keep only some of the runs, with their part of the optimizer's state."""
        for leaf in self.leaves.values():
            for parameter in leaf.parameters():
                parameter.grad = None
                parameter.data = parameter.data[positions]
                memory = optimizer.state[parameter]
                for key, value in memory.items():
                    if value.shape:  # Adam's step count has none: it is the same for all runs.
                        memory[key] = value[positions]
            for name, buffer in list(leaf.named_buffers()):
                setattr(leaf, name, buffer[positions])

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Load the result of :meth:`tensors`, also of another number of runs."""
        for name, value in self.tensors().items():
            value.data = tensors[name].to(value.device, copy=True)

    def __call__(self, graphs: GraphBatch, runs: int) -> Output:
        self.levels.begin(graphs.node_counts, runs, graphs.x.device)
        out: Output = self.model(graphs)
        return out


class Single:
    """One network that cannot be stacked, with the methods of :class:`Stack`."""

    def __init__(self, model: Backbone) -> None:
        self.model = model

    def tensors(self) -> dict[str, Tensor]:
        return {name: value.unsqueeze(0) for name, value in tensors_of(self.model).items()}

    def keep(self, positions: Tensor, optimizer: torch.optim.Optimizer) -> None: ...

    def restore(self, tensors: dict[str, Tensor]) -> None:
        for name, value in self.tensors().items():
            value.copy_(tensors[name])

    def __call__(self, graphs: GraphBatch, runs: int) -> Output:
        out: Output = self.model(graphs)
        return out


def as_one(models: Sequence[Backbone], graphs: GraphSet) -> Stack | Single:
    """Networks that may differ in the backbone as one, on the device of the graphs.

    A single network is a stack too, if it can be: its plain layers may fuse steps that stacked
    layers do one by one, and a run's result must not depend on the other runs.

    Raises:
        CannotStackError: for several networks that cannot be stacked.
    """
    try:
        return Stack.tried(models, graphs)
    except CannotStackError:
        if len(models) > 1:
            raise
        return Single(models[0].to(graphs.x.device))


def why_not_stacked(network: Backbone) -> str | None:
    """Why runs of this network cannot be trained as one, or None if they can."""
    for pool in network.pools:
        if not pool.stackable:
            return f"{pool.class_name} may not pool each graph as if it were alone."
    once = {name for name, _ in (*network.named_parameters(), *network.named_buffers())}
    for name, _ in (
        *network.named_parameters(remove_duplicate=False),
        *network.named_buffers(remove_duplicate=False),
    ):
        if name not in once:
            return f"'{name}' is used in several places, which a stack would separate."
    for name, layer in network.named_modules():
        replaced = next(layer.parameters(recurse=False), None) is not None
        hooks = layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks
        if replaced and hooks:
            return f"'{name}' has hooks, which a stack of runs would not call."
        if not has_known_buffers(layer):
            kind = type(layer).__name__
            return f"'{name}' is a {kind} whose buffers or options cannot be stacked."
    return None


def has_known_buffers(layer: nn.Module) -> bool:
    """Whether a layer's buffers are those of batch norm, and a norm's options are the default."""
    if isinstance(layer, nn.BatchNorm1d):
        return layer.affine and layer.track_running_stats and layer.momentum is not None
    if isinstance(layer, nn.LayerNorm) and layer.elementwise_affine and layer.bias is None:
        return False
    return next(layer.buffers(recurse=False), None) is None


def compare_with_runs(models: Sequence[Backbone], graphs: GraphSet) -> None:
    """Send two graphs of each run through a stack of these networks, and through each alone.

    Only this shows whether the user's own pooling does what a stack cannot: read its parameters
    directly, or other graphs of the batch.

    Raises:
        CannotStackError: if the stack fails or gives other scores or losses.
    """
    device, runs, pool = graphs.x.device, len(models), models[0].architecture.pool
    # Other graphs for each run, of medium size: equal runs would hide a difference.
    middle = graphs.node_counts.argsort()[max(0, len(graphs) // 2 - runs) :][: 2 * runs]
    parts = [graphs.batch(part) for part in middle.chunk(runs)]
    for training in (False, True):
        copies = [copy.deepcopy(model).to(device).train(training) for model in models]
        alone, again = (
            [_scores(*pair, seed) for pair in zip(copies, parts, strict=True)] for seed in (0, 1)
        )
        if not all(map(_close, alone, again)):
            return  # It draws random numbers: a stack draws others.
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
                f"{pool} works alone, but not in a stack: {type(error).__name__}: {error}"
            ) from error
        if not all(map(_close, both.chunk(runs), alone)):
            raise CannotStackError(f"{pool} gives something else in a stack of runs than alone.")


def _scores(network: Callable[..., Output], batch: GraphBatch, seed: int) -> Tensor:
    """The scores of the classes and the auxiliary loss of each graph."""
    with seeded(seed, batch.x.device):
        out = network(batch)
    loss = out.logits.new_zeros(batch.batch_size) if out.graph_loss is None else out.graph_loss
    return torch.cat([out.logits, loss.unsqueeze(-1)], dim=1)


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)


def join_relu(layers: nn.Sequential) -> None:
    """Move a ReLU into the batch norm before it: on a GPU they are one kernel."""
    for i, (norm, act) in enumerate(pairwise(layers), start=1):
        if isinstance(norm, StackedBatchNorm) and type(act) is nn.ReLU:
            norm.relu, layers[i] = True, nn.Identity()


def _bias_of(conv: nn.Module) -> Bias:
    """The bias of a convolution as a layer."""
    values: Any = conv.bias
    bias = Bias(values.numel(), 1)
    bias.bias.data = values.detach().clone()
    return bias
