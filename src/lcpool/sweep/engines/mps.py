"""CUDA MPS, which lets several processes use a GPU at the same time, not in turns."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psutil

CONTROL = "nvidia-cuda-mps-control"
PREFIX = "lcpool-mps-"
SECONDS = 20.0  # The daemon answers at once or not at all.


class MPS:
    """An MPS daemon with its own folder; processes find it by the variables ``environment``."""

    def __init__(self, folder: Path | None = None) -> None:
        # Short: a socket's path has at most 107 characters.
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self.environment: dict[str, str] = {}
        for name in ("pipe", "log"):
            (self.folder / name).mkdir(exist_ok=True)
            self.environment[f"CUDA_MPS_{name.upper()}_DIRECTORY"] = str(self.folder / name)

    @staticmethod
    def available() -> bool:
        """Whether MPS is installed, and the environment names no daemon to use already."""
        return shutil.which(CONTROL) is not None and "CUDA_MPS_PIPE_DIRECTORY" not in os.environ

    def start(self) -> str | None:
        """Start the daemon; returns what went wrong, or None."""
        clean_up()
        try:
            code = self._run([CONTROL, "-d"])
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        said = (self.folder / "said").read_text(errors="replace").strip()
        return said or f"exit status {code}" if code else None

    def stop(self) -> None:
        """End the daemon, by force if it does not answer."""
        try:
            self._run([CONTROL], "quit -t 5\n")
        except (OSError, subprocess.TimeoutExpired):
            with contextlib.suppress(OSError, ValueError, psutil.Error):
                pid = (self.folder / "pipe" / f"{CONTROL}.pid").read_text()
                process = psutil.Process(int(pid))
                if CONTROL.startswith(process.name()):  # the system cuts long names
                    process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, command: list[str], said: str = "") -> int:
        # Into a file: the daemon would keep a pipe open, and its reader would wait.
        with (self.folder / "said").open("w") as output:
            done = subprocess.run(
                command, input=said, env={**os.environ, **self.environment}, text=True,
                stdout=output, stderr=subprocess.STDOUT, timeout=SECONDS, check=False,
            )  # fmt: skip
        return done.returncode


def clean_up() -> None:
    """End daemons whose command was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)) and os.access(folder, os.W_OK):
            with contextlib.suppress(OSError):  # Another command may be ending it, too.
                MPS(folder).stop()
