"""What a stack could not represent, found before one is made."""

from __future__ import annotations

from torch import nn

from lcpool.models import Backbone


class CannotStackError(TypeError):
    """Runs that cannot go through the network as one; the message says why."""


def why_not_stacked(network: Backbone) -> str | None:
    """Why runs of this network cannot be trained as one, or None where nothing is in the way."""
    for pool in network.pools:
        if not pool.stackable:
            return f"nobody knows whether {pool.class_name} pools each graph as if it were alone."
    if (name := tied(network)) is not None:
        return f"'{name}' is used in several places, which would be told apart."
    for name, layer in network.named_modules():
        if has_hooks(layer):
            return f"'{name}' has hooks, which a stack of runs would not call."
        if not is_usual(layer):
            kind = type(layer).__name__
            return f"'{name}' is a {kind} whose buffers or options cannot be stacked."
    return None


def tied(network: nn.Module) -> str | None:
    """The name of a parameter or buffer that also has another name, or None."""
    once = {name for name, _ in (*network.named_parameters(), *network.named_buffers())}
    for name, _ in (
        *network.named_parameters(remove_duplicate=False),
        *network.named_buffers(remove_duplicate=False),
    ):
        if name not in once:
            return name
    return None


def has_hooks(layer: nn.Module) -> bool:
    """Whether a layer that a stack would replace, one with parameters, has hooks."""
    if next(layer.parameters(recurse=False), None) is None:
        return False
    return bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks)


def is_usual(layer: nn.Module) -> bool:
    """Whether a layer's buffers are those of a batch norm, and a norm's options are the default."""
    if isinstance(layer, nn.BatchNorm1d):
        return layer.affine and layer.track_running_stats and layer.momentum is not None
    if isinstance(layer, nn.LayerNorm) and layer.elementwise_affine and layer.bias is None:
        return False
    return next(layer.buffers(recurse=False), None) is None
