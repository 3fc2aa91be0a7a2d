"""All that a network has learnt, by name."""

from __future__ import annotations

from torch import Tensor, nn


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, sharing memory with the network.

    Unlike a ``state_dict`` it has buffers that are not persistent, which may change in training
    all the same, and has tied parameters once.
    """
    named = (*network.named_parameters(), *network.named_buffers())
    return {name: value.detach() for name, value in named}


def take_over(network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy what :func:`tensors_of` gave of another network into this one.

    Raises:
        ValueError: if they are not the tensors of such a network.
    """
    own = tensors_of(network)
    shapes = [{name: value.shape for name, value in of.items()} for of in (own, tensors)]
    if shapes[0] != shapes[1]:
        differ = sorted(name for name, _ in shapes[0].items() ^ shapes[1].items())
        raise ValueError(f"the networks differ in '{differ[0]}'.")
    for name, value in own.items():
        value.copy_(tensors[name])
