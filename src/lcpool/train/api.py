"""``train``: a dataset and a pooling in, the paper's experiment out."""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from lcpool.data import GraphSet, load_dataset
from lcpool.models import Architecture, Backbone
from lcpool.models.pooling import import_class
from lcpool.settings import RUNS, by_name, flat, in_groups, takes_settings
from lcpool.train.checkpoint import Checkpoint, interrupt_later
from lcpool.train.loop import Trainer, initial_model, run_losses
from lcpool.train.protocol import Protocol
from lcpool.train.result import Model, Result
from lcpool.train.seeding import seeded
from lcpool.train.stacked import CannotStackError, Single, Stack
from lcpool.train.tensors import take_over

OnEpoch = Callable[[Trainer], None]


@takes_settings
def train(
    dataset: str | Path | GraphSet | Iterable[Data],
    pool: str = Architecture.pool,
    backbone: str = Architecture.backbone,
    conv: str = Architecture.conv,
    runs: int = RUNS.default,
    *,
    device: str | torch.device | None = None,
    stack: int | None = None,
    checkpoints: str | Path | None = None,
    root: str | Path | None = None,
    on_epoch: OnEpoch | None = None,
    **settings: Any,
) -> Result:
    """Train a network on a dataset by the paper's protocol, several runs as one.

    Args:
        dataset: a TU name, a zip or folder, "builtin", a :class:`GraphSet`, or PyG graphs.
        pool: a pooling's paper name, or ``module:Class`` for one of your own.
        backbone: "hierarchical" or "plain".
        conv: "gcn" or "graphconv".
        runs: how many runs, each with its own first parameters and order.
        settings: what else there is to set about network and protocol.
        device: where to train; a GPU if there is one.
        stack: the most runs to train as one; by default as many as fit in memory.
        checkpoints: a folder to continue from after an interruption; without one, none is kept.
        root: where to look for the dataset.
        on_epoch: called after each epoch with the trainer.

    Example:
        >>> result = train("builtin", "topkpool", runs=2, epochs=1, hidden=8, device="cpu")
        >>> len(result.accuracies()), result.model.predict(load_dataset("builtin")).shape[0] > 0
        (2, True)
    """
    said = by_name({"backbone": backbone, "conv": conv, "pool": pool, **settings}, plurals=False)
    network, protocol = in_groups({name: value for name, (_, value) in said.items()})
    architecture, how = Architecture(**network), Protocol(**protocol)
    numbers = range(RUNS.checked(runs))
    graphs = dataset if isinstance(dataset, GraphSet) else load_dataset(dataset, root=root)
    folder = None if checkpoints is None else Path(checkpoints)
    return train_runs(
        graphs, architecture, how, numbers, pick_device(device), stack, folder, on_epoch
    )


def train_runs(
    graphs: GraphSet,
    architecture: Architecture,
    protocol: Protocol,
    numbers: Sequence[int],
    device: torch.device,
    stack: int | None = None,
    checkpoints: Path | None = None,
    on_epoch: OnEpoch | None = None,
) -> Result:
    """Train the runs ``numbers`` of one cell, in stacks of at most ``stack``."""
    if graphs.num_classes < 2:
        raise ValueError(f"{graphs.name} has {graphs.num_classes} classes; training needs two.")
    graphs = graphs.to(device)
    size = stack_size(graphs, architecture, protocol, len(numbers), stack)
    trainers, finished = [], []
    for start in range(0, len(numbers), size):
        part = numbers[start : start + size]
        trainer = Trainer(graphs, architecture, protocol, part)
        checkpoint = _checkpoint(trainer, architecture, checkpoints)
        train_to_the_end(trainer, checkpoint, on_epoch)
        finished.append(checkpoint)
        trainers.append(trainer)
    result = Result(
        dataset=graphs.name,
        architecture=architecture,
        protocol=protocol,
        runs=[run for trainer in trainers for run in trainer.runs],
        seconds=sum(trainer.seconds for trainer in trainers),
        device=device_name(device),
        stack=size,
        best=best_model(graphs, architecture, trainers),
    )
    for checkpoint in finished:
        checkpoint.remove()
    return result


def train_to_the_end(
    trainer: Trainer, checkpoint: Checkpoint, on_epoch: OnEpoch | None = None
) -> None:
    """Train until every run has ended, and test; continue from the checkpoint if there is one."""
    saved = checkpoint.load(trainer.graphs.x.device)
    if saved is not None:
        trainer.load_state(saved)
    with interrupt_later() as interrupted:
        while not (trainer.ended or interrupted()):
            trainer.train_epoch()
            checkpoint.save(trainer.state, now=trainer.ended)
            if on_epoch is not None:
                on_epoch(trainer)
        if interrupted():  # whenever it was, the last epoch is whole
            checkpoint.save(trainer.state, now=True)
            raise KeyboardInterrupt
    trainer.test()


def stack_size(
    graphs: GraphSet,
    architecture: Architecture,
    protocol: Protocol,
    runs: int,
    limit: int | None,
) -> int:
    """How many runs to train as one.

    By default as many as fit: on a GPU, by the memory that a step of one run takes on the batch of
    the largest graphs; on a CPU, where a stack gains little beyond that, ten.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"'stack' must be at least 1, not {limit}.")
    size = min(runs, limit or runs)
    if size == 1:
        return 1
    try:
        with seeded(0):
            Stack([initial_model(graphs, architecture, protocol, 0)])
    except CannotStackError as error:
        warnings.warn(f"training one run at a time: {error}", stacklevel=3)
        return 1
    if limit is not None:
        return size
    if graphs.x.is_cuda:
        one = step_memory(graphs, initial_model(graphs, architecture, protocol, 0), protocol)
        free, _ = torch.cuda.mem_get_info(graphs.x.device)
        fit = int(0.8 * free / max(one, 1))
    else:
        fit = 10
    return max(1, min(size, fit))


def step_memory(graphs: GraphSet, model: Backbone, protocol: Protocol) -> int:
    """The most bytes of GPU memory that a training step of one run can take."""
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


def best_model(
    graphs: GraphSet, architecture: Architecture, trainers: list[Trainer]
) -> Model | None:
    """The network of the run with the best validation accuracy, at the epoch it was reached.

    A run that diverged before any epoch was chosen is no candidate; None where all did.
    """
    candidates = [
        (run.choices["accuracy"], trainer, position)
        for trainer in trainers
        for position, run in enumerate(trainer.runs)
        if not run.lost
    ]
    if not candidates:
        return None
    _, trainer, position = max(candidates, key=lambda c: (c[0].accuracy, -c[0].loss))
    number = trainer.runs[position].number
    network = initial_model(graphs, architecture, trainer.protocol, number)
    chosen = trainer.best["accuracy"]
    take_over(network, {name: value[position] for name, value in chosen.items()})
    return Model.of(network.to(graphs.x.device), graphs)


def fingerprint(graphs: GraphSet) -> str:
    """A digest of what is in the graphs, not only of how many there are."""
    digest = hashlib.sha256()
    for column in (graphs.x, graphs.edge_index, graphs.node_ptr, graphs.edge_ptr, graphs.y):
        digest.update(str(tuple(column.shape)).encode())
        digest.update(column.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _checkpoint(trainer: Trainer, architecture: Architecture, folder: Path | None) -> Checkpoint:
    if folder is None:
        return Checkpoint(None, {})
    identity = {
        "format": 2,
        "dataset": trainer.graphs.name,
        "graphs": fingerprint(trainer.graphs),
        "settings": flat(architecture, trainer.protocol),
        "code": pooling_code(architecture.pool),
        "runs": [run.number for run in trainer.runs],
    }
    return Checkpoint(folder, identity)


def pooling_code(name: str) -> str:
    """A digest of the file that a pooling of the user's own is written in; "" for others.

    While they work on it, the training of an older version is not to be continued.
    """
    if ":" not in name:
        return ""
    try:
        source = Path(inspect.getfile(import_class(name))).read_bytes()
    except (OSError, TypeError):  # written into an interpreter, not into a file
        return ""
    return hashlib.sha256(source).hexdigest()


def pick_device(device: str | torch.device | None) -> torch.device:
    """The device that was asked for, or a GPU if there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = torch.device(device)
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device '{device}' was asked for, but torch sees no CUDA device.")
    return found


def device_name(device: torch.device) -> str:
    """The device in words."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
