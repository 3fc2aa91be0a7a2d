"""Reading the parameters of PyG's own pooling layers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

State = dict[str, Tensor]


def accept_pyg_state(
    module: nn.Module,
    names: Mapping[str, str],
    halves: Mapping[str, tuple[str, str]] | None = None,
    absorb: str | None = None,
) -> None:
    """Let ``module.load_state_dict`` also take the state of PyG's layer of the same name.

    ``names`` has the prefixes of PyG's parameter names and those here, ``halves`` PyG's linear
    layers on two concatenated vectors and the two layers here. ``absorb`` is the convolution to
    multiply by PyG's additional factor ``select.weight``, if any.
    """
    hook = partial(_rename, names=names, halves=halves or {}, absorb=absorb)
    module.register_load_state_dict_pre_hook(hook)  # type: ignore[no-untyped-call]


def _rename(
    module: Any,
    state: State,
    prefix: str,
    *_: Any,
    names: Mapping[str, str],
    halves: Mapping[str, tuple[str, str]],
    absorb: str | None,
) -> None:
    """Rename the parameters of PyG in ``state``; leave a state of lcpool as it is."""
    if prefix + "select.weight" not in state:
        return
    for theirs, parts in halves.items():
        if (weight := state.pop(prefix + theirs, None)) is not None:
            for ours, half in zip(parts, weight.chunk(2, dim=-1), strict=True):
                state[f"{prefix}{ours}.weight"] = half
    for theirs, ours in names.items():
        for key in [k for k in state if k.startswith(prefix + theirs)]:
            state[prefix + ours + key[len(prefix + theirs) :]] = state.pop(key)
    spare = state.pop(prefix + "select.weight", None)
    if spare is not None and absorb is not None:
        # A softmax sees the factor itself; otherwise PyG divides by its size.
        factor = spare.item() if module.score.over_graph else spare.sign().item()
        _multiply(module.get_submodule(absorb), state, f"{prefix}{absorb}.", factor)


def _multiply(conv: nn.Module, state: State, prefix: str, factor: float) -> None:
    """Multiply the output of a convolution by multiplying all its parameters.

    This works for convolutions that are linear in their parameters, and for a factor of −1 with
    GATConv, where two signs cancel. It is tried on a small graph, and refused where it fails.
    """
    own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    scaled = {name: factor * value for name, value in own.items()}
    if factor != 1 and not _scales(conv, scaled, factor, own):
        raise ValueError(
            f"cannot load this PyG layer: PyG multiplies its scores by {factor:.3g}, and no "
            f"parameters of {conv.__class__.__name__} do the same."
        )
    state.update({prefix + name: value for name, value in scaled.items()})


def _scales(conv: Any, scaled: State, factor: float, own: State) -> bool:
    """Whether scaled parameters give scaled scores, on a small random graph."""
    generator = torch.Generator().manual_seed(0)
    like = next(iter(own.values()))
    x = torch.randn(5, conv.in_channels, generator=generator).to(like)
    edges = torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 0, 0, 0, 3, 4]], device=like.device)
    copy_of = partial(torch.func.functional_call, conv)
    with torch.no_grad():
        return torch.allclose(copy_of(scaled, (x, edges)), factor * copy_of(own, (x, edges)), 1e-4)
