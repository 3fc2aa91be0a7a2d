"""The engine of many machines: a Ray cluster, with lcpool installed on each of them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import torch

from lcpool.sweep.engine import Ended, EngineError, Event, Failed, Happened, Last, Stopped, Task
from lcpool.sweep.engines.execute import attempt

RECOUNT = 5.0  # seconds between two counts of the cluster's nodes
ABSENT = 120.0  # seconds to wait for a node to come back


class RayEngine:
    """Tasks on a Ray cluster; those that die with a node are trained again on another.

    ``address`` is as for ``ray.init``; ``cpus`` and ``gpus`` are per task, a fraction is a share.
    """

    def __init__(self, address: str | None, cpus: float, gpus: float) -> None:
        try:
            import ray
        except ModuleNotFoundError as missing:
            raise ValueError("the engine 'ray' needs Ray: pip install 'lcpool[ray]'") from missing
        if cpus <= 0 or gpus < 0:
            raise ValueError(
                f"--cpus must be above 0 and --gpus at least 0, not {cpus} and {gpus}."
            )
        self.ray, self.needs = ray, {"CPU": cpus, "GPU": gpus}
        self.share = gpus if 0 < gpus < 1 else 1.0
        try:
            ray.init(address, log_to_driver=False, logging_level="error", ignore_reinit_error=True)
        except (ConnectionError, ValueError) as error:
            raise EngineError(f"no Ray cluster at {address}: {error}") from error
        # Ray must not repeat a task by itself: the sweep counts failures and decides.
        self.remote = ray.remote(
            num_cpus=cpus, num_gpus=gpus, max_retries=0, num_returns="streaming"
        )(train_task)
        self.at_work: dict[Any, Task] = {}
        self._seen = time.monotonic()
        self._count_slots()
        if self.slots == 0:
            ray.shutdown()
            raise EngineError(
                f"no node of the Ray cluster has {cpus:g} CPUs and {gpus:g} GPUs for a job."
            )

    def _count_slots(self) -> None:
        """How many tasks fit on the nodes that are alive."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        needs = [(kind, number) for kind, number in self.needs.items() if number]
        rooms = (min(node.get(kind, 0) / number for kind, number in needs) for node in nodes)
        self.slots = sum(int(room + 1e-6) for room in rooms)  # 0.3 / 0.1 is less than 3
        self._counted = time.monotonic()
        if self.slots:
            self._seen = self._counted

    def submit(self, task: Task) -> None:
        self.at_work[self.remote.remote(task)] = task

    def events(self, timeout: float) -> list[Happened]:
        if time.monotonic() - self._counted >= RECOUNT:
            self._count_slots()
        if time.monotonic() - self._seen > ABSENT:
            raise EngineError("no node is left in the Ray cluster.")
        if not self.at_work:
            time.sleep(timeout)
            return []
        streams = list(self.at_work)
        if not self.ray.wait(streams, num_returns=1, timeout=timeout)[0]:
            return []
        ready, _ = self.ray.wait(streams, num_returns=len(streams), timeout=0)
        happened: list[Happened] = []
        for stream in ready:
            event = self._event(stream)
            happened.append((self.at_work[stream], event))
            if isinstance(event, Last):
                del self.at_work[stream]
        return happened

    def _event(self, stream: Any) -> Event:
        from ray import exceptions

        try:
            event: Event = self.ray.get(next(stream))
        except StopIteration:
            return Failed("the task ended without a result")
        except exceptions.TaskCancelledError:
            return Stopped()
        except exceptions.NodeDiedError as error:
            self._count_slots()
            return Failed(f"its node died: {error}", counts=False)
        except exceptions.RayError as error:
            return Failed(str(error))
        return event

    def stop(self) -> None:
        """Cancel what would not stop by its deadline; it continues from its last checkpoint."""
        for stream, task in self.at_work.items():
            if time.time() < task.deadline:
                self.ray.cancel(stream)

    def abandon(self, task: Task) -> None:
        stream = next(stream for stream, other in self.at_work.items() if other is task)
        del self.at_work[stream]
        self.ray.cancel(stream, force=True)

    def close(self) -> None:
        self.ray.shutdown()
        self.at_work = {}


def train_task(task: Task) -> Iterator[Event]:
    """Train a task on a node of the cluster."""
    import ray

    device = torch.device("cuda" if ray.get_gpu_ids() else "cpu")
    for event in attempt(task, device, lambda: False):
        yield event
        # The folder may be local to this node, where only this task can remove it.
        if isinstance(event, Ended) and task.checkpoints is not None:
            shutil.rmtree(task.checkpoints, ignore_errors=True)
