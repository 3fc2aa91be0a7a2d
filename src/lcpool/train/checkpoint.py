"""Where a training goes on after an interruption: written atomically, read back safely."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

# Seconds between two writings. Finished epochs since the last are trained again, with the same
# result: every random choice derives from the seed, the run and the epoch.
INTERVAL = 20.0


class Checkpoint:
    """The state of one trainer in a file.

    Args:
        folder: where checkpoints lie; None keeps none.
        identity: what makes a training this one. Another identity is another file.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any]) -> None:
        text = json.dumps(identity, sort_keys=True, default=int)  # numpy's integers too
        name = f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.ckpt"
        self.path = None if folder is None else Path(folder) / name
        self.written = time.monotonic()

    def load(self, device: torch.device) -> dict[str, Any] | None:
        """What was saved, or None where there is nothing, or nothing whole."""
        if self.path is None or not self.path.exists():
            return None
        try:
            with zipfile.ZipFile(self.path) as archive:
                if archive.testzip() is not None:  # torch itself does not look at the checksums
                    return None
            state = torch.load(self.path, map_location=device, weights_only=True)
        except Exception:  # A file that cannot be read is no checkpoint; the training starts over.
            return None
        return state if isinstance(state, dict) and "runs" in state else None

    def save(self, state: Callable[[], dict[str, Any]], now: bool = False) -> None:
        """Write ``state()`` if the last writing is long ago, or ``now``."""
        if self.path is None or not (now or time.monotonic() - self.written > INTERVAL):
            return
        write_atomically(state(), self.path)
        self.written = time.monotonic()

    def remove(self) -> None:
        """Forget a training that has ended."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


@contextmanager
def interrupt_later() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C wait until an epoch is whole; a second Ctrl-C does not wait.

    Yields:
        A function that says whether Ctrl-C was pressed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # Only the main thread is interrupted.
        return
    pressed = []

    def note(*_: Any) -> None:
        pressed.append(True)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def write_atomically(values: Any, path: Path) -> None:
    """Save with torch so that ``path`` is always the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(values, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
