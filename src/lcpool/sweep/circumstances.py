"""Under what circumstances a run was trained: memory, versions, the commit of the sources."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import subprocess
from pathlib import Path

import psutil
import torch
import torch_geometric

import lcpool


class PeakMemory:
    """The most memory taken since it was made: of the GPU, or of the process beyond what it had."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            return
        self.before = psutil.Process().memory_info().rss
        with contextlib.suppress(OSError):  # Linux resets the process's own mark this way.
            Path("/proc/self/clear_refs").write_text("5")

    def bytes(self) -> int | None:
        """The peak; None where the system does not tell."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        try:
            lines = Path("/proc/self/status").read_text().splitlines()
        except OSError:
            return None
        peaks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
        return max(0, 1024 * peaks[0] - self.before) if peaks else None


@functools.cache
def versions() -> dict[str, str]:
    """Versions of what computes, and the commit of the sources."""
    return {
        "lcpool": lcpool.__version__,
        "torch": torch.__version__,
        "pyg": torch_geometric.__version__,
        "python": platform.python_version(),
        "commit": commit(),
    }


def commit() -> str:
    """The commit of the sources, with "+" if they were changed since; empty if it is not known.

    Where the sources have come without their history, ``LCPOOL_COMMIT`` can name it.
    """
    if named := os.environ.get("LCPOOL_COMMIT"):
        return named
    folder = Path(lcpool.__file__).parent

    def git(*command: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # not just any repository around it
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
