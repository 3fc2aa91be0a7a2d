"""Keeps datasets that were read from text in a binary file, so that the text is read only once."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lcpool.data.checks import check_columns, warn_once
from lcpool.data.files import read_whole, write_atomically
from lcpool.data.graphset import GraphSet
from lcpool.data.tu import READER_VERSION, read_tu
from lcpool.data.tu_files import Source


def user_cache() -> Path:
    """The folder for what can be made or downloaded again: ``LCPOOL_CACHE``, or the platform's."""
    if named := os.environ.get("LCPOOL_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "lcpool/Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/lcpool"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lcpool"


def read_cached(path: Path) -> GraphSet:
    """Read the dataset in a folder or zip, from the cache if that is up to date."""
    source = Source.at(path)
    key = [READER_VERSION, *(list(state) for state in source.fingerprint())]
    place = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]
    cached = user_cache() / "columns" / f"{source.name}-{place}.pt"
    graphs = _load(cached, key)
    if graphs is None:
        graphs = read_tu(path)
        # Edge labels that cannot be read are to be warned of the next time as well.
        if graphs.edge_attr is not None or not source.has_edge_features:
            _save(cached, key, graphs)
    return graphs


def _load(path: Path, key: list[Any]) -> GraphSet | None:
    """The graphs in a cache file; None if it is missing, out of date or damaged."""
    try:
        content = read_whole(path)
        if content.pop("key") != key:
            return None
        graphs = GraphSet(**{**content, "x": content["x"].float()})
        check_columns(graphs)
        _ = graphs.targets  # an error for a label that is none of the classes
        return graphs
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return None


def _save(path: Path, key: list[Any], graphs: GraphSet) -> None:
    columns = {field.name: getattr(graphs, field.name) for field in fields(graphs)}
    try:
        write_atomically({**columns, "x": _compact(graphs.x), "key": key}, path)
    except (OSError, RuntimeError) as error:
        warn_once(
            f"datasets cannot be cached in {path.parent} "
            f"({getattr(error, 'strerror', None) or 'writing failed'}) and will be read from text "
            f"every time; set LCPOOL_CACHE to a folder that can be written to."
        )


def _compact(x: Tensor) -> Tensor:
    """One-hot features as bytes: exact, and a quarter of the size."""
    small = x.to(torch.uint8)
    return small if torch.equal(small.float(), x) else x
