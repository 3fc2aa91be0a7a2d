"""The file from which an interrupted training continues."""

from __future__ import annotations

import hashlib
import json
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from lcpool.atomic import read_whole, write_atomically
from lcpool.version import __version__

# Seconds between two checkpoints. Epochs after the last one are trained again with the same result,
# as every random choice derives from the seed, the run and the epoch.
INTERVAL = 20.0


class Checkpoint:
    """The state of one trainer in a file of ``folder``; without a folder nothing is written.

    ``identity`` is what determines a training: another identity is another file.
    """

    def __init__(self, folder: str | Path | None, identity: dict[str, Any]) -> None:
        # Other versions may compute something else.
        known = {**identity, "lcpool": __version__, "torch": torch.__version__}
        text = json.dumps(known, sort_keys=True, default=int)  # default: numpy's integers
        name = f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.ckpt"
        self.path = None if folder is None else Path(folder) / name
        self.written = time.monotonic()

    def load(self, device: torch.device) -> dict[str, Any] | None:
        """The saved state; None without a file or, with a warning, with a damaged one."""
        if self.path is None:
            return None
        try:
            state = read_whole(self.path, device)
            if isinstance(state, dict) and "runs" in state:
                return state
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            pass
        warnings.warn(f"the checkpoint {self.path} is damaged: starting over", stacklevel=2)
        return None

    def save(self, state: Callable[[], dict[str, Any]], now: bool = False) -> None:
        """Write ``state()`` if the last checkpoint is ``INTERVAL`` seconds old, or ``now``."""
        if self.path is not None and (now or time.monotonic() - self.written > INTERVAL):
            write_atomically(state(), self.path)
            self.written = time.monotonic()

    def remove(self) -> None:
        if self.path is not None:
            with suppress(OSError):  # What was trained is worth more than a clean folder.
                self.path.unlink()


@contextmanager
def interrupt_later() -> Iterator[Callable[[], bool]]:
    """Delay Ctrl-C until the epoch is complete; a second Ctrl-C interrupts at once.

    Yields a function that returns whether Ctrl-C was pressed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # Only the main thread receives signals.
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
