"""Files of tensors that are whole or not there: written atomically, checked when they are read."""

from __future__ import annotations

import contextlib
import glob
import os
import sys
import uuid
import zipfile
from pathlib import Path
from typing import IO, Any

import torch


def write_atomically(values: Any, path: Path) -> None:
    """Save with torch so that ``path`` is always the old file or the new one, never half of it.

    What a writer that was killed has left beside ``path`` is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with part.open("xb") as file:
            with contextlib.suppress(OSError):  # Some network file systems have no locks.
                _lock(file)
            torch.save(values, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def read_whole(path: Path, device: torch.device | str = "cpu") -> Any:
    """What :func:`write_atomically` saved; nothing in the file is executed (``weights_only``).

    Raises:
        OSError: if the file is not there or cannot be opened.
        ValueError: if it is damaged, or was written by something else.
    """
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


def _remove_leftovers(path: Path) -> None:
    """Remove parts of ``path`` whose writer is dead; one that lives holds a lock."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with contextlib.suppress(OSError):
            with part.open("rb") as file:
                _lock(file)
            part.unlink()


def _lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed; an OSError if another process has.

    Windows needs no lock: there, nobody can remove a file that is open.
    """
    if sys.platform == "win32":
        return
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
