"""Reading the parameters of PyG's own pooling layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

State = dict[str, Tensor]


def accept_pyg_state(
    module: nn.Module,
    names: Mapping[str, str],
    halves: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    sign: Callable[[nn.Module, State, str], None] | None = None,
) -> None:
    """Let ``module.load_state_dict`` also take the state of PyG's layer of the same name.

    Args:
        module: the layer here.
        names: beginnings of PyG's parameter names, and what they are called here.
        halves: PyG's linear layers on two vectors side by side, and the two layers they are here.
        sign: called when PyG's spare ``select.weight`` is negative, to make up for it.
    """

    def rename(module: nn.Module, state: State, prefix: str, *_: Any) -> None:
        if prefix + "select.weight" not in state:
            return
        for theirs, parts in halves.items():
            weight = state.pop(prefix + theirs)
            for ours, half in zip(parts, weight.chunk(2, dim=-1), strict=True):
                state[f"{prefix}{ours}.weight"] = half
        for theirs, ours in names.items():
            for key in [k for k in state if k.startswith(prefix + theirs)]:
                state[prefix + ours + key[len(prefix + theirs) :]] = state.pop(key)
        spare = state.pop(prefix + "select.weight", None)
        if spare is not None and sign is not None and bool(spare < 0):
            sign(module, state, prefix)

    module.register_load_state_dict_pre_hook(rename)  # type: ignore[no-untyped-call]


def negate(module: nn.Module, state: State, prefix: str) -> None:
    """Turn the sign of what a convolution gives, by turning the sign of all its parameters.

    That holds for the convolutions PyG documents for SAGPooling: GraphConv, GCNConv and SAGEConv
    are linear in their parameters, and in GATConv the attention sees two signs that cancel.
    """
    conv = module.score.conv.__class__.__name__  # type: ignore[union-attr]
    if conv not in ("GraphConv", "GCNConv", "SAGEConv", "GATConv"):
        raise ValueError(
            f"cannot load this PyG layer: its score has a negative 'select.weight', and it is not "
            f"known how a {conv} absorbs the sign."
        )
    for key in state:
        if key.startswith(prefix + "score.conv."):
            state[key] = -state[key]
