"""From a name, a path or PyG graphs to a :class:`GraphSet`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from torch_geometric.data import Data

from lcpool.data.builtin import builtin
from lcpool.data.cache import read_cached, user_cache
from lcpool.data.graphset import DatasetError, GraphSet

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)


def load_dataset(
    name_or_path: str | os.PathLike[str] | GraphSet | Iterable[Data],
    root: str | os.PathLike[str] | None = None,
) -> GraphSet:
    """Load a dataset; what was read from text is cached in columns.

    Args:
        name_or_path: the name of a TU dataset, the path of its zip or folder, ``"builtin"`` for
            the built-in one, a list of PyG graphs or a PyG dataset.
        root: the folder to look for names in first, and to download to. After it come the folder
            named by ``LCPOOL_DATA`` and the user's cache.

    Example:
        >>> load_dataset("builtin").num_classes
        2
    """
    if isinstance(name_or_path, GraphSet):
        return name_or_path
    if not isinstance(name_or_path, str | os.PathLike):
        return GraphSet.from_graphs(name_or_path, getattr(name_or_path, "name", "graphs"))
    if name_or_path == "builtin":
        return builtin()
    return read_cached(locate(name_or_path, root))


def locate(name_or_path: str | os.PathLike[str], root: str | os.PathLike[str] | None) -> Path:
    """The folder or zip of a dataset, downloaded if need be."""
    found = find_dataset(name_or_path, root)
    if found is not None:
        return found
    name = os.fspath(name_or_path)
    if not _NAME.fullmatch(name) or name.endswith(".zip"):
        raise DatasetError(f"'{name}' is neither the name of a dataset nor a path that exists.")
    from lcpool.data.download import download

    return download(name, data_folders(root)[0])


def find_dataset(
    name_or_path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None
) -> Path | None:
    """The folder or zip of a dataset if it is on this machine, else None."""
    path = Path(name_or_path).expanduser()
    places = [path]
    # A bare word is first of all a name.
    if path.name == name_or_path and path.suffix != ".zip":
        places = [folder / file for folder in data_folders(root) for file in (f"{path}.zip", path)]
        places.append(path)
    return next((place for place in places if place.exists()), None)


def data_folders(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """Where datasets are looked for, in this order; downloads go to the first."""
    named = (root, os.environ.get("LCPOOL_DATA"), user_cache() / "tu")
    return [Path(folder).expanduser() for folder in named if folder]
