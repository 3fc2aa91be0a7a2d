"""Reads TU datasets from a folder or a zip.

The result is the same as from PyG's reader:

- Node features are the attributes, then every node label one-hot over the range from its smallest
  to its largest value, unused values included. A set with neither gets its degrees one-hot.
- Unlike in PyG, labels whose range is wider than :data:`MAX_SPAN` have a column for each value that
  occurs.
- Self-loops are dropped (convolutions that need them add them), and of several lines for one edge
  the first counts. Edges are not made undirected.
- Class labels may be any integers; in their order they become the labels 0, 1, ….
"""

from __future__ import annotations

import io
import itertools
import lzma
import os
import re
import struct
import warnings
import zipfile
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NoReturn, TextIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.utils import cumsum

from lcpool.data.checks import DatasetError, warn_once
from lcpool.data.graphset import MAX_DEGREE, GraphSet, degree_features

# Increase it whenever the same files give another result: caches are then written again.
READER_VERSION = 4
# The widest range of labels with a column for each value in it, used or not.
MAX_SPAN = 4096
# How many bytes a line and a number count as at least: in memory they take more than in the text.
LINE, NUMBER = 16, 8
LONGEST = 1 << 24  # bytes of a line, which is parsed as a whole
TOO_MUCH = "more than the limit: set LCPOOL_MAX_GB to a larger number of gigabytes to read it."

# Every dataset has these. Any of them gives its name, also if another one is missing. Archives made
# on a Mac hold a hidden twin of every file, whose name begins with a dot.
_HEAD = re.compile(r"((?:.*/)?[^./][^/]*)_(?:A|graph_indicator|graph_labels)\.txt")
# What is raised for files that cannot be read, and by zipfile for damaged, encrypted and oddly
# compressed members.
_ERRORS = (
    OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError,
    NotImplementedError, RuntimeError, UnicodeDecodeError,
)  # fmt: skip

Array = NDArray[Any]


@dataclass(frozen=True)
class Source:
    """The files ``NAME_*.txt`` of one dataset."""

    path: Path  # the folder or zip
    name: str
    files: dict[str, str]  # paths in it, by what follows the name (``A``, ``node_labels``, …)
    size: int  # how many bytes of text they have, or claim to have

    @classmethod
    def at(cls, path: Path) -> Source:
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
        """How messages call ``NAME_kind.txt``, also if it is missing."""
        return str(self.path / self.files.get(kind, f"{self.name}_{kind}.txt"))

    def fingerprint(self) -> list[list[Any]]:
        """Path, size and time of the last change of every file, to notice changes."""
        files = [self.path / self.files[kind] for kind in sorted(self.files)]
        paths = [path.resolve() for path in (files if self.path.is_dir() else [self.path])]
        return [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]

    def check_size(self) -> None:
        """Raise if there is more text than :func:`max_bytes`: a small zip can unpack to much."""
        if self.size > max_bytes():
            raise DatasetError(f"{self.path}: {self.size / 1e9:.1f} GB of text, {TOO_MUCH}")

    def check_numbers(self, kind: str, rows: int, width: int) -> None:
        """Raise if ``NAME_kind.txt`` would become more numbers than :func:`max_bytes`."""
        if rows * width > max_bytes():
            raise DatasetError(f"{self.where(kind)}: {rows} rows of {width} features, {TOO_MUCH}")

    @contextmanager
    def open(self, kind: str) -> Iterator[TextIO]:
        """``NAME_kind.txt`` as text."""
        if kind not in self.files:
            raise DatasetError(f"{self.where(kind)}: no such file.")
        try:
            with self._bytes(self.files[kind]) as file:
                limited = io.BufferedReader(_Limited(file, max_bytes()), buffer_size=1 << 16)
                yield io.TextIOWrapper(limited, "utf-8-sig", errors="replace")
        except _ERRORS as error:
            raise DatasetError(f"{self.where(kind)}: cannot be read ({error}).") from error

    def lines(self, kind: str) -> Iterator[tuple[int, str]]:
        """The lines of ``NAME_kind.txt`` that are not blank, with their numbers."""
        with self.open(kind) as file:
            yield from ((at, line) for at, line in enumerate(file, 1) if not line.isspace())

    def _bytes(self, name: str) -> IO[bytes]:
        if not self.path.is_dir():
            with zipfile.ZipFile(self.path) as archive:  # Its file stays open for the member.
                return archive.open(name)
        if not (self.path / name).is_file():  # A pipe would wait for ever.
            raise OSError("not a regular file")
        return (self.path / name).open("rb")

    def read(self, kind: str, dtype: type, width: int = 0, rows: int | None = None) -> Array:
        """The numbers of ``NAME_kind.txt``, a row for each line that is not blank."""
        values = self._parse(kind, dtype)
        if not len(values):
            values = np.empty((0, width), dtype)
        elif width not in (0, values.shape[1]):
            self._fail(kind, 0, f"expected {width} value(s) per line, not {values.shape[1]}.")
        if rows not in (None, len(values)):
            raise DatasetError(
                f"{self.where(kind)}, line {len(values)}: the file ends with {len(values)} rows, "
                f"but the dataset has {rows} {kind.partition('_')[0]}s."
            )
        return values

    def read_numbers(self, kind: str, width: int, most: int, unit: str) -> Array:
        """The numbers from 1 to ``most`` in ``NAME_kind.txt``, here from 0."""
        values = self.read(kind, np.int64, width)
        within = ((values >= 1) & (values <= most)).all(axis=1)
        listed = ", ".join(["{}"] * width)
        self.require(kind, values, within, f"{listed} is out of range, there are {most} {unit}.")
        return values - 1

    def require(self, kind: str, values: Array, ok: Any, problem: str) -> None:
        """Raise at the first row that is not ``ok``, formatting its values into ``problem``."""
        if not ok.all():
            row = int(ok.argmin())
            self._fail(kind, row, problem.format(*values[row]))

    def _fail(self, kind: str, row: int, problem: str) -> NoReturn:
        """Raise with the line of ``row``, which is searched for only now."""
        number, _ = next(itertools.islice(self.lines(kind), row, None))
        raise DatasetError(f"{self.where(kind)}, line {number}: {problem}")

    def _parse(self, kind: str, dtype: type) -> Array:
        quiet = warnings.catch_warnings(action="ignore")  # numpy warns of an empty file.
        with self.open(kind) as file, suppress(ValueError), quiet:
            return np.loadtxt(file, dtype, comments=None, delimiter=",", ndmin=2)
        return self._parse_slowly(kind, dtype)

    def _parse_slowly(self, kind: str, dtype: type) -> Array:
        """The same for what numpy refuses: integers written as 1.0, lines of spaces, and errors."""
        whole = dtype is np.int64
        values: array[Any] = array("q" if whole else "d")
        width = 0
        for at, line in self.lines(kind):
            where, cells = f"{self.where(kind)}, line {at}", line.split(",")
            width = width or len(cells)
            if len(cells) != width:
                raise DatasetError(f"{where}: {len(cells)} value(s), the lines before {width}.")
            for cell in cells:
                try:
                    values.append(_integer(cell) if whole else float(cell))
                except (ValueError, OverflowError):
                    noun, short = "an integer" if whole else "a number", cell.strip()[:40]
                    raise DatasetError(f"{where}: '{short}' is not {noun}.") from None
        with np.errstate(over="ignore"):  # What is too large for float32 is reported as not finite.
            return np.array(values, dtype).reshape(-1, max(width, 1))


def _integer(cell: str) -> int:
    with suppress(ValueError):
        return int(cell)
    value = float(cell)
    if not value.is_integer() or abs(value) >= 2**53:  # Above, float64 skips integers.
        raise ValueError
    return int(value)


class _Limited(io.RawIOBase):
    """A file of which at most ``limit`` bytes are read, whatever size it claims to have."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self.file, self.left, self.line = file, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self.file.read(len(buffer))
        lines, numbers = content.count(b"\n"), content.count(b",")
        self.left -= max(len(content), LINE * lines, NUMBER * numbers)
        self.line = len(content) - content.rfind(b"\n") if lines else self.line + len(content)
        if self.left < 0:
            raise OSError(TOO_MUCH)
        if self.line > LONGEST:
            raise OSError(f"a line of more than {LONGEST:,} bytes")
        buffer[: len(content)] = content
        return len(content)


def max_bytes() -> int:
    """How much text, and how many features, may be read: ``LCPOOL_MAX_GB``, 10⁹ by default."""
    text = os.environ.get("LCPOOL_MAX_GB") or "1"
    try:
        return int(float(text) * 1e9)
    except (ValueError, OverflowError):
        raise DatasetError(f"LCPOOL_MAX_GB must be a number, not '{text}'.") from None


def check_archive(path: Path) -> None:
    """Raise unless ``path`` is an undamaged zip with a dataset in it."""
    Source.at(path).check_size()
    try:
        with zipfile.ZipFile(path) as archive:
            if broken := archive.testzip():
                raise zipfile.BadZipFile(f"at its member '{broken}'")
    except _ERRORS as error:
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
    except _ERRORS as error:
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
            f"{path}: no dataset, which has files NAME_A.txt, NAME_….txt. PyG graphs of your own "
            'are passed in Python: lcpool.compare({"MINE": graphs}).'
        )
    fits = {prefix for prefix in found if f"/{prefix}".endswith(f"/{wanted}")} if wanted else found
    if len(fits) != 1:
        problem = "several datasets" if fits else f"no dataset {wanted}"
        listed = ", ".join(f"{path}/{prefix}" for prefix in sorted(fits or found))
        raise DatasetError(f"{path}: {problem}; pass the path of one: {listed}.")
    return fits.pop()


def read_tu(path: Path) -> GraphSet:
    """Read the dataset in a folder or zip."""
    source = Source.at(path)
    source.check_size()
    if "graph_labels" not in source.files and "graph_attributes" in source.files:
        raise DatasetError(f"{source.path}: for regression, which is not supported (no classes).")
    labels = source.read("graph_labels", np.int64, width=1)
    if not len(labels):
        raise DatasetError(f"{source.where('graph_labels')}, line 1: the file is empty.")
    classes, y = np.unique(labels[:, 0], return_inverse=True)
    graph = source.read_numbers("graph_indicator", 1, len(y), "graph labels")[:, 0]
    lines = source.read_numbers("A", 2, len(graph), "nodes").T
    inside = graph[lines[0]] == graph[lines[1]]
    source.require("A", lines.T + 1, inside, "edge {}, {} joins nodes of two graphs.")
    try:
        edge_attr = _features(source, "edge", lines.shape[1])
    except DatasetError as error:  # No network here needs them.
        warn_once(f"{source.name}: read without edge labels and attributes: {error}")
        edge_attr = None
    # Nodes in order of their graph, and edges in order of their nodes, are what columns need.
    order = np.argsort(graph, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    edges, first = _coalesce(place[lines], len(graph))
    edge_index, of_edge = torch.from_numpy(edges), graph[order][edges[0]]
    x = _features(source, "node", len(graph))
    if x is None:
        source.check_numbers("graph_indicator", len(graph), MAX_DEGREE + 1)
    return GraphSet(
        name=source.name,
        x=degree_features(edge_index, len(graph)) if x is None else torch.from_numpy(x[order]),
        edge_index=edge_index,
        node_ptr=cumsum(torch.from_numpy(np.bincount(graph, minlength=len(y)))),
        edge_ptr=cumsum(torch.from_numpy(np.bincount(of_edge, minlength=len(y)))),
        y=torch.from_numpy(y),
        classes=tuple(range(len(classes))),
        edge_attr=None if edge_attr is None else torch.from_numpy(edge_attr[first]),
    )


def count_edge_lines(path: Path) -> int:
    """How many lines ``NAME_A.txt`` has, with those that :func:`read_tu` drops."""
    return sum(1 for _ in Source.at(path).lines("A"))


def _coalesce(edges: Array, num_nodes: int) -> tuple[Array, Array]:
    """The edges sorted, each once and without self-loops, and the line on which each is first."""
    lines = np.flatnonzero(edges[0] != edges[1])
    keys, first = np.unique(edges[0, lines] * num_nodes + edges[1, lines], return_index=True)
    return np.stack(np.divmod(keys, max(num_nodes, 1))), lines[first]


def _features(source: Source, unit: str, count: int) -> Array | None:
    """Attributes and one-hot labels of the nodes or edges; None if there are neither."""
    attributes, labels = np.empty((count, 0), np.float32), []
    if (kind := f"{unit}_attributes") in source.files:
        attributes = source.read(kind, np.float32, rows=count)
        finite = np.isfinite(attributes).all(axis=1)
        source.require(kind, attributes, finite, "a value is not finite.")
    at = width = attributes.shape[1]
    if (kind := f"{unit}_labels") in source.files:
        labels = [_number_labels(column) for column in source.read(kind, np.int64, rows=count).T]
        width += sum(values for _, values in labels)
        source.check_numbers(kind, count, width)
    if not labels:
        return attributes if width else None
    features = np.zeros((count, width), np.float32)
    features[:, :at] = attributes
    for number, values in labels:
        features[np.arange(count), at + number] = 1
        at += values
    return features


def _number_labels(values: Array) -> tuple[Array, int]:
    """The column of each label, and how many columns there are."""
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span <= MAX_SPAN:
        return values - least, span
    found, number = np.unique(values, return_inverse=True)
    return number, len(found)
