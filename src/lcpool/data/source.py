"""Where the files of a TU dataset lie: in a folder, or in a zip that is read where it is."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from lcpool.data.gather import DatasetError

# Every dataset has these. Any of them tells its name, also where another one is missing.
_HEAD = re.compile(r"(?P<prefix>.+)_(?:A|graph_indicator|graph_labels)\.txt")

# What zipfile raises for damaged, encrypted and oddly compressed members.
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


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
        """Find the dataset in a folder or zip; it may also lie in a folder within."""
        if path.is_dir():
            names = _text_files(path, "*.txt") or _text_files(path, "*/*.txt")
        elif path.is_file():
            names = archive_names(path)
        else:
            raise DatasetError(f"{path}: no such folder or zip.")
        prefix = _one_prefix(path, names)
        files = {
            name[len(prefix) + 1 : -len(".txt")]: name
            for name in names
            if name.startswith(f"{prefix}_") and name.endswith(".txt")
        }
        return cls(path, PurePosixPath(prefix).name, files)

    def text(self, kind: str) -> str:
        """The contents of ``NAME_kind.txt``."""
        if kind not in self.files:
            raise DatasetError(f"{self.where(kind)}: no such file.")
        try:
            if self.path.is_dir():
                content = (self.path / self.files[kind]).read_bytes()
            else:
                with zipfile.ZipFile(self.path) as archive:
                    content = archive.read(self.files[kind])
        except (OSError, *_ZIP_ERRORS) as error:
            raise DatasetError(f"{self.where(kind)}: cannot be read ({error}).") from error
        return content.decode("utf-8-sig", errors="replace")

    def where(self, kind: str) -> str:
        """How messages call ``NAME_kind.txt``, also where it is missing."""
        return str(self.path / self.files.get(kind, f"{self.name}_{kind}.txt"))

    def fingerprint(self) -> list[tuple[str, int, int]]:
        """Path, size and time of change of every file: what tells one state from another."""
        paths = [self.path]
        if self.path.is_dir():
            paths = [self.path / self.files[kind] for kind in sorted(self.files)]
        states = [(path.resolve(), path.stat()) for path in paths]
        return [(str(path), state.st_size, state.st_mtime_ns) for path, state in states]


def archive_names(path: Path) -> list[str]:
    """The members of a zip; refused if one of them would land outside the folder."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, *_ZIP_ERRORS) as error:
        raise DatasetError(f"{path}: not a readable zip ({error}).") from error
    for name in names:
        parts = PureWindowsPath(name)  # It knows both kinds of slash, and drives.
        if parts.drive or parts.root or ".." in parts.parts:
            raise DatasetError(f"{path}: refused, its member '{name}' leaves the folder.")
    return names


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


def _text_files(folder: Path, pattern: str) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob(pattern))


def _one_prefix(path: Path, names: Iterable[str]) -> str:
    """What the names of the dataset's files begin with."""
    heads = (_HEAD.fullmatch(name) for name in names)
    prefixes = {head["prefix"] for head in heads if head}
    # Archives made on a Mac hold a hidden twin of every file.
    prefixes = {prefix for prefix in prefixes if not PurePosixPath(prefix).name.startswith(".")}
    if not prefixes:
        raise DatasetError(
            f"{path}: no dataset, which has files NAME_A.txt, NAME_….txt. PyG graphs of your own "
            'go to lcpool.compare({"MINE": graphs}) in Python.'
        )
    if len(prefixes) > 1:
        found = ", ".join(sorted(prefixes))
        raise DatasetError(f"{path}: several datasets ({found}); name one of them.")
    return prefixes.pop()
