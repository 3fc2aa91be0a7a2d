"""Files that are whole or not there: written atomically, checked when they are read."""

from __future__ import annotations

import contextlib
import glob
import os
import sys
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import torch


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to; ``path`` is always the old file or the complete new one.

    Temporary files beside ``path`` whose writer was killed are removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with part.open("xb") as file:
            with contextlib.suppress(OSError):  # Some network file systems have no locks.
                lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        # A full disk does not say which file it had no room for.
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files, of which none takes the place of an older one before all are written."""
    with contextlib.ExitStack() as files:
        for path, content in contents.items():
            file = files.enter_context(whole_file(path))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of ``path`` whose writer is dead; a living writer holds a lock."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with contextlib.suppress(OSError):
            with part.open("rb") as file:
                lock(file)
            part.unlink()


def lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed; an OSError if another process holds the lock."""
    if sys.platform == "win32":  # Open files cannot be removed there.
        return
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_atomically(values: Any, path: Path) -> None:
    """Save with torch so that ``path`` is always the old file or the new one, never half of it."""
    with whole_file(path) as file:
        try:
            torch.save(values, file)
        except RuntimeError as error:  # torch hides the error of the file: no space left
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def read_whole(path: Path, device: torch.device | str = "cpu") -> Any:
    """What :func:`write_atomically` saved; nothing in the file is executed (``weights_only``).

    Raises:
        OSError: if the file is not there or cannot be opened.
        ValueError: if it is damaged, or was written by something else.
    """
    if path.exists() and not path.is_file():  # A pipe would wait for ever.
        raise ValueError(f"{path} is not a regular file.")
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:  # torch does not look at the checksums
                broken = archive.testzip()
            if broken is None:
                file.seek(0)
                return torch.load(file, map_location=device, weights_only=True)
        except Exception as error:  # zipfile, zlib, pickle and torch each have several of their own
            raise ValueError(f"{path} is damaged, or no file of lcpool's.") from error
    raise ValueError(f"{path} is damaged, at its part '{broken}'.")
