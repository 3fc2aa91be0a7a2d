"""Reads numbers from the text files of a dataset: bounded, and with errors that name the line.

Files are streamed, unpacked if their name ends with ``.gz``, and never read beyond
:func:`max_bytes`, whatever size they claim to have. Only regular files are opened: a pipe would
wait for ever.
"""

from __future__ import annotations

import gzip
import io
import itertools
import lzma
import math
import os
import re
import struct
import warnings
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from lcpool.data.checks import DatasetError

# How many bytes a line and a number count as at least: in memory they take more than in the text.
LINE, NUMBER = 16, 8
LONGEST = 1 << 24  # bytes of a line, which is parsed as a whole
TOO_MUCH = "more than the limit: set LCPOOL_MAX_GB to a larger number of gigabytes to read it."

# What is raised for files that cannot be read, and by zipfile for damaged, encrypted and oddly
# compressed members.
UNREADABLE = (
    OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError,
    NotImplementedError, RuntimeError, UnicodeDecodeError,
)  # fmt: skip

Array = NDArray[Any]


@dataclass(frozen=True)
class TextFiles:
    """The text files of one dataset, in a folder or a zip."""

    path: Path  # the folder or zip
    name: str
    files: dict[str, str]  # paths in it, by what they hold
    size: int  # how many bytes they have, or claim to have

    def where(self, kind: str) -> str:
        """How messages call the file ``kind``, also if it is missing."""
        return str(self.path / self.files.get(kind, kind))

    def fingerprint(self) -> list[list[Any]]:
        """Path, size and time of the last change of every file, to notice changes."""
        files = [self.path / self.files[kind] for kind in sorted(self.files)]
        paths = [path.resolve() for path in (files if self.path.is_dir() else [self.path])]
        return [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]

    def check_size(self) -> None:
        """Raise if there is more than :func:`max_bytes`: a small zip can unpack to much."""
        if self.size > max_bytes():
            raise DatasetError(f"{self.path}: {self.size / 1e9:.1f} GB, {TOO_MUCH}")

    @contextmanager
    def open(self, kind: str, words: bool = False) -> Iterator[TextIO]:
        """The file ``kind`` as text; an error if it has ``words`` and is not UTF-8."""
        if kind not in self.files:
            raise DatasetError(f"{self.where(kind)}: no such file.")
        try:
            with self._bytes(self.files[kind]) as file:
                limited = io.BufferedReader(_Limited(file, max_bytes()), buffer_size=1 << 16)
                errors = "strict" if words else "replace"
                yield io.TextIOWrapper(limited, "utf-8-sig", errors=errors)
        except UnicodeDecodeError as error:
            problem = "is not text in UTF-8; save it again in that encoding"
            raise DatasetError(f"{self.where(kind)}: {problem}.") from error
        except UNREADABLE as error:
            raise DatasetError(f"{self.where(kind)}: cannot be read ({error}).") from error

    def lines(self, kind: str) -> Iterator[tuple[int, str]]:
        """The lines of the file ``kind`` that are not blank, with their numbers."""
        with self.open(kind) as file:
            yield from ((at, line) for at, line in enumerate(file, 1) if not line.isspace())

    def _bytes(self, name: str) -> IO[bytes]:
        if not self.path.is_dir():
            with zipfile.ZipFile(self.path) as archive:  # Its file stays open for the member.
                return archive.open(name)
        if not (self.path / name).is_file():
            raise OSError("not a regular file")
        if name.endswith(".gz"):
            return cast(IO[bytes], gzip.open(self.path / name))
        return (self.path / name).open("rb")

    def read(
        self,
        kind: str,
        dtype: type,
        width: int = 0,
        rows: int | None = None,
        missing: bool = False,
    ) -> Array:
        """The numbers of the file ``kind``, a row for each line that is not blank.

        Args:
            kind: which file.
            dtype: of the result. int64 refuses what is no integer, and a float what is not finite
                in float32.
            width: how many numbers a line must have; 0 for any, all lines alike.
            rows: how many lines there must be, or None for any.
            missing: whether a cell may be empty, which is NaN.
        """
        values = self._parse(kind, dtype, missing)
        if not len(values):
            values = np.empty((0, width), dtype)
        elif width not in (0, values.shape[1]):
            self._fail(kind, 0, f"expected {width} value(s) per line, not {values.shape[1]}.")
        if rows not in (None, len(values)):
            unit = "graph" if kind.startswith("num") else re.split("[_-]", kind)[0]
            raise DatasetError(
                f"{self.where(kind)}, line {len(values)}: the file ends with {len(values)} rows, "
                f"but the dataset has {rows} {unit}s."
            )
        if dtype is not np.int64:
            fits = np.abs(values) <= np.finfo(np.float32).max
            fits |= missing & np.isnan(values)
            problem = "a value is not finite, or too large for float32."
            self.require(kind, values, fits.all(axis=1), problem)
        return values

    def read_some(self, kind: str, dtype: type, width: int = 0, missing: bool = False) -> Array:
        """The same; an error if there is no line."""
        values = self.read(kind, dtype, width, missing=missing)
        if not len(values):
            raise DatasetError(f"{self.where(kind)}, line 1: the file is empty.")
        return values

    def read_numbers(self, kind: str, width: int, most: int, unit: str) -> Array:
        """The numbers from 1 to ``most`` in the file ``kind``, here from 0."""
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

    def _parse(self, kind: str, dtype: type, missing: bool) -> Array:
        quiet = warnings.catch_warnings(action="ignore")  # numpy warns of an empty file.
        with self.open(kind) as file, suppress(ValueError), quiet:
            return np.loadtxt(file, dtype, comments=None, delimiter=",", ndmin=2)
        return self._parse_slowly(kind, dtype, missing)

    def _parse_slowly(self, kind: str, dtype: type, missing: bool) -> Array:
        """The same for what numpy refuses: 1.0 for an integer, empty cells or lines, and errors."""
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
                    empty = missing and not cell.strip()
                    values.append(math.nan if empty else _integer(cell) if whole else number(cell))
                except (ValueError, OverflowError):
                    noun, short = "an integer" if whole else "a number", cell.strip()[:40]
                    raise DatasetError(f"{where}: '{short}' is not {noun}.") from None
        with np.errstate(over="ignore"):  # What is too large for float32 is reported as not finite.
            return np.array(values, dtype).reshape(-1, max(width, 1))


def number(cell: str) -> int | float:
    """The number that is written in a cell, whole ones within int64 exactly.

    Raises a ValueError if there is none: 1_0, which Python reads as 10, is none.
    """
    if "_" in cell:
        raise ValueError
    with suppress(ValueError):
        if -(2**63) <= (whole := int(cell)) < 2**63:
            return whole
    return float(cell)


def _integer(cell: str) -> int:
    value = number(cell)
    # Above 2⁵³, float64 skips integers.
    if isinstance(value, float) and not (value.is_integer() and abs(value) < 2**53):
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
