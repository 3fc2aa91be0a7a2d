"""Graph convolutions by name: the paper's two, GIN, GINE, and the user's own by import path."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor, nn

from lcpool.data.checks import warn_once
from lcpool.models.own import import_class
from lcpool.nn.conv import FastGCNConv, FastGINConv, FastGraphConv, faster
from lcpool.nn.gine import GINEConv
from lcpool.ops.operator import is_traced

Norm = Callable[[int], nn.Module]
CALLED = (
    "a convolution is made as Class(hidden, hidden), called as conv(x, edge_index), and must "
    "return one row of that width per node"
)

# Name → (hidden, class of the network's norm, width of the edge attributes or None) → layer.
CONVS: dict[str, Callable[[int, Norm, int | None], nn.Module]] = {
    "gcn": lambda hidden, norm, _: FastGCNConv(hidden, hidden),
    "graphconv": lambda hidden, norm, _: FastGraphConv(hidden, hidden),
    "gin": lambda hidden, norm, _: FastGINConv(hidden, hidden, norm),
    "gine": lambda hidden, norm, edge_dim: GINEConv(hidden, hidden, norm, edge_dim),
}


def make_conv(name: str, hidden: int, norm: Norm, edge_dim: int | None = None) -> nn.Module:
    """The convolution ``name`` of features of width ``hidden``.

    ``module:Class`` is called as ``Class(hidden, hidden)``, with ``edge_dim=`` if there are edge
    attributes and it has this argument.
    """
    if name in CONVS:
        return CONVS[name](hidden, norm, edge_dim)
    cls = own_conv(name)
    known, more = inspect.signature(cls), {}
    if edge_dim is not None and "edge_dim" in known.parameters:
        more = {"edge_dim": edge_dim}
    try:
        known.bind(hidden, hidden, **more)
    except TypeError as error:
        made = f"{cls.__name__}({hidden}, {hidden})"
        raise TypeError(f"'{name}' cannot be made as {made}: {error}.") from error
    return OwnConv(faster(cls)(hidden, hidden, **more), hidden)


def own_conv(name: str) -> Any:
    """The class ``module:Class`` of a convolution."""
    cls = import_class(name)
    if not (inspect.isclass(cls) and issubclass(cls, nn.Module)):
        raise TypeError(f"'{name}' must be a subclass of torch.nn.Module, not {cls!r}.")
    return cls


def takes_edge_attr(name: str) -> Literal["needed", "optional"] | None:
    """Whether a convolution must or can be called with edge attributes, as ``edge_attr=``."""
    if name in CONVS:
        return "needed" if name == "gine" else None
    argument = inspect.signature(own_conv(name).forward).parameters.get("edge_attr")
    if argument is None:
        return None
    return "needed" if argument.default is argument.empty else "optional"


class OwnConv(nn.Module):
    """A convolution from elsewhere, called as ``layer(x, edge_index)``.

    If its ``forward`` has an argument ``edge_weight``, it gets the weights that a pooling returned;
    another one is called without, and a warning says so once. If it has an argument ``edge_attr``,
    it gets the edge attributes of the data, where there are any.
    """

    def __init__(self, layer: nn.Module, hidden: int) -> None:
        super().__init__()
        self.layer, self.hidden = layer, hidden
        self.takes_weight = "edge_weight" in inspect.signature(layer.forward).parameters

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        given = {"edge_weight": edge_weight if self.takes_weight else None, "edge_attr": edge_attr}
        if edge_weight is not None and not self.takes_weight and not is_traced():
            warn_once(
                f"{self.class_name} takes no 'edge_weight': the edge weights that the pooling "
                f"returns are not used."
            )
        more = {name: value for name, value in given.items() if value is not None}
        return self._usable(self.layer(x, edge_index, **more), x)

    def _usable(self, out: Any, x: Tensor) -> Tensor:
        shape = (x.size(0), self.hidden)
        if not isinstance(out, Tensor) or out.shape != shape or out.dtype != x.dtype:
            found = type(out).__name__
            if isinstance(out, Tensor):
                found = f"{out.dtype} of shape {list(out.shape)}"
            raise ConvolutionError(
                f"{self.class_name}: {CALLED}, here {x.dtype} of shape {list(shape)}; not {found}."
            )
        return out

    @property
    def class_name(self) -> str:
        """The name in messages."""
        return type(self.layer).__name__


class ConvolutionError(ValueError):
    """A convolution returned something that cannot be used; the message names its class."""
