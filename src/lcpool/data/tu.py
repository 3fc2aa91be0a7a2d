"""Reads TU datasets from a folder or a zip.

The result is the same as from PyG's reader:

- Node features are the attributes, then every node label one-hot over the range from its smallest
  to its largest value, unused values included. A set with neither gets its degrees one-hot.
- Unlike in PyG, labels whose range is wider than :data:`MAX_SPAN` have a column for each value that
  occurs.
- Self-loops are dropped (convolutions that need them add them), and of several lines for one edge
  the first counts. Edges are not made undirected.
- Class labels may be any integers; in their order they become the labels 0, 1, …. A set with
  attributes of graphs in place of class labels has these as values to predict.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import torch

from lcpool.data.checks import DatasetError, warn_once
from lcpool.data.columns import MAX_SPAN, in_columns, one_hot
from lcpool.data.files import UNREADABLE, Array, TextFiles
from lcpool.data.graphset import GraphSet

# Increase it whenever the same files give another result: caches are then written again.
READER_VERSION = 7

# Every dataset has these. Any of them gives its name, also if another one is missing. Archives made
# on a Mac hold a hidden twin of every file, whose name begins with a dot.
_HEAD = re.compile(r"((?:.*/)?[^./][^/]*)_(?:A|graph_indicator|graph_labels)\.txt")


@dataclass(frozen=True)
class TUFiles(TextFiles):
    """The files ``NAME_*.txt`` of one dataset, by what follows the name (``A``, …)."""

    @classmethod
    def at(cls, path: Path) -> TUFiles:
        """Find the dataset in a folder or zip, or in a folder within.

        If there are several, ``PATH/NAME`` is the dataset NAME in the folder or zip PATH.
        """
        path, wanted = _split(path)
        sizes = _folder(path) if path.is_dir() else _archive(path)
        prefix = _one_prefix(path, sizes, wanted)
        files = {
            name[len(prefix) + 1 : -len(".txt")]: name
            for name in sizes
            if name.startswith(f"{prefix}_") and name.endswith(".txt")
        }
        size = sum(sizes[name] for name in files.values())
        return cls(path, PurePosixPath(prefix).name, files, size)

    def where(self, kind: str) -> str:
        return str(self.path / self.files.get(kind, f"{self.name}_{kind}.txt"))


def check_archive(path: Path) -> None:
    """Raise unless ``path`` is an undamaged zip with a dataset in it."""
    TUFiles.at(path).check_size()
    try:
        with zipfile.ZipFile(path) as archive:
            if broken := archive.testzip():
                raise zipfile.BadZipFile(f"at its member '{broken}'")
    except UNREADABLE as error:
        raise DatasetError(f"{path}: a damaged zip ({error}).") from error


def _split(path: Path) -> tuple[Path, str]:
    """A folder or zip, and the dataset in it that the path names; "" if it names none."""
    if os.path.isdir(path) or os.path.isfile(path):
        return path, ""
    if os.path.exists(path):
        raise DatasetError(f"{path}: neither a folder nor a regular file.")
    if os.path.isfile(f"{path}_A.txt"):
        return path.parent, path.name
    for place in path.parents:
        if os.path.isfile(place):
            return place, path.relative_to(place).as_posix()
    raise DatasetError(f"{path}: no such folder or zip.")


def _folder(path: Path) -> dict[str, int]:
    """The text files of a folder, or else of the folders in it, with their sizes."""
    found = sorted(path.glob("*.txt")) or sorted(path.glob("*/*.txt"))
    there = filter(os.path.exists, found)  # A link may lead to nothing.
    return {file.relative_to(path).as_posix(): file.stat().st_size for file in there}


def _archive(path: Path) -> dict[str, int]:
    """The members of a zip with their sizes; an error if one would be unpacked elsewhere."""
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {member.filename: member.file_size for member in archive.infolist()}
    except UNREADABLE as error:
        raise DatasetError(f"{path}: not a readable zip ({error}).") from error
    for name in sizes:
        parts = PureWindowsPath(name)  # It knows both kinds of slash, and drives.
        if parts.drive or parts.root or ".." in parts.parts:
            raise DatasetError(f"{path}: refused, its member '{name}' leaves the folder.")
    return sizes


def _one_prefix(path: Path, names: Iterable[str], wanted: str) -> str:
    """What the names of the dataset's files begin with."""
    found = {head[1] for head in map(_HEAD.fullmatch, names) if head}
    if not found:
        raise DatasetError(
            f"{path}: no dataset. There are neither files NAME_A.txt, NAME_….txt (TU's), nor "
            f"raw/edge.csv.gz, … (OGB's, as a folder), nor edges.csv and graphs.csv. Graphs of "
            'your own are passed in Python: lcpool.compare({"MINE": graphs}).'
        )
    fits = {prefix for prefix in found if f"/{prefix}".endswith(f"/{wanted}")} if wanted else found
    if len(fits) != 1:
        problem = "several datasets" if fits else f"no dataset {wanted}"
        listed = ", ".join(f"{path}/{prefix}" for prefix in sorted(fits or found))
        raise DatasetError(f"{path}: {problem}; pass the path of one: {listed}.")
    return fits.pop()


def read_tu(path: Path) -> GraphSet:
    """Read the dataset in a folder or zip."""
    source = TUFiles.at(path)
    source.check_size()
    known = _targets(source)
    y = known["y"]
    graph = source.read_numbers("graph_indicator", 1, len(y), "graph labels")[:, 0]
    lines = source.read_numbers("A", 2, len(graph), "nodes").T
    inside = graph[lines[0]] == graph[lines[1]]
    source.require("A", lines.T + 1, inside, "edge {}, {} joins nodes of two graphs.")
    try:
        edge_attr = _features(source, "edge", lines.shape[1])
    except DatasetError as error:  # No network here needs them.
        warn_once(f"{source.name}: read without edge labels and attributes: {error}")
        edge_attr = None
    return in_columns(
        source.name,
        graph,
        len(y),
        lines,
        _features(source, "node", len(graph)),
        edge_attr,
        source.where("graph_indicator"),
        **known,
    )


def _targets(source: TUFiles) -> dict[str, Any]:
    """The fields ``y``, ``classes`` and ``task``: classes, or else the graphs' attributes."""
    if "graph_labels" not in source.files and "graph_attributes" in source.files:
        values = source.read_some("graph_attributes", np.float64, missing=True)
        return {"y": torch.from_numpy(values), "classes": (), "task": "values"}
    labels = source.read_some("graph_labels", np.int64, width=1)
    classes, y = np.unique(labels[:, 0], return_inverse=True)
    return {"y": torch.from_numpy(y), "classes": tuple(range(len(classes)))}


def count_edge_lines(path: Path) -> int:
    """How many lines ``NAME_A.txt`` has, with those that :func:`read_tu` drops."""
    return sum(1 for _ in TUFiles.at(path).lines("A"))


def _features(source: TUFiles, unit: str, count: int) -> Array | None:
    """Attributes and one-hot labels of the nodes or edges; None if there are neither."""
    features = np.empty((count, 0), np.float32)
    if (kind := f"{unit}_attributes") in source.files:
        features = source.read(kind, np.float32, rows=count)
    if (kind := f"{unit}_labels") in source.files:
        labels = map(_number_labels, source.read(kind, np.int64, rows=count).T)
        columns = one_hot(source.where(kind), labels, np.empty((count, 0)))
        features = np.concatenate([features, columns], axis=1)
    return features if features.shape[1] else None


def _number_labels(values: Array) -> tuple[Array, int]:
    """The column of each label, and how many columns there are."""
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span <= MAX_SPAN:
        return values - least, span
    found, number = np.unique(values, return_inverse=True)
    return number, len(found)
