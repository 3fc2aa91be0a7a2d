"""The engine of worker processes on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import connection
from pathlib import Path

import torch

from lcpool.sweep.engine import EngineError, Failed, Happened, Last, Noted, Stopped, Task, is_fault
from lcpool.sweep.engines.mps import MPS
from lcpool.sweep.engines.worker import Worker
from lcpool.train.device import pick_device

# How many workers in a row may die before they are ready.
STILLBORN = 3
# Under MPS on an H200, each of 14 processes kept over 80 % of the speed of one alone; more were
# not measured.
MOST_ON_A_GPU = 14


class LocalEngine:
    """Worker processes, which are replaced when they die; never more than there are ``jobs``.

    Several workers share a GPU through MPS where that is available. Then a fault of the GPU takes
    all of them down, and all are started again. What they print goes to ``folder``.
    """

    def __init__(
        self, on: Sequence[torch.device], workers: int | None, folder: Path, jobs: int
    ) -> None:
        cores, threads, cuda = available_cores(), threads_asked_for(), on[0].type == "cuda"
        if workers is None:
            workers = default_workers(on, cores // (threads or 1), MPS.available())
        self.slots = max(1, min(workers, jobs))
        self.devices, self.folder = on, folder
        self.threads = threads or (1 if cuda else max(1, cores // self.slots))
        self.share = min(1.0, len(on) / self.slots)
        self.workers: list[Worker] = []
        self.said: list[Happened] = []
        self.proven = False
        self.started = self.stillborn = 0
        shared = cuda and self.slots > len(on)
        self.mps = self._start_mps() if shared and MPS.available() else None

    def submit(self, task: Task) -> None:
        idle = next((worker for worker in self.workers if worker.task is None), None)
        (idle or self._start_worker()).give(task)

    def events(self, timeout: float) -> list[Happened]:
        happened: list[Happened] = []
        connection.wait([worker.pipe for worker in self.workers], timeout)
        for worker in list(self.workers):
            if worker in self.workers:  # A fault of another may have ended it.
                happened.extend(self._listen(worker))
        if self.mps is not None and any(is_fault(event) for _, event in happened):
            happened = self._start_over(happened)
        said, self.said = self.said, []
        return [*said, *happened]

    def stop(self) -> None:
        """Ask all workers to stop; those that are not ready are ended at once."""
        for worker in list(self.workers):
            if worker.ready and worker.task is not None:
                worker.stop()
            elif worker.task is not None:
                self.said.append((worker.task, Stopped()))
                self._end([worker])

    def abandon(self, task: Task) -> None:
        self._end([worker for worker in self.workers if worker.task is task])

    def close(self) -> None:
        """End all workers, and the MPS daemon."""
        self._end(self.workers)
        if self.mps is not None:
            self.mps.stop()
            self.mps = None

    def _end(self, workers: Sequence[Worker]) -> None:
        """End some workers, by force if they are training; first tell all, then wait for each."""
        going = list(workers)
        self.workers = [worker for worker in self.workers if worker not in going]
        for worker in going:
            worker.pipe.close()
            if worker.task is not None:
                worker.process.kill()
        for worker in going:
            worker.end()

    def _listen(self, worker: Worker) -> list[Happened]:
        happened: list[Happened] = []
        try:
            for event in worker.receive():
                task = worker.task
                if isinstance(event, Last):
                    worker.task = None
                if is_fault(event):
                    self._end([worker])  # It can compute no more.
                    # Without MPS a fault concerns one process: a failure like any other.
                    happened.append((task, replace(event, fault=self.mps is not None)))
                    break
                happened.append((task, event))
        except EOFError:
            happened.extend(self._bury(worker))
        if worker.ready:
            self.proven, self.stillborn = True, 0
        return happened

    def _bury(self, worker: Worker) -> list[Happened]:
        """Remove a dead worker; its task has failed, unless the worker never began it."""
        self.workers.remove(worker)
        how, lost = worker.end(), [worker.task]
        if worker.ready:
            return [(worker.task, Failed(how))] if worker.task else []
        if self.mps is not None and not self.proven:
            self._note(f"no worker starts under CUDA MPS, continuing without it: {how}")
            lost += [other.task for other in self.workers]
            self.close()
        else:
            self.stillborn += 1
            if self.stillborn >= STILLBORN:
                raise EngineError(f"no worker can be started: {how}")
        for task in filter(None, lost):
            self.submit(task)
        return []

    def _start_over(self, happened: list[Happened]) -> list[Happened]:
        """End every worker after a fault; their tasks have failed with it."""
        fault = next(event for _, event in happened if is_fault(event))
        lost = [worker.task for worker in self.workers if worker.task is not None]
        self.close()
        self.mps = self._start_mps()
        return [*happened, *((task, fault) for task in lost)]

    def _start_mps(self) -> MPS | None:
        mps = MPS()
        wrong = mps.start()
        if wrong is None:
            return mps
        mps.stop()
        self._note(f"CUDA MPS cannot be started, continuing without it: {wrong}")
        return None

    def _note(self, message: str) -> None:
        self.said.append((None, Noted(message)))

    def _start_worker(self) -> Worker:
        self.folder.mkdir(parents=True, exist_ok=True)
        device = self.devices[self.started % len(self.devices)]
        log = self.folder / f"worker-{os.getpid()}-{self.started}.log"
        self.started += 1
        worker = Worker(device, self.threads, log, self.mps.environment if self.mps else {})
        self.workers.append(worker)
        return worker


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_asked_for() -> int | None:
    """The threads per process that ``OMP_NUM_THREADS`` asks for, if it does."""
    text = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(text) or None if text.isdecimal() else None


def devices(name: str | torch.device | None) -> list[torch.device]:
    """The devices that a name stands for: "cuda" is all GPUs."""
    found = pick_device(name)
    if found.type == "cuda" and found.index is None:
        return [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return [found]


def default_workers(on: Sequence[torch.device], cores: int, mps: bool) -> int:
    """How many workers to start by default; ``cores`` is for how many there are cores.

    On CPUs one per core: these networks are too small to gain from more threads. A GPU waits for
    Python most of the time, so with MPS it serves one process per core.
    """
    if on[0].type == "cpu":
        return max(1, cores)
    if not mps:
        return len(on)
    return max(len(on), min(MOST_ON_A_GPU * len(on), cores - 2))
