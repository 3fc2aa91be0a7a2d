"""Write files whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import glob
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO


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
