"""Parameters and buffers of a network by name."""

from __future__ import annotations

from torch import Tensor, nn


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, sharing memory with the network.

    Unlike ``state_dict``, it includes buffers that are not persistent, as they may change in
    training too, and tied parameters only once.
    """
    named = (*network.named_parameters(), *network.named_buffers())
    return {name: value.detach() for name, value in named}


def load_tensors(network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy the result of :func:`tensors_of` into a network; an error if it does not fit."""
    own = tensors_of(network)
    shapes = [{name: value.shape for name, value in of.items()} for of in (own, tensors)]
    if shapes[0] != shapes[1]:
        differ = sorted(name for name, _ in shapes[0].items() ^ shapes[1].items())
        raise ValueError(f"the networks differ in '{differ[0]}'.")
    for name, value in own.items():
        value.copy_(tensors[name])
