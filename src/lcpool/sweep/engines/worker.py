"""A worker process, which trains one task after the other, and its parent's side of the pipe."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from lcpool.sweep.engine import Event, Task, is_fault
from lcpool.sweep.engines.execute import attempt

# What all processes need, and what those on a GPU do; without Triton the latter is left out.
PRELOADED = [__name__, "lcpool.ops.backends.gpu", "lcpool.train.stack.captured"]
# From the worker, once it has its device; from its parent, to stop after the current epoch.
READY, STOP = "ready", "stop"
# A terminal, or `timeout`, sends these to all processes. Only the parent reacts, and tells us.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
END_SECONDS = 10.0  # for a process to end after its pipe was closed
LOG_CHARACTERS = 20_000  # how much of what a dead worker printed is kept


class Worker:
    """A worker process with this environment and more; what it prints goes to the file ``log``."""

    def __init__(
        self, device: torch.device, threads: int, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.log, self.ready = log, False
        self.task: Task | None = None
        # The server that processes are forked from may have begun with another environment.
        whole = {**os.environ, **environment}
        self.pipe, self.process = start_process(serve, device, threads, log, whole)

    def give(self, task: Task) -> None:
        """Give it a task, now or as soon as it is ready."""
        self.task = task
        if self.ready:
            self._send(task)

    def receive(self) -> Iterator[Event]:
        """The events it has sent; raises EOFError if it is dead."""
        try:
            while self.pipe.poll():
                event = self.pipe.recv()
                if event != READY:
                    yield event
                    continue
                self.ready = True
                if self.task is not None:
                    self._send(self.task)
        except OSError as error:
            raise EOFError from error

    def stop(self) -> None:
        """Ask it to stop after the current epoch."""
        self._send(STOP)

    def end(self) -> str:
        """End it, by force if need be; returns what it printed last and how it ended."""
        self.pipe.close()
        self.process.join(END_SECONDS)
        ended = self.process.exitcode
        self.process.kill()
        self.process.join()
        words = self.log.read_text(errors="replace") if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        return f"{words[-LOG_CHARACTERS:].strip()}\n{manner(ended)}".strip()

    def _send(self, message: Task | str) -> None:
        # A dead process is noticed when its events are read.
        with contextlib.suppress(OSError):
            self.pipe.send(message)


def process_context() -> BaseContext:
    """How to start processes: forked from a server that has imported everything, which is quick.

    The server itself never uses a GPU, so that processes forked from it can.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED if torch.version.cuda else PRELOADED[:1])
    return context


def start_process(target: Callable[..., None], *arguments: Any) -> tuple[Connection, BaseProcess]:
    """Call ``target(pipe, *arguments)`` in a new process; returns the other end of the pipe, too.

    Ctrl-C and SIGTERM do not reach the process, already while it imports.
    """
    context = process_context()
    pipe, theirs = context.Pipe()
    process: BaseProcess = context.Process(  # type: ignore[attr-defined] # every context has it
        target=target, args=(theirs, *arguments), daemon=True
    )
    posix = hasattr(signal, "pthread_sigmask")
    if posix:
        resource_tracker.ensure_running()  # Starting it would unblock the signals.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        process.start()
    finally:
        if posix:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    theirs.close()
    return pipe, process


def serve(
    pipe: Connection,
    device: torch.device,
    threads: int,
    log: Path,
    environment: Mapping[str, str],
) -> None:
    """The worker's side: train the tasks that come through the pipe until it is closed."""
    os.environ.update(environment)  # CUDA reads it at its first use, below.
    threading.Thread(target=_die_with_parent, daemon=True).start()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    _print_to(log)
    torch.set_num_threads(threads)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.zeros(1, device=device)
    pipe.send(READY)
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = pipe.recv()
            if task == STOP:  # It came after the task had ended.
                continue
            for event in attempt(task, device, asked_to_stop=pipe.poll):
                pipe.send(event)
                if is_fault(event):
                    return


def _print_to(log: Path) -> None:
    """Send all output to a file: the parent draws on the terminal."""
    file = log.open("wb", buffering=0)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(file.fileno(), stream.fileno())
    faulthandler.enable(file=sys.stderr)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def manner(code: int | None) -> str:
    """How a process ended, by its exit code."""
    if code is None:
        return "the worker process was ended"
    if code == -signal.SIGKILL:
        return (
            "the worker process was killed, probably by the system for lack of memory: "
            "use fewer --workers or a smaller --stack"
        )
    if code < 0:
        return f"the worker process was killed by {signal.Signals(-code).name}"
    return f"the worker process ended with status {code}"
