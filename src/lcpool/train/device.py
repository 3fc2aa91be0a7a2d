"""The device to train on, and how many runs its memory holds as one."""

from __future__ import annotations

import gc
import math
import warnings
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TypeVar

import torch

from lcpool.data import GraphSet
from lcpool.models import Architecture, Backbone
from lcpool.settings import PROTOCOL, Setting
from lcpool.train.faults import is_out_of_memory
from lcpool.train.loop import initial_model, run_losses
from lcpool.train.protocol import Protocol, seeded
from lcpool.train.stack import CannotStackError, Single, as_one
from lcpool.train.tasks import TASKS

Item = TypeVar("Item")
Event = TypeVar("Event")

# The share of a GPU's memory to plan with; the estimate is not exact.
USABLE = 0.8
# On a CPU a larger stack gains little.
ON_A_CPU = 10
STACK = Setting(
    "stack", (int, type(None)), None, "The most runs to train as one.", PROTOCOL, least=1, example=5
)


def pick_device(device: str | torch.device | None) -> torch.device:
    """The given device, or else a GPU if there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = None
    with suppress(RuntimeError, TypeError):
        found = torch.device(device)
    if found is None or found.type not in ("cpu", "cuda"):
        raise ValueError(f"unknown device '{device}': choose cpu, cuda or cuda:N.")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device '{device}': torch sees {torch.cuda.device_count()} CUDA devices.")
    return found


def device_name(device: torch.device) -> str:
    """The name of a GPU, or "CPU"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def free_memory(device: torch.device) -> None:
    """Free cached memory, as other processes may share the GPU."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def stack_size(
    graphs: GraphSet,
    architecture: Architecture,
    protocol: Protocol,
    runs: int,
    limit: int | None = None,
    share: float = 1.0,
) -> int:
    """How many of ``runs`` runs to train as one: ``limit``, or as many as fit.

    On a CPU ten fit. On a GPU the memory decides that a step of one run takes on a batch of the
    largest graphs, and the ``share`` of all memory that this process may use.
    """
    limit = STACK.checked(limit)
    size = min(runs, limit or runs)
    if size == 1:
        return 1
    first, second = (initial_model(graphs, architecture, protocol, n) for n in (0, 1))
    try:
        as_one([first, second], graphs)
    except CannotStackError as error:
        warnings.warn(f"training one run at a time: {error}", stacklevel=3)
        return 1
    if limit is not None:
        return size
    if not graphs.x.is_cuda:
        return min(size, ON_A_CPU)
    one = step_memory(graphs, first, protocol)
    free, total = torch.cuda.mem_get_info(graphs.x.device)
    return max(1, min(size, int(USABLE * min(free, share * total) / max(one, 1))))


def step_memory(graphs: GraphSet, model: Backbone, protocol: Protocol) -> int:
    """Bytes of GPU memory that a training step of one run takes on the largest graphs."""
    device = graphs.x.device
    largest = graphs.node_counts.argsort(descending=True)[: protocol.batch_size]
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    batch = graphs.batch(largest)
    task = TASKS[graphs.task]
    with seeded(0, device):
        scale = task.scale(graphs.targets, [largest])
        loss = run_losses(Single(model.to(device))(batch, 1), batch, 1, task, scale)
        torch.autograd.backward(loss.sum())
    peak = torch.cuda.max_memory_allocated(device) - before
    del loss, batch
    torch.cuda.empty_cache()
    return peak


def in_stacks(
    wanted: Sequence[Item],
    size: int,
    train: Callable[[Sequence[Item]], Generator[Event, None, bool]],
    device: torch.device,
    halved: Callable[[int], Event],
    kind: Callable[[Item], Hashable],
) -> Generator[Event, None, bool]:
    """Train runs in stacks of at most ``size``, half as many where memory does not suffice.

    The runs of a stack are of one ``kind``, the number of their graphs: a stack takes the steps of
    all its runs together. Runs of another kind begin another stack.

    Yields what ``train`` yields for some runs as one, and ``halved(size)`` where a stack did not
    fit. Returns whether all runs were trained to their end: ``train`` returns False if stopped.
    """
    while wanted:
        part = list(next(groupby(wanted[:size], kind))[1])
        try:
            if not (yield from train(part)):
                return False
        except RuntimeError as error:
            if len(part) == 1 or not is_out_of_memory(error):
                raise
        else:
            wanted = wanted[len(part) :]
            continue
        # Outside the handler, nothing refers to the failed attempt any more.
        size = math.ceil(len(part) / 2)
        free_memory(device)
        yield halved(size)
    return True
