"""CUDA MPS, which lets several processes use a GPU at the same time, not in turns."""

from __future__ import annotations

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
    """An MPS daemon with its own folder for pipes and logs.

    Attributes:
        environment: the variables by which processes find it.
    """

    def __init__(self) -> None:
        # Short: a socket's path has at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self.environment = _environment(self.folder)

    @staticmethod
    def available() -> bool:
        """Whether MPS is installed, and the environment names no daemon to use already."""
        return shutil.which(CONTROL) is not None and "CUDA_MPS_PIPE_DIRECTORY" not in os.environ

    def start(self) -> str | None:
        """Start the daemon; returns what went wrong, or None."""
        clean_up()
        try:
            code = _run([CONTROL, "-d"], self.folder)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        said = (self.folder / "said").read_text(errors="replace").strip()
        return said or f"exit status {code}" if code else None

    def stop(self) -> None:
        _quit(self.folder)


def clean_up() -> None:
    """End daemons whose command was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)) and os.access(folder, os.W_OK):
            _quit(folder)


def _quit(folder: Path) -> None:
    try:
        _run([CONTROL], folder, "quit -t 5\n")
    except (OSError, subprocess.TimeoutExpired):
        _terminate(folder / "pipe" / f"{CONTROL}.pid")
    shutil.rmtree(folder, ignore_errors=True)


def _terminate(pid_file: Path) -> None:
    """Kill a daemon that does not answer."""
    try:
        process = psutil.Process(int(pid_file.read_text()))
        if CONTROL.startswith(process.name()):  # the system cuts long names
            process.kill()
    except (OSError, ValueError, psutil.Error):
        return


def _environment(folder: Path) -> dict[str, str]:
    pipe, log = folder / "pipe", folder / "log"
    pipe.mkdir(exist_ok=True)
    log.mkdir(exist_ok=True)
    return {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(log)}


def _run(command: list[str], folder: Path, said: str = "") -> int:
    # Into a file: the daemon would keep a pipe open, and its reader would wait.
    with (folder / "said").open("w") as output:
        done = subprocess.run(
            command, input=said, env={**os.environ, **_environment(folder)}, text=True,
            stdout=output, stderr=subprocess.STDOUT, timeout=SECONDS, check=False,
        )  # fmt: skip
    return done.returncode
