"""Reads datasets in OGB's raw layout: a folder of compressed CSV files without headers.

======================================  ======================================================
``raw/num-node-list.csv.gz``            nodes of each graph, one graph per line
``raw/num-edge-list.csv.gz``            edges of each graph
``raw/edge.csv.gz``                     source and target, from 0 in each graph
``raw/graph-label.csv.gz``              targets of each graph; an empty cell is missing
``raw/node-feat.csv.gz``                features of each node (optional)
``raw/edge-feat.csv.gz``                features of each edge (optional)
``split/NAME/{train,valid,test}.csv.gz``  numbers of graphs, from 0 (optional)
======================================  ======================================================

- Each edge is stored once, and goes both ways here, as in OGB's own reader.
- Whole numbers as features are categories, from 0: :attr:`lcpool.data.GraphSet.categories`.
  Molecules (``ogbg_mol…``) have those of OGB's encoders, used or not, so that a network trained on
  one set fits the others.
- Targets that are whole numbers, one per graph, are classes; 0, 1 and missing ones are labels;
  other numbers are values.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lcpool.data.checks import DatasetError
from lcpool.data.columns import as_split, both_ways, in_columns, integer_categories, one_hot
from lcpool.data.files import TOO_MUCH, Array, TextFiles, max_bytes
from lcpool.data.graphset import GraphSet
from lcpool.data.splits import Split

# Categories of each feature of atoms and bonds, as OGB's AtomEncoder and BondEncoder have them.
ATOMS = (119, 5, 12, 12, 10, 6, 6, 2, 2)
BONDS = (5, 6, 2)
MOLECULES = "ogbg_mol"

_RAW = ("edge", "num-node-list", "num-edge-list", "graph-label", "node-feat", "edge-feat")
_SPLIT = ("train", "valid", "test")
_SUFFIXES = (".csv.gz", ".csv")


@dataclass(frozen=True)
class OgbFiles(TextFiles):
    """The files of one dataset, by their name without folder and ending."""

    @classmethod
    def at(cls, path: Path) -> OgbFiles:
        """Find the files of a folder in OGB's layout."""
        found = {kind: _found(path, "raw", kind) for kind in _RAW}
        if split := _split_folder(path):
            found |= {kind: _found(path, f"split/{split}", kind) for kind in _SPLIT}
        files = {kind: file for kind, file in found.items() if file}
        size = sum(os.stat(path / file).st_size for file in files.values())
        return cls(path, path.resolve().name, files, size)

    def where(self, kind: str) -> str:
        folder = f"split/{_split_folder(self.path)}" if kind in _SPLIT else "raw"
        return str(self.path / self.files.get(kind, f"{folder}/{kind}.csv.gz"))


def is_ogb(path: Path) -> bool:
    """Whether a folder has OGB's layout, also if a file is missing."""
    return any(_found(path, "raw", kind) for kind in _RAW)


def _found(path: Path, folder: str, kind: str) -> str:
    """The path of a file in the dataset's folder, or "" if there is none."""
    names = (f"{folder}/{kind}{suffix}" for suffix in _SUFFIXES)
    return next((name for name in names if os.path.exists(path / name)), "")


def _split_folder(path: Path) -> str:
    """The folder with the split, or "" if there is none."""
    place = path / "split"
    names = sorted(entry.name for entry in place.iterdir()) if place.is_dir() else []
    names = [name for name in names if any(_found(path, f"split/{name}", k) for k in _SPLIT)]
    if len(names) > 1:
        raise DatasetError(f"{place}: several splits ({', '.join(names)}); leave one folder there.")
    return names[0] if names else ""


def read_ogb(path: Path) -> GraphSet:
    """Read the dataset in a folder."""
    source = OgbFiles.at(path)
    source.check_size()
    targets = _targets(source)
    count = len(targets["y"])
    nodes, edge_counts = (_counts(source, f"num-{unit}-list", count) for unit in ("node", "edge"))
    edges = source.read("edge", np.int64, width=2, rows=int(edge_counts.sum()))
    size = np.repeat(nodes, edge_counts)
    within = ((edges >= 0) & (edges < size[:, None])).all(axis=1)
    shown = np.column_stack([edges, size])
    source.require("edge", shown, within, "edge {}, {} is out of range, its graph has {} nodes.")
    first = np.repeat(nodes.cumsum() - nodes, edge_counts)
    molecules = source.name.startswith(MOLECULES)
    x, categories = _features(source, "node-feat", int(nodes.sum()), ATOMS if molecules else ())
    attr, bonds = _features(source, "edge-feat", len(edges), BONDS if molecules else ())
    doubled, attr = both_ways(edges.T + first, attr)
    return in_columns(
        source.name,
        np.repeat(np.arange(count), nodes),
        count,
        doubled,
        x,
        attr,
        source.where("num-node-list"),
        categories=categories,
        edge_categories=bonds,
        splits=_splits(source, count),
        **targets,
    )


def _targets(source: OgbFiles) -> dict[str, Any]:
    """The fields ``y``, ``classes`` and ``task``."""
    values = source.read_some("graph-label", np.float64, missing=True)
    known = values[~np.isnan(values)]
    whole = bool((known == np.floor(known)).all() and (np.abs(known) < 2**53).all())
    if values.shape[1] == 1 and len(known) == len(values) and whole:
        y = values[:, 0].astype(np.int64)
        return {"y": torch.from_numpy(y), "classes": tuple(np.unique(y).tolist())}
    labels = bool(((known == 0) | (known == 1)).all())
    task, dtype = ("labels", np.float32) if labels else ("values", np.float64)
    return {"y": torch.from_numpy(values.astype(dtype)), "classes": (), "task": task}


def _counts(source: OgbFiles, kind: str, graphs: int) -> Array:
    """How many nodes or edges each graph has."""
    counts = source.read(kind, np.int64, width=1, rows=graphs)
    source.require(kind, counts, (counts >= 0).all(axis=1), "{} is no count.")
    source.require(kind, counts, (counts <= max_bytes()).all(axis=1), f"{{}} is {TOO_MUCH}")
    if (total := sum(counts[:, 0].tolist())) > max_bytes():
        raise DatasetError(f"{source.where(kind)}: {total} in all, {TOO_MUCH}")
    return counts[:, 0]


def _features(
    source: OgbFiles, kind: str, rows: int, usual: tuple[int, ...]
) -> tuple[Array | None, tuple[int, ...]]:
    """Features with whole numbers one-hot, and how many categories each of those has.

    ``usual`` is how many they have if all of them are among these.
    """
    if kind not in source.files:
        return None, ()
    values = source.read(kind, np.float64, rows=rows)
    sizes = integer_categories(values, usual)
    if not sizes:
        return values.astype(np.float32) if values.shape[1] else None, ()
    codes = zip(values.astype(np.int64).T, sizes, strict=True)
    return one_hot(source.where(kind), codes, np.empty((rows, 0))), sizes


def _splits(source: OgbFiles, graphs: int) -> tuple[Split, ...]:
    """The split that came with the data, if one did."""
    if not any(kind in source.files for kind in _SPLIT):
        return ()
    seen, parts = np.zeros(graphs, np.int64), []
    for kind in _SPLIT:
        numbers = source.read_some(kind, np.int64, width=1)
        within = ((numbers >= 0) & (numbers < graphs)).all(axis=1)
        source.require(kind, numbers, within, f"{{}} is out of range, there are {graphs} graphs.")
        once = np.zeros(len(numbers), bool)
        once[np.unique(numbers[:, 0], return_index=True)[1]] = True
        once &= seen[numbers[:, 0]] == 0
        source.require(kind, numbers, once, "graph {} is in the split already.")
        seen[numbers[:, 0]] = 1
        parts.append(numbers[:, 0])
    return (as_split(parts),)
