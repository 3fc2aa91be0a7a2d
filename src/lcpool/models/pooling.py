"""The poolings of the comparison by their paper names, and the user's own by import path."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from lcpool.nn.conv import FastGCNConv
from lcpool.ops.topk import check_ratio
from lcpool.pool import (
    ASAPooling,
    DiffPooling,
    LCPooling,
    MinCutPooling,
    SAGPooling,
    TopKPooling,
)


@dataclass(frozen=True)
class PoolingOptions:
    """What the paper leaves open about poolings; the defaults are its reading.

    Attributes:
        ratio: share of the nodes that is kept, and of the mean number that become clusters.
        score_channels: width inside LCSMP; the input's by default.
        self_loops: keep the diagonal of LCPool's A'.
        rescale: gate LCPool's features with n·h in place of h.
    """

    ratio: float = 0.5
    score_channels: int | None = None
    self_loops: bool = True
    rescale: bool = False

    def __post_init__(self) -> None:
        check_ratio(self.ratio)


def _lcpool(channels: int, _: int, o: PoolingOptions, **more: Any) -> nn.Module:
    return LCPooling(
        channels,
        o.ratio,
        hidden_channels=o.score_channels,
        self_loops=o.self_loops,
        rescale=o.rescale,
        **more,
    )


def _lcpool_star(channels: int, clusters: int, o: PoolingOptions) -> nn.Module:
    return _lcpool(channels, clusters, o, cluster=FastGCNConv(channels, channels))


# Name in the paper → (channels, clusters, options) → layer; None leaves the pooling out.
POOLINGS: dict[str, Callable[[int, int, PoolingOptions], nn.Module] | None] = {
    "nopool": None,
    "topkpool": lambda channels, _, o: TopKPooling(channels, o.ratio),
    "sagpool": lambda channels, _, o: SAGPooling(channels, o.ratio),
    "asapool": lambda channels, _, o: ASAPooling(channels, o.ratio),
    "diffpool": lambda channels, clusters, _: DiffPooling(channels, clusters),
    "mincutpool": lambda channels, clusters, _: MinCutPooling(channels, clusters),
    "lcpool": _lcpool,
    "lcpool*": _lcpool_star,
}

ALIASES = {"lcpool-star": "lcpool*"}


def pooling_name(name: str) -> str:
    """The paper's name of a pooling, or an import path ``module:Class`` as it is.

    >>> pooling_name("LCPool-star")
    'lcpool*'
    """
    if not isinstance(name, str):
        raise TypeError(
            f"'pool' must be a name ({', '.join(POOLINGS)}) or 'module:Class', not {name!r}."
        )
    short = ALIASES.get(name.lower(), name.lower())
    if short in POOLINGS:
        return short
    if ":" in name:
        return name
    raise ValueError(
        f"unknown pooling '{name}': choose one of {', '.join(POOLINGS)}, "
        f"or pass a class of your own as 'module:Class'."
    )


def make_pooling(
    name: str, channels: int, num_clusters: int, options: PoolingOptions
) -> nn.Module | None:
    """The layer ``name`` for features of width ``channels``, or None for "nopool".

    Args:
        name: a paper name, or ``module:Class``; such a class is called as ``Class(channels)``, with
            ``ratio=`` where it takes one.
        channels: width of the node features.
        num_clusters: k, for dense assignment.
        options: everything else.
    """
    name = pooling_name(name)
    if name in POOLINGS:
        make = POOLINGS[name]
        return None if make is None else make(channels, max(num_clusters, 1), options)
    cls = import_class(name)
    if not (inspect.isclass(cls) and issubclass(cls, nn.Module)):
        raise TypeError(f"'{name}' must be a class of torch.nn.Module, not {cls!r}.")
    takes_ratio = "ratio" in inspect.signature(cls).parameters
    return cls(channels, ratio=options.ratio) if takes_ratio else cls(channels)


def import_class(path: str) -> Callable[..., Any]:
    """The object at ``module:name``."""
    module, _, attribute = path.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"cannot import '{path}': {error}. The module must be importable from here "
            f"(PYTHONPATH, or an installed package)."
        ) from error
    return found
