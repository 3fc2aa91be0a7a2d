"""Keeps what was read from text in columns, so that it is read once."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import sys
import tempfile
import warnings
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lcpool.data.graphset import GraphSet
from lcpool.data.source import Source
from lcpool.data.tu import READER_VERSION, read_tu

# What torch and zipfile raise for a file that is cut short, damaged or something else altogether.
_CORRUPT = (OSError, RuntimeError, ValueError, KeyError, TypeError, EOFError,
            pickle.UnpicklingError, zipfile.BadZipFile)  # fmt: skip


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
    """Read the dataset in a folder or zip from its cache if that is up to date, else make it."""
    source = Source.at(path)
    key = [READER_VERSION, *(list(state) for state in source.fingerprint())]
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    cached = user_cache() / "columns" / f"{source.name}-{place}.pt"
    graphs = _load(cached, key)
    if graphs is None:
        graphs = read_tu(path)
        _save(cached, key, graphs)
    return graphs


def _load(path: Path, key: list[Any]) -> GraphSet | None:
    """The graphs in a cache file, or None where it is missing, out of date or damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            # torch.load itself does not look at the checksums.
            if archive.testzip() is not None:
                return None
        content = torch.load(path, weights_only=True)
        if content.pop("key") != key:
            return None
        return GraphSet(**{**content, "x": content["x"].float()})
    except _CORRUPT:
        return None


def _save(path: Path, key: list[Any], graphs: GraphSet) -> None:
    """Write a cache file beside ``path`` that takes its place only when it is complete."""
    columns = {field.name: getattr(graphs, field.name) for field in fields(graphs)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        os.close(handle)
        try:
            torch.save({**columns, "x": _compact(graphs.x), "key": key}, name)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except (OSError, RuntimeError) as error:
        _warn_unwritable(path.parent, getattr(error, "strerror", None) or "writing failed")


def _compact(x: Tensor) -> Tensor:
    """One-hot features as bytes, which keep them exactly in a quarter of the space."""
    small = x.to(torch.uint8)
    return small if torch.equal(small.float(), x) else x


@functools.cache
def _warn_unwritable(folder: Path, error: str) -> None:
    """Say once that datasets will be read from text every time."""
    warnings.warn(
        f"datasets cannot be cached in {folder} ({error}); "
        f"set LCPOOL_CACHE to a folder that can be written to.",
        stacklevel=2,
    )
