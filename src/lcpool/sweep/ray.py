"""The engine of many machines: a Ray cluster, with lcpool installed on each of them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import torch

from lcpool.sweep.engine import EngineError, Happened
from lcpool.sweep.events import Ended, Event, Failed, Stopped, Task
from lcpool.sweep.work import attempt

# Seconds for which what the cluster has is taken as known, and to wait for a node to come back.
KNOWN, ABSENT = 5.0, 120.0


class RayEngine:
    """Tasks on a Ray cluster; what dies with a node is trained again on another.

    Args:
        address: of the cluster, as ``ray.init`` takes it; None for the one around, or a new one.
        cpus: CPUs of a task.
        gpus: GPUs of a task, or its share of one.
    """

    def __init__(self, address: str | None, cpus: float, gpus: float) -> None:
        try:
            import ray
        except ModuleNotFoundError as missing:
            raise ValueError("the engine 'ray' needs Ray: pip install 'lcpool[ray]'") from missing
        if cpus <= 0 or gpus < 0:
            raise ValueError(f"a job needs more than {cpus} CPUs and {gpus} GPUs.")
        self.ray, self.cpus, self.gpus = ray, cpus, gpus
        self.cuda, self.share = gpus > 0, gpus if 0 < gpus < 1 else 1.0
        try:
            ray.init(address, log_to_driver=False, logging_level="error", ignore_reinit_error=True)
        except (ConnectionError, ValueError) as error:
            raise EngineError(f"no Ray cluster at {address}: {error}") from error
        # A task is never repeated by Ray itself: whether to do so is decided where it is counted.
        self.remote = ray.remote(
            num_cpus=cpus, num_gpus=gpus, max_retries=0, num_returns="streaming"
        )(train_task)
        self.at_work: dict[Any, Task] = {}
        self._slots, self._counted = 0, -KNOWN
        self._seen = time.monotonic()
        if self.slots == 0:
            ray.shutdown()
            raise EngineError(
                f"no node of the Ray cluster has {cpus:g} CPUs and {gpus:g} GPUs for a job."
            )

    @property
    def slots(self) -> int:
        """Tasks for which the nodes that are alive have room."""
        if time.monotonic() - self._counted >= KNOWN:
            nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
            self._slots, self._counted = sum(map(self._room, nodes)), time.monotonic()
        return self._slots

    def _room(self, resources: dict[str, float]) -> int:
        rooms = [resources.get("CPU", 0) / self.cpus]
        if self.gpus:
            rooms.append(resources.get("GPU", 0) / self.gpus)
        return int(min(rooms) + 1e-6)  # 0.3 / 0.1 is less than 3

    def submit(self, task: Task) -> None:
        """Hand a task to the cluster."""
        self.at_work[self.remote.remote(task)] = task

    def events(self, timeout: float) -> list[Happened]:
        """What the tasks have said, the deaths of some included."""
        self._check_nodes()
        if not self.at_work:
            time.sleep(timeout)
            return []
        streams = list(self.at_work)
        if not self.ray.wait(streams, num_returns=1, timeout=timeout)[0]:
            return []
        ready, _ = self.ray.wait(streams, num_returns=len(streams), timeout=0)
        return [self._next(stream) for stream in ready]

    def _next(self, stream: Any) -> Happened:
        task = self.at_work[stream]
        event = self._event(stream)
        if isinstance(event, Ended | Stopped | Failed):
            del self.at_work[stream]
        return task, event

    def _event(self, stream: Any) -> Event:
        from ray import exceptions

        try:
            event: Event = self.ray.get(next(stream))
        except StopIteration:
            return Failed("the task ended without a word")
        except exceptions.TaskCancelledError:
            return Stopped()
        except exceptions.NodeDiedError as error:
            self._counted = -KNOWN
            return Failed(f"its node died: {error}", counts=False)
        except exceptions.RayError as error:
            return Failed(str(error))
        return event

    def _check_nodes(self) -> None:
        """Give up when no node has been able to train for long: nothing would ever happen."""
        if self.slots:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > ABSENT:
            raise EngineError("no node of the Ray cluster is left that could train.")

    def stop(self) -> None:
        """Break off what would not stop by itself: it goes on from its last checkpoint."""
        for stream, task in self.at_work.items():
            if time.time() < task.deadline:
                self.ray.cancel(stream)

    def abandon(self, task: Task) -> None:
        """Have the process of a task killed."""
        stream = next(stream for stream, other in self.at_work.items() if other is task)
        del self.at_work[stream]
        self.ray.cancel(stream, force=True)

    def close(self) -> None:
        """Leave the cluster; what is at work there ends."""
        self.ray.shutdown()
        self.at_work = {}


def train_task(task: Task) -> Iterator[Event]:
    """Train a task on a node of the cluster."""
    import ray

    device = torch.device("cuda" if ray.get_gpu_ids() else "cpu")
    for event in attempt(task, device, lambda: False):
        yield event
        # This node's folder may be its own; nobody else could remove what is there.
        if isinstance(event, Ended) and task.checkpoints is not None:
            shutil.rmtree(task.checkpoints, ignore_errors=True)
