"""From a name, a path or PyG graphs to a :class:`GraphSet`."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from torch_geometric.data import Batch, Data

from lcpool.data.builtin import builtin
from lcpool.data.cache import read_cached, user_cache
from lcpool.data.gather import DatasetError
from lcpool.data.graphset import GraphSet
from lcpool.data.notices import on_files, on_graphs, say_once
from lcpool.data.table import paper_datasets

BUILTIN = "builtin"

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)


def load_dataset(
    name_or_path: str | os.PathLike[str] | GraphSet | Iterable[Data],
    root: str | os.PathLike[str] | None = None,
    name: str | None = None,
) -> GraphSet:
    """Load a dataset; what was read from text is cached in columns.

    What may not be as it was meant, edges in one direction only and attributes of edges that no
    network here reads, is said once as a :class:`~lcpool.data.DataWarning`.

    Args:
        name_or_path: the name of a TU dataset, the path of its zip or folder, ``"builtin"`` for
            the built-in one, PyG graphs in a list or a batch, or a PyG dataset. The case of a
            :func:`known name <known_datasets>` does not matter.
        root: the folder to look for names in first, and to download to. After it come the folder
            named by ``LCPOOL_DATA`` and the user's cache.
        name: what to call the dataset; by default its own name, and "graphs" for a list.

    Example:
        >>> load_dataset("builtin").num_classes
        2
    """
    if isinstance(name_or_path, str | os.PathLike | GraphSet):
        graphs = read_dataset(name_or_path, root)
        graphs = graphs if name is None else replace(graphs, name=name)
        messages = on_files(graphs)
    else:
        own = getattr(name_or_path, "name", None)
        usual = own if isinstance(own, str) else "graphs"
        rows = single_graphs(name_or_path)
        graphs = GraphSet.from_graphs(rows, usual if name is None else name)
        messages = on_graphs(graphs, rows)
    for message in messages:
        say_once(message)
    return graphs


def read_dataset(
    name_or_path: str | os.PathLike[str] | GraphSet, root: str | os.PathLike[str] | None = None
) -> GraphSet:
    """As :func:`load_dataset`, without warnings: for workers, whose user has been told already."""
    if isinstance(name_or_path, GraphSet):
        return name_or_path
    if known_name(os.fspath(name_or_path)) == BUILTIN:
        return builtin()
    return read_cached(locate(name_or_path, root))


def single_graphs(graphs: Data | Iterable[Data]) -> list[Data]:
    """PyG graphs one by one: a batch, or each of several, is taken apart."""
    found: list[Data] = []
    for item in [graphs] if isinstance(graphs, Data) else graphs:
        found += item.to_data_list() if isinstance(item, Batch) else [item]
    return found


def locate(name_or_path: str | os.PathLike[str], root: str | os.PathLike[str] | None) -> Path:
    """The folder or zip of a dataset, downloaded if need be."""
    found = find_dataset(name_or_path, root)
    if found is not None:
        return found
    name = os.fspath(name_or_path)
    if not _NAME.fullmatch(name) or name.endswith(".zip"):
        raise DatasetError(f"'{name}' is neither the name of a dataset nor a path that exists.")
    from lcpool.data.download import download

    try:
        return download(known_name(name), data_folders(root)[0])
    except DatasetError as error:
        if (meant := _similar_name(known_name(name))) is None:
            raise
        raise DatasetError(f"{error} Did you mean {meant}?") from error


def find_dataset(
    name_or_path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None
) -> Path | None:
    """The folder or zip of a dataset if it is on this machine, else None."""
    path = Path(name_or_path).expanduser()
    # A bare word is first of all a name, as it stands before as it is usually spelt.
    if path.name != name_or_path or path.suffix == ".zip":
        places = [path]
    else:
        usual = known_name(path.name)
        places = [*_places(path.name, root), path, *_places(usual, root)]
    return next((place for place in places if place.exists()), None)


def _places(name: str, root: str | os.PathLike[str] | None) -> list[Path]:
    return [folder / file for folder in data_folders(root) for file in (f"{name}.zip", name)]


def known_datasets() -> list[str]:
    """The names that need no looking up: the paper's, TU's smallest, and the built-in one."""
    return [*paper_datasets(), "MUTAG", BUILTIN]


def known_name(name: str) -> str:
    """The usual spelling of a known dataset's name, whatever its case; other names as they are.

    >>> known_name("proteins"), known_name("my_data")
    ('PROTEINS', 'my_data')
    """
    return next((known for known in known_datasets() if known.lower() == name.lower()), name)


def data_folders(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """Where datasets are looked for, in this order; downloads go to the first."""
    named = (root, os.environ.get("LCPOOL_DATA"), user_cache() / "tu")
    return [Path(folder).expanduser() for folder in named if folder]


def _similar_name(name: str) -> str | None:
    """The known name that an unknown one may have been meant to be."""
    known = {spelt.lower(): spelt for spelt in known_datasets()}
    close = difflib.get_close_matches(name.lower(), known, n=1)
    return known[close[0]] if close and name not in known.values() else None
