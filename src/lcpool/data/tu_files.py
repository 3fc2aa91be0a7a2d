"""The files of a TU dataset: found in a folder or a zip, and read piece by piece."""

from __future__ import annotations

import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, TextIO

from lcpool.data.checks import DatasetError

# Every dataset has these. Any of them gives its name, also if another one is missing.
_HEAD = re.compile(r"(?P<prefix>.+)_(?:A|graph_indicator|graph_labels)\.txt")

# What zipfile raises for damaged, encrypted and oddly compressed members.
_ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError,
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """The files ``NAME_*.txt`` of one dataset.

    Attributes:
        path: the folder or zip.
        name: NAME.
        files: path within the folder or zip, by what follows the name (``A``, ``node_labels``, …).
    """

    path: Path
    name: str
    files: dict[str, str]

    @classmethod
    def at(cls, path: Path) -> Source:
        """Find the dataset in a folder or zip, or in a folder within.

        If there are several, ``PATH/NAME`` is the dataset NAME in the folder or zip PATH.
        """
        path, wanted = _split(path)
        if path.is_dir():
            names = _text_files(path, "*.txt") or _text_files(path, "*/*.txt")
        else:
            names = _archive_names(path)
        prefix = _one_prefix(path, names, wanted)
        files = {
            name[len(prefix) + 1 : -len(".txt")]: name
            for name in names
            if name.startswith(f"{prefix}_") and name.endswith(".txt")
        }
        return cls(path, PurePosixPath(prefix).name, files)

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
                yield io.TextIOWrapper(file, "utf-8-sig", errors="replace")
        except (OSError, *_ZIP_ERRORS) as error:
            raise DatasetError(f"{self.where(kind)}: cannot be read ({error}).") from error

    @contextmanager
    def _bytes(self, name: str) -> Iterator[IO[bytes]]:
        if self.path.is_dir():
            with (self.path / name).open("rb") as file:
                yield file
        else:
            with zipfile.ZipFile(self.path) as archive, archive.open(name) as file:
                yield file

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


def check_archive(path: Path) -> None:
    """Raise unless ``path`` is an undamaged zip with a dataset in it."""
    Source.at(path)
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


def _archive_names(path: Path) -> list[str]:
    """The members of a zip; an error if one of them would be unpacked outside of its folder."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, ValueError, *_ZIP_ERRORS) as error:
        raise DatasetError(f"{path}: not a readable zip ({error}).") from error
    for name in names:
        parts = PureWindowsPath(name)  # It knows both kinds of slash, and drives.
        if parts.drive or parts.root or ".." in parts.parts:
            raise DatasetError(f"{path}: refused, its member '{name}' leaves the folder.")
    return names


def _text_files(folder: Path, pattern: str) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob(pattern))


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
