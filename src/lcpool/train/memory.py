"""How many runs fit in memory as one."""

from __future__ import annotations

import warnings

import torch

from lcpool.data import GraphSet
from lcpool.models import Architecture, Backbone
from lcpool.train.loop import initial_model, run_losses
from lcpool.train.protocol import Protocol
from lcpool.train.seeding import seeded
from lcpool.train.stack import CannotStackError, Single, Stack

# The share of a GPU's memory to plan with; the estimate is not exact.
USABLE = 0.8
# On a CPU a larger stack gains little.
ON_A_CPU = 10


def stack_size(
    graphs: GraphSet,
    architecture: Architecture,
    protocol: Protocol,
    runs: int,
    limit: int | None = None,
    share: float = 1.0,
) -> int:
    """How many of ``runs`` runs to train as one.

    By default as many as fit: on a GPU, by the memory that a step of one run takes on a batch of
    the largest graphs; on a CPU, ten.

    Args:
        graphs: the data, on the device to train on.
        architecture: the network.
        protocol: how it is trained.
        runs: the number of runs to train.
        limit: the most to train as one, instead of what fits.
        share: the share of a GPU's memory that this process may use.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"'stack' must be at least 1, not {limit}.")
    size = min(runs, limit or runs)
    if size == 1:
        return 1
    try:
        Stack.tried([initial_model(graphs, architecture, protocol, n) for n in (0, 1)], graphs)
    except CannotStackError as error:
        warnings.warn(f"training one run at a time: {error}", stacklevel=3)
        return 1
    if limit is not None:
        return size
    if not graphs.x.is_cuda:
        return min(size, ON_A_CPU)
    one = step_memory(graphs, initial_model(graphs, architecture, protocol, 0), protocol)
    free, total = torch.cuda.mem_get_info(graphs.x.device)
    return max(1, min(size, int(USABLE * min(free, share * total) / max(one, 1))))


def step_memory(graphs: GraphSet, model: Backbone, protocol: Protocol) -> int:
    """Bytes of GPU memory that a training step of one run takes on the largest graphs."""
    device = graphs.x.device
    largest = graphs.node_counts.argsort(descending=True)[: protocol.batch_size]
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    batch = graphs.batch(largest)
    with seeded(0, device):
        loss = run_losses(Single(model.to(device))(batch, 1), batch, 1)
        torch.autograd.backward(loss.sum())
    peak = torch.cuda.max_memory_allocated(device) - before
    del loss, batch
    torch.cuda.empty_cache()
    return peak
