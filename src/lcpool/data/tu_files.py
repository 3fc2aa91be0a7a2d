"""The files of a TU dataset: found in a folder or a zip, and read piece by piece."""

from __future__ import annotations

import io
import lzma
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, TextIO

from lcpool.data.checks import DatasetError

# Every dataset has these. Any of them gives its name, also if another one is missing.
_HEAD = re.compile(r"(?P<prefix>.+)_(?:A|graph_indicator|graph_labels)\.txt")

# A line and a number count as so many bytes at least: in memory they take more than in the text.
CHUNK, LINE, NUMBER = 1 << 16, 16, 8
LONGEST = 1 << 24  # bytes of a line, which is parsed as a whole
TOO_MUCH = "more than the limit: set LCPOOL_MAX_GB to a larger number of gigabytes to read it."

# What zipfile raises for damaged, encrypted and oddly compressed members.
_ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError,
    RuntimeError, UnicodeDecodeError,
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """The files ``NAME_*.txt`` of one dataset.

    Attributes:
        path: the folder or zip.
        name: NAME.
        files: path within the folder or zip, by what follows the name (``A``, ``node_labels``, …).
        size: how many bytes of text they have, or claim to have.
    """

    path: Path
    name: str
    files: dict[str, str]
    size: int

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

    @property
    def has_edge_features(self) -> bool:
        return not self.files.keys().isdisjoint(("edge_labels", "edge_attributes"))

    @contextmanager
    def open(self, kind: str) -> Iterator[TextIO]:
        """``NAME_kind.txt`` as text."""
        if kind not in self.files:
            raise DatasetError(f"{self.where(kind)}: no such file.")
        try:
            with self._bytes(self.files[kind]) as file:
                limited = io.BufferedReader(_Limited(file, max_bytes()), CHUNK)
                yield io.TextIOWrapper(limited, "utf-8-sig", errors="replace")
        except (OSError, *_ZIP_ERRORS) as error:
            raise DatasetError(f"{self.where(kind)}: cannot be read ({error}).") from error

    @contextmanager
    def _bytes(self, name: str) -> Iterator[IO[bytes]]:
        if self.path.is_dir():
            if not (self.path / name).is_file():  # A pipe would wait for ever.
                raise OSError("not a regular file")
            with (self.path / name).open("rb") as file:
                yield file
        else:
            with zipfile.ZipFile(self.path) as archive, archive.open(name) as file:
                yield file

    def check_size(self) -> None:
        """Raise if there is more text than :func:`max_bytes`: a small zip can unpack to much."""
        if self.size > max_bytes():
            raise DatasetError(f"{self.path}: {self.size / 1e9:.1f} GB of text, {TOO_MUCH}")

    def check_numbers(self, kind: str, rows: int, width: int) -> None:
        """Raise if ``NAME_kind.txt`` would become more numbers than :func:`max_bytes`."""
        if rows * width > max_bytes():
            raise DatasetError(f"{self.where(kind)}: {rows} rows of {width} features, {TOO_MUCH}")

    def where(self, kind: str) -> str:
        """How messages call ``NAME_kind.txt``, also if it is missing."""
        return str(self.path / self.files.get(kind, f"{self.name}_{kind}.txt"))

    def fingerprint(self) -> list[tuple[str, int, int]]:
        """Path, size and time of the last change of every file, to notice changes."""
        paths = [self.path]
        if self.path.is_dir():
            paths = [self.path / self.files[kind] for kind in sorted(self.files)]
        states = [(path.resolve(), path.stat()) for path in paths]
        return [(str(path), state.st_size, state.st_mtime_ns) for path, state in states]


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
            broken = archive.testzip()
    except (OSError, *_ZIP_ERRORS) as error:
        raise DatasetError(f"{path}: a damaged zip ({error}).") from error
    if broken is not None:
        raise DatasetError(f"{path}: a damaged zip, at its member '{broken}'.")


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
    except (OSError, *_ZIP_ERRORS) as error:
        raise DatasetError(f"{path}: not a readable zip ({error}).") from error
    for name in sizes:
        parts = PureWindowsPath(name)  # It knows both kinds of slash, and drives.
        if parts.drive or parts.root or ".." in parts.parts:
            raise DatasetError(f"{path}: refused, its member '{name}' leaves the folder.")
    return sizes


def _one_prefix(path: Path, names: Iterable[str], wanted: str) -> str:
    """What the names of the dataset's files begin with."""
    heads = (_HEAD.fullmatch(name) for name in names)
    found = {head["prefix"] for head in heads if head}
    # Archives made on a Mac hold a hidden twin of every file.
    found = {prefix for prefix in found if not PurePosixPath(prefix).name.startswith(".")}
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
