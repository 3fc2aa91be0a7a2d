"""Downloads TU datasets: what breaks off is continued, and only a whole zip takes its place."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lcpool.data.gather import DatasetError
from lcpool.data.source import check_archive

TU_URL = "https://www.chrsmrrs.com/graphkerneldatasets"
ATTEMPTS = 3
PAUSE_S = 1.0
TIMEOUT_S = 30.0
CHUNK = 1 << 16


class BrokenOffError(OSError):
    """The connection ended before the file did."""


def download(name: str, folder: Path) -> Path:
    """Fetch ``NAME.zip`` from TU into ``folder``.

    A connection that breaks is taken up again, also by a later call: until the zip is whole and
    found sound, what has arrived waits in ``NAME.zip.part``.
    """
    target = folder / f"{name}.zip"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise DatasetError(
            f"{name}: cannot be downloaded to {folder}, which is not a folder to write to; "
            f"name another one by LCPOOL_DATA or root."
        )
    with _one_at_a_time(folder):
        if not target.exists():  # Another process may just have brought it.
            _fetch(name, f"{TU_URL}/{name}.zip", target)
    return target


def _fetch(name: str, url: str, target: Path) -> None:
    """Transfer, again if need be, then check and put in place."""
    part = target.with_name(f"{target.name}.part")
    for left in reversed(range(ATTEMPTS)):
        try:
            _transfer(name, url, part)
            check_archive(part)
            os.replace(part, target)
            return
        except DatasetError as error:
            # Cut short by a server that tells no size, or continued from another version.
            part.unlink()
            if not left:
                raise DatasetError(f"{name}: what {url} sent is no dataset. {error}") from error
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:  # Nothing lies behind the piece we have.
                part.unlink(missing_ok=True)
            if not left or (error.code < 500 and error.code != 416):
                missing = "TU has no dataset of that name; upper and lower case count"
                hint = missing if error.code == 404 else str(error)
                raise DatasetError(f"{name}: {hint} ({url}).") from None
        except (OSError, http.client.HTTPException) as error:
            if not left:
                raise DatasetError(f"{name}: {_reason(error)} ({url}); {_kept(part)}") from error
        time.sleep(PAUSE_S)


def _transfer(name: str, url: str, part: Path) -> None:
    """Fetch what ``part`` still lacks of the file, or all of it if the server starts over."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "lcpool"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        if not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        with part.open("ab" if have else "wb") as file, _progress(name, have, total) as advance:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                advance(len(chunk))
        arrived = part.stat().st_size
        if total is not None and arrived < total:
            raise BrokenOffError(f"the connection ended after {arrived} of {total} bytes")


def _reason(error: Exception) -> str:
    return f"the download failed: {getattr(error, 'reason', None) or error}"


def _kept(part: Path) -> str:
    """What a later call can go on from; an empty piece is not worth leaving."""
    if part.exists() and part.stat().st_size:
        return (
            f"the first {part.stat().st_size} bytes are kept, and the next try goes on from there."
        )
    part.unlink(missing_ok=True)
    return f"check the connection, or put the zip into {part.parent} by hand."


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Wait until no other process downloads into ``folder``, where the system can tell."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # Some network file systems have no locks.
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _progress(name: str, done: int, total: int | None) -> Iterator[Callable[[int], Any]]:
    """Show progress on stderr while inside; call what it yields with the bytes that arrived."""
    if importlib.util.find_spec("rich") is None:
        yield _plain_progress(name, done, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(name, completed=done, total=total)
        yield lambda arrived: bar.advance(task, arrived)


def _plain_progress(name: str, done: int, total: int | None) -> Callable[[int], None]:
    """A line on stderr for every tenth of the file."""
    shown = -1

    def advance(arrived: int) -> None:
        nonlocal done, shown
        done += arrived
        tenth = 10 * done // total if total else done >> 20
        if tenth > shown:
            shown = tenth
            of = f" of {total / 1e6:.1f}" if total else ""
            print(f"{name}: {done / 1e6:.1f}{of} MB", file=sys.stderr)

    return advance
