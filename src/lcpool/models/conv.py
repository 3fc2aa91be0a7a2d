"""Graph convolutions by name: the paper's two, GIN, and the user's own by import path."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from lcpool.models.own import import_class
from lcpool.nn.conv import FastGCNConv, FastGINConv, FastGraphConv, faster
from lcpool.ops.operator import is_traced
from lcpool.warn import warn_caller

Norm = Callable[[int], nn.Module]
CALLED = (
    "a convolution is made as Class(hidden, hidden), called as conv(x, edge_index), and must "
    "return one row of that width per node"
)

# Name → (hidden, class of the network's norm) → layer.
CONVS: dict[str, Callable[[int, Norm], nn.Module]] = {
    "gcn": lambda hidden, norm: FastGCNConv(hidden, hidden),
    "graphconv": lambda hidden, norm: FastGraphConv(hidden, hidden),
    "gin": lambda hidden, norm: FastGINConv(hidden, hidden, norm),
}


def make_conv(name: str, hidden: int, norm: Norm) -> nn.Module:
    """The convolution ``name`` of features of width ``hidden``.

    ``module:Class`` is called as ``Class(hidden, hidden)``.
    """
    if name in CONVS:
        return CONVS[name](hidden, norm)
    cls = import_class(name)
    if not (inspect.isclass(cls) and issubclass(cls, nn.Module)):
        raise TypeError(f"'{name}' must be a subclass of torch.nn.Module, not {cls!r}.")
    try:
        inspect.signature(cls).bind(hidden, hidden)
    except TypeError as error:
        made = f"{cls.__name__}({hidden}, {hidden})"
        raise TypeError(f"'{name}' cannot be made as {made}: {error}.") from error
    return OwnConv(faster(cls)(hidden, hidden), hidden)


class OwnConv(nn.Module):
    """A convolution from elsewhere, called as ``layer(x, edge_index)``.

    After poolings that return edge weights, a layer whose ``forward`` has an argument
    ``edge_weight`` gets them; another one is called without, and a warning says so once.
    """

    def __init__(self, layer: nn.Module, hidden: int) -> None:
        super().__init__()
        self.layer, self.hidden = layer, hidden
        self.takes_weight = "edge_weight" in inspect.signature(layer.forward).parameters
        self.warned = False

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if edge_weight is None:
            return self._usable(self.layer(x, edge_index), x)
        if self.takes_weight:
            return self._usable(self.layer(x, edge_index, edge_weight=edge_weight), x)
        if not self.warned and not is_traced():
            self.warned = True
            warn_caller(
                f"{self.class_name} takes no 'edge_weight': the edge weights that the pooling "
                f"returns are not used."
            )
        return self._usable(self.layer(x, edge_index), x)

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
