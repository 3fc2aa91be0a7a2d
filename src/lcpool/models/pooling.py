"""Poolings by name: the paper's, their rivals, and the user's own by import path."""

from __future__ import annotations

import difflib
import importlib
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lcpool import pool
from lcpool.nn.conv import FastGCNConv
from lcpool.pool.foreign import as_pooling, make_layer
from lcpool.pool.tgp import PREFIX, TGPPooling, tgp_class
from lcpool.settings import NetworkSettings


def _lcpool(channels: int, o: NetworkSettings, cluster: nn.Module | None = None) -> pool.Pooling:
    return pool.LCPooling(
        channels, o.ratio, hidden_channels=o.score_channels, self_loops=o.self_loops,
        rescale=o.rescale, hops=o.hops, cluster=cluster,
    )  # fmt: skip


# Name (see ``settings.POOLS`` and ``settings.RIVALS``) → (channels, clusters, settings) → layer.
POOLINGS: dict[str, Callable[[int, int, NetworkSettings], pool.Pooling]] = {
    "nopool": lambda *_: pool.NoPooling(),
    "topkpool": lambda channels, _, o: pool.TopKPooling(channels, o.ratio),
    "sagpool": lambda channels, _, o: pool.SAGPooling(channels, o.ratio),
    "asapool": lambda channels, _, o: pool.ASAPooling(channels, o.ratio),
    "diffpool": lambda channels, clusters, _: pool.DiffPooling(channels, clusters),
    "mincutpool": lambda channels, clusters, _: pool.MinCutPooling(channels, clusters),
    "lcpool": lambda channels, _, o: _lcpool(channels, o),
    "lcpool*": lambda channels, _, o: _lcpool(channels, o, FastGCNConv(channels, channels)),
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


def import_class(path: str) -> Any:
    """The object at ``module:name``; for ``tgp:NAME`` the class of tgp."""
    if path.startswith(PREFIX):
        return tgp_class(path.removeprefix(PREFIX))
    module, _, attribute = path.rpartition(":")
    if module.endswith(".py") or "/" in module:
        file = Path(module)
        if file.is_absolute() or ".." in file.parts:
            advice = f"'{file.stem}:{attribute}', with {file.parent} in PYTHONPATH"
        else:
            advice = f"'{'.'.join(file.with_suffix('').parts)}:{attribute}'"
        raise ValueError(f"'{path}' names a file: write {advice}.")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:
        if place := place_in(module, error):
            why = f"{place}: {type(error).__name__}: {error}"
        elif isinstance(error, ImportError | AttributeError):
            why = f"{error}. Install the module, or put its folder into PYTHONPATH."
        else:  # a SyntaxError names its line itself
            why = f"{type(error).__name__}: {error}"
        raise ValueError(f"cannot import '{path}': {why}") from error


class OwnPoolingError(ValueError):
    """An error in the user's own pooling; the message says in which file and line."""


@contextmanager
def own_errors(name: str) -> Iterator[None]:
    """Turn errors from the module of the pooling ``name`` into an :class:`OwnPoolingError`.

    Other errors pass unchanged, and so does a lack of memory, which no line is to blame for.
    """
    module = getattr(import_class(name), "__module__", "") if ":" in name else ""
    try:
        yield
    except Exception as error:
        place = place_in(module, error)
        if place is None or isinstance(error, torch.OutOfMemoryError):
            raise
        raise OwnPoolingError(f"{place}: {type(error).__name__}: {error}") from error


def place_in(module: str, error: Exception) -> str | None:
    """File and line of the innermost frame of ``module`` in a traceback, or None."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == module
    ]
    if not frames:
        return None
    file, line = Path(frames[-1][0]), frames[-1][1]
    near = file.is_relative_to(Path.cwd())
    return f"{file.relative_to(Path.cwd()) if near else file}:{line}"
