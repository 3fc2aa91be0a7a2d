"""Poolings by name: the paper's, ours, their rivals, and the user's own by import path."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import cache

import torch
from torch import nn

from lcpool import pool
from lcpool.models.own import import_class
from lcpool.nn import LCSMP, ConvScore, ProjectionScore, Score
from lcpool.nn.conv import FastGCNConv, FastGraphConv, FastLEConv
from lcpool.pool.foreign import as_pooling, make_layer
from lcpool.pool.random import Drawn
from lcpool.pool.tgp import PREFIX, TGPPooling
from lcpool.settings import NetworkSettings

# The scores of poolings that take any: name → (channels, settings) → score.
SCORES: dict[str, Callable[[int, NetworkSettings], Score]] = {
    "lcsmp": lambda channels, o: LCSMP(channels, o.score_channels, o.rescale),
    "topk": lambda channels, _: ProjectionScore(channels),
    "sag": lambda channels, _: ConvScore(FastGraphConv(channels, 1), "tanh"),
    "asap": lambda channels, _: ConvScore(FastLEConv(channels, 1), "sigmoid"),
    "random": lambda *_: Drawn(),
}


def _lcpool(channels: int, o: NetworkSettings, cluster: nn.Module | None = None) -> pool.Pooling:
    if o.node_score == "lcsmp":
        return pool.LCPooling(
            channels, o.ratio, hidden_channels=o.score_channels, self_loops=o.self_loops,
            rescale=o.rescale, hops=o.hops, cluster=cluster,
        )  # fmt: skip
    score = SCORES[o.node_score](channels, o)
    return pool.LocalClusterPooling(
        score, cluster, o.ratio, self_loops=o.self_loops, hops=o.hops
    )  # fmt: skip


def _cellpool(channels: int, o: NetworkSettings) -> pool.Pooling:
    return pool.CellPooling(channels, o.ratio, SCORES[o.node_score](channels, o))


# Name (see ``settings.ALL_POOLS``) → (channels, clusters, settings) → layer.
POOLINGS: dict[str, Callable[[int, int, NetworkSettings], pool.Pooling]] = {
    "nopool": lambda *_: pool.NoPooling(),
    "topkpool": lambda channels, _, o: pool.TopKPooling(channels, o.ratio),
    "sagpool": lambda channels, _, o: pool.SAGPooling(channels, o.ratio),
    "asapool": lambda channels, _, o: pool.ASAPooling(channels, o.ratio),
    "diffpool": lambda channels, clusters, _: pool.DiffPooling(channels, clusters),
    "mincutpool": lambda channels, clusters, _: pool.MinCutPooling(channels, clusters),
    "lcpool": lambda channels, _, o: _lcpool(channels, o),
    "lcpool*": lambda channels, _, o: _lcpool(channels, o, FastGCNConv(channels, channels)),
    "cellpool": lambda channels, _, o: _cellpool(channels, o),
    "kmis": lambda channels, *_: pool.KMISPooling(channels),
    "edgepool": lambda channels, *_: pool.EdgePooling(channels),
    "graclus": lambda channels, *_: pool.GraclusPooling(channels),
    "dmon": lambda channels, clusters, _: pool.DMoNPooling(channels, clusters),
    "random": lambda channels, _, o: pool.RandomSelection(channels, o.ratio),
    "randomassign": lambda channels, _, o: pool.RandomAssignment(channels, o.ratio),
}


def pooling_name(name: str) -> str:
    """The canonical name of a pooling; an import path ``module:Class`` stays as it is.

    >>> pooling_name("LCPool-star")
    'lcpool*'
    """
    if not isinstance(name, str):
        raise TypeError(
            f"'pool' must be a name ({', '.join(POOLINGS)}) or 'module:Class', not {name!r}."
        )
    short = name.lower().replace("lcpool-star", "lcpool*")
    if short in POOLINGS:
        return short
    if ":" in name:
        return name
    near = difflib.get_close_matches(name.lower(), POOLINGS, 1)
    meant = f"did you mean {near[0]}? Choose" if near else "choose"
    raise ValueError(
        f"unknown pooling '{name}': {meant} one of {', '.join(POOLINGS)}, "
        f"tgp:NAME, or pass a class of your own as 'module:Class'."
    )


def keeps_edge_attr(name: str) -> bool:
    """Whether the edge attributes of the input come out of a pooling, a row per pooled edge."""
    if name in POOLINGS:
        with torch.device("meta"):  # a layer to ask: it takes no memory and no random numbers
            return POOLINGS[name](1, 1, NetworkSettings()).keeps_edge_attr
    return bool(getattr(import_class(name), "keeps_edge_attr", False))


@cache
def edge_attr_keepers() -> list[str]:
    """The names of the poolings that keep edge attributes."""
    return [name for name in POOLINGS if keeps_edge_attr(name)]


def make_pooling(
    name: str, channels: int, num_clusters: int, options: NetworkSettings
) -> pool.Pooling:
    """The pooling ``name`` for features of width ``channels``.

    ``tgp:NAME`` is a pooling of torch-geometric-pool. ``module:Class`` is called as
    ``Class(channels)``, with ``ratio=`` and ``num_clusters=`` if it has these arguments.
    """
    name = pooling_name(name)
    num_clusters = max(num_clusters, 1)
    if name in POOLINGS:
        return POOLINGS[name](channels, num_clusters, options)
    if name.startswith(PREFIX):
        layer = TGPPooling(name.removeprefix(PREFIX), channels, options.ratio, num_clusters)
        return as_pooling(layer)
    cls = import_class(name)
    if not (inspect.isclass(cls) and issubclass(cls, nn.Module)):
        raise TypeError(f"'{name}' must be a subclass of torch.nn.Module, not {cls!r}.")
    return as_pooling(make_layer(cls, channels, options.ratio, num_clusters))
