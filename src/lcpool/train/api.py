"""``train``: a dataset and a pooling in, the paper's experiment out."""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from lcpool.data import GraphSet, load_dataset
from lcpool.models import Architecture
from lcpool.models.pooling import import_class
from lcpool.settings import RUNS, by_name, flat, in_groups, takes_settings
from lcpool.train.checkpoint import Checkpoint, interrupt_later
from lcpool.train.device import device_name, pick_device
from lcpool.train.loop import Trainer, initial_model
from lcpool.train.memory import stack_size
from lcpool.train.progress import show_training
from lcpool.train.protocol import Protocol
from lcpool.train.result import Model, Result
from lcpool.train.tensors import take_over
from lcpool.train.training import Halved, in_stacks, training

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
    progress: bool = False,
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
        progress: show on stderr how it goes on: a table in a terminal, lines elsewhere.

    Example:
        >>> result = train("builtin", "topkpool", runs=2, epochs=1, hidden=8, device="cpu")
        >>> len(result.accuracies()), result.model.predict(load_dataset("builtin")).shape[0] > 0
        (2, True)
    """
    said = by_name({"backbone": backbone, "conv": conv, "pool": pool, **settings}, plurals=False)
    network, protocol = in_groups({name: value for name, (_, value) in said.items()})
    architecture, how = Architecture(**network), Protocol(**protocol)
    numbers = range(RUNS.checked(runs))
    graphs = load_dataset(dataset, root=root)
    folder = None if checkpoints is None else Path(checkpoints)
    with show_training(progress, len(numbers), on_epoch) as watch:
        return train_runs(
            graphs, architecture, how, numbers, pick_device(device), stack, folder, watch
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
        raise ValueError(f"{graphs.name} has {classes_of(graphs)}; training needs two classes.")
    graphs = graphs.to(device)
    size = stack_size(graphs, architecture, protocol, len(numbers), stack)
    finished: list[tuple[Trainer, Checkpoint]] = []
    with interrupt_later() as interrupted:

        def begin(part: Sequence[int]) -> _Stack:
            checkpoint = _checkpoint(graphs, architecture, protocol, part, checkpoints)
            make = partial(Trainer, graphs, architecture, protocol, part)
            return _Stack(make, checkpoint, interrupted, finished)

        for said in in_stacks(numbers, size, begin, device):
            if isinstance(said, Halved):
                size = said.stack
                warnings.warn(f"memory is too small: training {size} runs as one", stacklevel=2)
            elif on_epoch is not None:
                on_epoch(said)
        if interrupted():  # whenever it was, the last epoch is whole
            raise KeyboardInterrupt
    trainers = [trainer for trainer, _ in finished]
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
    for _, checkpoint in finished:
        checkpoint.remove()
    return result


@dataclass
class _Stack:
    """Some runs of the cell that are trained as one; enters itself among the finished."""

    make: Callable[[], Trainer]
    checkpoint: Checkpoint
    asked_to_stop: Callable[[], bool]
    finished: list[tuple[Trainer, Checkpoint]]

    def train(self) -> Generator[Trainer, None, bool]:
        """Train to the end; the trainer after each epoch."""
        trainer = self.make()
        yield from training(trainer, self.checkpoint, _warn, self.asked_to_stop)
        if trainer.tested:
            self.finished.append((trainer, self.checkpoint))
        return trainer.tested


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=2)


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


def classes_of(graphs: GraphSet) -> str:
    """How many classes there are, in words."""
    return {0: "no labels (y)", 1: "one class"}.get(
        graphs.num_classes, f"{graphs.num_classes} classes"
    )


def fingerprint(graphs: GraphSet) -> str:
    """A digest of what is in the graphs, not only of how many there are."""
    digest = hashlib.sha256()
    for column in (graphs.x, graphs.edge_index, graphs.node_ptr, graphs.edge_ptr, graphs.targets):
        digest.update(str(tuple(column.shape)).encode())
        digest.update(column.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _checkpoint(
    graphs: GraphSet,
    architecture: Architecture,
    protocol: Protocol,
    numbers: Sequence[int],
    folder: Path | None,
) -> Checkpoint:
    if folder is None:
        return Checkpoint(None, {})
    identity = {
        "format": 2,
        "dataset": graphs.name,
        "graphs": fingerprint(graphs),
        "settings": flat(architecture, protocol),
        "code": pooling_code(architecture.pool),
        "runs": list(numbers),
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
