"""Readouts: one row per graph from the rows of its nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from lcpool.graph.bounded import Bounded
from lcpool.graph.capture import NotCapturableError
from lcpool.graph.graph import Graph
from lcpool.graph.sizes import send
from lcpool.ops.operator import is_traced
from lcpool.ops.readout import readout

# Computed here, for many runs as for one; all others are PyG's.
OURS = ("mean", "max", "sum")
# Arguments that PyG's aggregations need: name → value for features of a width.
NEEDED: dict[str, Callable[[int], Any]] = {
    **dict.fromkeys(("in_channels", "out_channels", "channels"), lambda width: width),
    "processing_steps": lambda width: 3,
    "gate_nn": lambda width: nn.Linear(width, 1),
}


class Readout(nn.Module):
    """One row per graph: aggregations over its nodes, side by side; zeros for no nodes.

    Args:
        names: aggregations joined by +, such as ``"mean+max"``: "mean", "max", "sum", and those of
            ``torch_geometric.nn.aggr``.
        channels: width of the nodes' features.

    Attributes:
        width: width of a row.

    Example:
        >>> graph = Graph.of(torch.tensor([[1.0], [3.0]]), torch.tensor([[0], [1]]))
        >>> Readout("sum+min", 1)(graph.x, graph).tolist()
        [[4.0, 1.0]]
    """

    def __init__(self, names: str, channels: int) -> None:
        super().__init__()
        self.names = readout_names(names)
        theirs = [name for name in self.names if name not in OURS]
        self.parts = nn.ModuleDict({name: aggregation(name, channels) for name in theirs})
        widths = dict.fromkeys(self.names, channels)
        with torch.no_grad():
            one = torch.ones(1, channels), torch.zeros(1, dtype=torch.long)
            for name, part in self.parts.items():
                widths[name] = part(*one, dim_size=1).size(-1)
        self.widths, self.width = widths, sum(widths.values())

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        if self.names == ("mean", "max"):
            return readout(x, graph)
        found = {} if len(self.parts) == len(self.names) else plain_readouts(x, graph)
        if self.parts:
            found |= self._of_parts(x, graph)
        return torch.cat([found[name] for name in self.names], dim=-1)

    def _of_parts(self, x: Tensor, graph: Graph) -> dict[str, Tensor]:
        """What PyG's aggregations give, by name."""
        if isinstance(graph.sizes, Bounded):
            raise NotCapturableError("PyG's aggregations would count padding rows")
        batch, size = graph.batch_vector(), graph.batch_size
        if graph.sizes is None:  # They need nodes sorted by graph.
            x, batch = (rows.index_select(0, graph.members.node) for rows in (x, batch))
        filled = None if is_traced() else graph.host_counts() > 0
        if filled is None or filled.all():
            return {name: part(x, batch, dim_size=size) for name, part in self.parts.items()}
        # Some of them fail where a graph has no nodes.
        out = {name: x.new_zeros(size, self.widths[name]) for name in self.parts}
        if not x.size(0):
            return out
        number, place = (send(v, x.device) for v in (filled.cumsum(0) - 1, filled.nonzero()[:, 0]))
        for name, part in self.parts.items():
            rows = part(x, number[batch], dim_size=place.numel())
            out[name] = out[name].index_copy(0, place, rows)
        return out

    def extra_repr(self) -> str:
        return "+".join(self.names)


def plain_readouts(x: Tensor, graph: Graph) -> dict[str, Tensor]:
    """Mean, maximum, and their sum n · mean over the n nodes of each graph."""
    mean, largest = readout(x, graph).chunk(2, dim=-1)
    counts = graph.node_counts().to(mean.dtype).unsqueeze(-1)
    return {"mean": mean, "max": largest, "sum": counts * mean}


def readout_names(text: str) -> tuple[str, ...]:
    """The aggregations of a readout, each by its short name.

    >>> readout_names("Mean+StdAggregation")
    ('mean', 'std')
    """
    names = tuple(map(short_name, text.split("+")))
    known = (*OURS, *aggregations())
    for name, written in zip(names, text.split("+"), strict=True):
        if name not in known:
            raise ValueError(
                f"'readout' cannot be {written!r}: choose one or several of {', '.join(known)}, "
                f"joined by + as in mean+max."
            )
    if len(set(names)) < len(names):
        raise ValueError(f"'readout' names an aggregation twice: {text}.")
    return names


def short_name(name: str) -> str:
    """The name of an aggregation in lower case, without what all of them have in it.

    >>> short_name("SetTransformerAggregation"), short_name("power-mean"), short_name("add")
    ('settransformer', 'powermean', 'sum')
    """
    plain = name.strip().lower().replace("-", "").replace("_", "").removesuffix("aggregation")
    return "sum" if plain == "add" else plain


@cache
def aggregations() -> dict[str, Any]:
    """PyG's aggregations that can be made from the width of the features alone, by short name."""
    from torch_geometric.nn import aggr

    found = {}
    for cls in (getattr(aggr, name) for name in aggr.__all__):
        name = short_name(cls.__name__)
        if name and name not in OURS and needed(cls) <= set(NEEDED):
            found[name] = cls
    return found


def needed(cls: type) -> set[str]:
    """The arguments without which a class cannot be made."""
    known = inspect.signature(cls).parameters.values()
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name for p in known if p.default is p.empty and p.kind not in open_ended}


def aggregation(name: str, channels: int) -> nn.Module:
    """The aggregation of PyG ``name`` for features of a width."""
    cls = aggregations()[name]
    made: nn.Module = cls(**{argument: NEEDED[argument](channels) for argument in needed(cls)})
    return made
