"""A process that trains one task after the other, and the end of it that its parent holds."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path

import torch

from lcpool.sweep.events import Event, Failed, Task
from lcpool.sweep.work import attempt

STOP = "stop"
# A terminal, or `timeout`, sends these to all processes. They are for the parent, which tells us.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Seconds for a process to be gone after its pipe was closed.
GOING = 10.0
LAST_WORDS = 20_000  # characters


@dataclass(frozen=True)
class Ready:
    """The process has its device and waits for a task."""


class Worker:
    """A worker process.

    Args:
        device: what it trains on.
        threads: how many threads it computes with.
        log: the file for what it prints; also for its last words.
        environment: more variables for it.
    """

    def __init__(
        self, device: torch.device, threads: int, log: Path, environment: Mapping[str, str]
    ) -> None:
        context = process_context(device.type)
        self.device, self.log = device, log
        self.task: Task | None = None
        self.ready = False
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(  # type: ignore[attr-defined] # known of each context only
            target=serve, args=(theirs, device, threads, log), daemon=True
        )
        with variables(environment), out_of_reach():
            self.process.start()
        theirs.close()

    def give(self, task: Task) -> None:
        """Give it a task, which it gets as soon as it is ready."""
        self.task = task
        if self.ready:
            self._send(task)

    def receive(self) -> Iterator[Event]:
        """What it has said.

        Raises:
            EOFError: if it is dead.
        """
        try:
            while self.pipe.poll():
                event = self.pipe.recv()
                if not isinstance(event, Ready):
                    yield event
                    continue
                self.ready = True
                if self.task is not None:
                    self._send(self.task)
        except OSError as error:
            raise EOFError from error

    def stop(self) -> None:
        """Ask it to stop its task after the epoch it is in."""
        self._send(STOP)

    def end(self) -> str:
        """End it, by force if it does not go; how it ended, and its last words."""
        self.pipe.close()
        self.process.join(GOING)
        ended = self.process.exitcode
        self.process.kill()
        self.process.join()
        try:
            words = self.log.read_text(errors="replace")[-LAST_WORDS:].strip()
        except OSError:
            words = ""
        self.log.unlink(missing_ok=True)
        return f"{words}\n{manner(ended)}".strip()

    def _send(self, message: Task | str) -> None:
        # To a dead process: that it is dead is noticed when it is listened to.
        with contextlib.suppress(OSError):
            self.pipe.send(message)


def process_context(kind: str = "cpu") -> BaseContext:
    """How processes for a kind of device are made.

    For CPUs they are forked from one that has imported everything and done nothing, so that a
    worker that died is replaced at once. CUDA is best begun in a process with no past at all.
    """
    if kind != "cpu" or "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lcpool.sweep.worker"])
    return context


def serve(pipe: Connection, device: torch.device, threads: int, log: Path) -> None:
    """Train what comes through the pipe until it is closed: the worker's side."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    _print_to(log)
    torch.set_num_threads(threads)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.zeros(1, device=device)
    pipe.send(Ready())
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = pipe.recv()
            if task == STOP:  # It came when the task had ended.
                continue
            for event in attempt(task, device, asked_to_stop=pipe.poll):
                pipe.send(event)
                if isinstance(event, Failed) and event.fault:
                    return


def _print_to(log: Path) -> None:
    """Send all output to a file: a terminal belongs to the one who draws on it."""
    file = log.open("wb", buffering=0)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(file.fileno(), stream.fileno())
    faulthandler.enable(file=sys.stderr)
    sys.excepthook = lambda *error: traceback.print_exception(*error)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def manner(code: int | None) -> str:
    """How a process ended, by its exit code."""
    if code is None:
        return "the worker was ended"
    if code < 0:
        return f"the worker process was killed by {signal.Signals(-code).name}"
    return f"the worker process ended with status {code}"


@contextlib.contextmanager
def out_of_reach() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM from a process that is started inside, while it imports, too."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # Where that is started, signals are let through again.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for a process that is started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
