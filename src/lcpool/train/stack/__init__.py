"""Many runs as one: networks of one architecture with their parameters stacked by run.

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
from lcpool.graph.bounded import Bounded
from lcpool.graph.graph import Graph
from lcpool.models import Backbone, Output
from lcpool.models.readout import OURS, readout_names
from lcpool.nn.gine import EdgeLinear
from lcpool.nn.lcsmp import LCSMP
from lcpool.pool import Pooled
from lcpool.train.protocol import seeded
from lcpool.train.stack.layers import (
    KINDS,
    Stacked,
    StackedBatchNorm,
    StackedBias,
    StackedReadouts,
    join_scores,
)
from lcpool.train.stack.rows import (
    GRAPHS,
    BoundedRows,
    CannotStackError,
    RunRows,
    edges_of,
    level_of,
)
from lcpool.train.tensors import tensors_of

__all__ = ["CannotStackError", "Single", "Stack", "as_one", "compare_with_runs"]

_close = partial(torch.allclose, rtol=1e-3, atol=1e-4, equal_nan=True)


class Stack:
    """Networks that differ at most in the backbone as one, for batches with run 0's graphs first.

    Raises:
        CannotStackError: if a pooling is not lcpool's, or a layer has parameters or buffers that
            cannot be stacked.
    """

    def __init__(self, models: Sequence[Backbone]) -> None:
        if (reason := why_not_stacked(models[0])) is not None:
            raise CannotStackError(reason)
        self.model, self.runs = copy.deepcopy(models[0]), len(models)
        self.levels: dict[int, RunRows] = {}  # of the current batch
        self.edge_levels: set[int] = set()  # where layers work on edges
        self.leaves: dict[str, Stacked | StackedReadouts] = {}
        modules = [dict(model.named_modules()) for model in models]
        for name in reversed(modules[0]):  # Inner layers first: a GCN's own bias comes last.
            parts = [of_run[name] for of_run in modules]
            if has_parameters(parts[0]):
                self._replace(name, parts)
        hierarchical = [model.hierarchical for model in models]
        if len(set(hierarchical)) > 1:
            self.model.summary = self.leaves["summary"] = StackedReadouts(hierarchical)
        for module in self.model.modules():
            if isinstance(module, nn.Sequential):
                join_relu(module)
            if type(module) is LCSMP:
                join_scores(module)
        for level, pool in enumerate(self.model.pools, start=1):
            pool.register_forward_hook(partial(self._after_pooling, level))

    def _replace(self, name: str, parts: Sequence[nn.Module]) -> None:
        """Put a stacked layer in the place of ``name``."""
        old, kind = self.model.get_submodule(name), type(parts[0])
        level = level_of(name, self.model.architecture.depth)
        if kind is EdgeLinear:
            self.edge_levels.add(level)
            level = edges_of(level)
        if kind in KINDS:
            parent, _, child = name.rpartition(".")
            leaf = KINDS[kind](parts, self.levels, level)
            setattr(self.model.get_submodule(parent), child, leaf)
        elif isinstance(old, GCNConv) and [*old._parameters] == ["bias"]:
            leaf = old.stacked_bias = StackedBias(parts, self.levels, level)
            old.register_parameter("bias", None)
            old.register_forward_hook(lambda conv, _, out: conv.stacked_bias(out))
        else:
            raise CannotStackError(
                f"'{name}' is a {kind.__name__}, whose parameters cannot be stacked."
            )
        self.leaves[name] = leaf

    def __call__(self, graphs: GraphBatch, runs: int) -> Output:
        if runs != self.runs:  # Kernels would read the parameters of other runs.
            raise ValueError(f"a stack of {self.runs} runs got graphs of {runs}.")
        self.levels.clear()
        self.levels[GRAPHS] = RunRows([graphs.batch_size // runs] * runs, graphs.x.device)
        self._lay_out_nodes(0, graphs.graph)
        if 0 in self.edge_levels:
            counts = graphs.edge_counts
            self._lay_out(edges_of(0), edge_counts(graphs.graph) if counts is None else counts)
        out: Output = self.model(graphs)
        return out

    def _lay_out_nodes(self, level: int, graph: Graph) -> None:
        """Set the rows of each run at a level of nodes."""
        if isinstance(graph.sizes, Bounded):
            self.levels[level] = BoundedRows.of(graph.sizes)
        else:
            self._lay_out(level, graph.host_counts())

    def _lay_out(self, level: int, of_graph: Tensor) -> None:
        """Set the rows of each run at a level, from the rows of each graph, on the host."""
        graphs = self.levels[GRAPHS]
        counts = of_graph.view(len(graphs.counts), -1).sum(1).tolist()
        self.levels[level] = RunRows(counts, graphs.device)

    def _after_pooling(self, level: int, pool: nn.Module, _: Any, out: Pooled) -> None:
        if out.graph_loss is None and isinstance(out.loss, Tensor):
            raise CannotStackError(
                f"{type(pool).__name__} gives one loss for the whole batch; 'losses' gives one "
                f"per graph."
            )
        self._lay_out_nodes(level, out.graph)
        if level in self.edge_levels:
            self._lay_out(edges_of(level), edge_counts(out.graph))

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers by their names in a plain network, with runs in front."""
        return {
            f"{name}.{key}": value
            for name, leaf in self.leaves.items()
            for key, value in (*leaf.named_parameters(), *leaf.named_buffers())
        }

    def keep(self, positions: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Keep only some of the runs, with their part of the optimizer's state."""
        self.runs = positions.numel()
        kept: dict[nn.Parameter, nn.Parameter] = {}
        for leaf in self.leaves.values():
            for name, old in list(leaf.named_parameters()):
                # A new parameter: while anything still holds an earlier step's autograd graph (seen
                # where kernels were compiled in that step), the old one keeps its shape in it.
                kept[old] = nn.Parameter(old.data[positions])
                setattr(leaf, name, kept[old])
                # Adam's step count has no shape: it is the same for all runs.
                optimizer.state[kept[old]] = {
                    key: value[positions] if value.shape else value
                    for key, value in optimizer.state.pop(old, {}).items()
                }
            for name, buffer in list(leaf.named_buffers()):
                setattr(leaf, name, buffer[positions])
        for group in optimizer.param_groups:
            group["params"] = [kept.get(old, old) for old in group["params"]]

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Load the result of :meth:`tensors`, also of another number of runs."""
        for name, value in self.tensors().items():
            value.data = tensors[name].to(value.device, copy=True)
            self.runs = len(value)


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


def edge_counts(graph: Graph) -> Tensor:
    """The number of edges of each graph, on the host, for which a GPU synchronises."""
    return graph.batch_vector()[graph.edge_index[0]].bincount(minlength=graph.batch_size).cpu()


def as_one(models: Sequence[Backbone], graphs: GraphSet) -> Stack | Single:
    """Networks that may differ in the backbone as one, on the device of the graphs.

    A single network is a stack too, if it can be: its plain layers may fuse steps that stacked
    layers do one by one, and a run's result must not depend on the other runs. Parts that are not
    lcpool's are compared with runs alone.

    Raises:
        CannotStackError: for several networks that cannot be stacked, or whose stack computes
            something else.
    """
    one: Stack | Single
    try:
        one = Stack(models)
        if foreign_parts(models[0]):
            compare_with_runs(models[:2], graphs)
    except CannotStackError:
        if len(models) > 1:
            raise
        one = Single(models[0])
    one.model.to(graphs.x.device)
    return one


def foreign_parts(network: Backbone) -> str:
    """The pooling, convolution and readout that are the user's own or PyG's, for messages."""
    theirs = [name for name in readout_names(network.architecture.readout) if name not in OURS]
    return " with ".join([*network.architecture.own_classes, *theirs])


def why_not_stacked(network: Backbone) -> str | None:
    """Why runs of this network cannot be trained as one, or None if they can."""
    for pool in network.pools:
        if not pool.stackable:
            return f"{pool.class_name} may not pool each graph as if it were alone."
    once = tensors_of(network)
    for named in (network.named_parameters, network.named_buffers):
        for name, _ in named(remove_duplicate=False):
            if name not in once:
                return f"'{name}' is used in several places, which a stack would separate."
    for name, layer in network.named_modules():
        hooks = layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks
        if has_parameters(layer) and hooks:
            return f"'{name}' has hooks, which a stack of runs would not call."
        if not has_known_buffers(layer):
            kind = type(layer).__name__
            return f"'{name}' is a {kind} whose buffers or options cannot be stacked."
    return None


def has_parameters(layer: nn.Module) -> bool:
    """Whether a layer has parameters itself, not only in other layers within it."""
    return next(layer.parameters(recurse=False), None) is not None


def has_known_buffers(layer: nn.Module) -> bool:
    """Whether a layer's buffers are those of batch norm, and a norm's options are the default."""
    if isinstance(layer, nn.BatchNorm1d):
        return layer.affine and layer.track_running_stats and layer.momentum is not None
    if isinstance(layer, nn.LayerNorm) and layer.elementwise_affine and layer.bias is None:
        return False
    return next(layer.buffers(recurse=False), None) is None


def compare_with_runs(models: Sequence[Backbone], graphs: GraphSet) -> None:
    """Send two graphs of each run through a stack of these networks, and through each alone.

    Only this shows whether the user's own pooling or convolution does what a stack cannot: read
    its parameters directly, or other graphs of the batch. Dropout is left out.

    Raises:
        CannotStackError: if the stack fails or gives other scores or losses.
    """
    device, runs, parts_of = graphs.x.device, len(models), foreign_parts(models[0])
    models = [without_dropout(model) for model in models]
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
                f"{parts_of} works alone, but not in a stack: {type(error).__name__}: {error}"
            ) from error
        if not all(map(_close, both.chunk(runs), alone)):
            what = f"{parts_of} gives something else in a stack of runs than alone."
            raise CannotStackError(what)


def without_dropout(model: Backbone) -> Backbone:
    """A copy of a network that drops nothing: alone and in a stack it would not be the same."""
    model = copy.deepcopy(model)
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return model


def _scores(network: Callable[..., Output], batch: GraphBatch, seed: int) -> Tensor:
    """The scores of the classes and the auxiliary loss of each graph."""
    with seeded(seed, batch.x.device):
        out = network(batch)
    loss = out.logits.new_zeros(batch.batch_size) if out.graph_loss is None else out.graph_loss
    return torch.cat([out.logits, loss.unsqueeze(-1)], dim=1)


def join_relu(layers: nn.Sequential) -> None:
    """Move a ReLU into the batch norm before it: on a GPU they are one kernel."""
    for i, (norm, act) in enumerate(pairwise(layers), start=1):
        if isinstance(norm, StackedBatchNorm) and type(act) is nn.ReLU:
            norm.relu, layers[i] = True, nn.Identity()
