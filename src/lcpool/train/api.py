"""``train``: the paper's experiment on one dataset with one pooling."""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from lcpool.data import GraphSet, load_dataset
from lcpool.data.checks import warn_once
from lcpool.data.load import Graphs
from lcpool.data.splits import Scheme
from lcpool.models import Architecture
from lcpool.models.own import import_class
from lcpool.settings import RUNS, TaskName, by_name, flat, in_groups, takes_settings
from lcpool.train.checkpoint import Checkpoint, interrupt_later
from lcpool.train.device import device_name, in_stacks, pick_device, stack_size
from lcpool.train.final import check_installed
from lcpool.train.loop import Trainer, initial_model, training
from lcpool.train.model import Model, fingerprint
from lcpool.train.progress import OnEpoch, show_training
from lcpool.train.protocol import Protocol
from lcpool.train.result import Result
from lcpool.train.tasks import TASKS
from lcpool.train.tensors import load_tensors
from lcpool.words import count


@takes_settings
def train(
    dataset: Graphs,
    pool: str = Architecture.pool,
    backbone: str = Architecture.backbone,
    conv: str = Architecture.conv,
    runs: int = RUNS.default,
    *,
    splits: Any = None,
    task: TaskName | None = None,
    device: str | torch.device | None = None,
    stack: int | None = None,
    checkpoints: str | Path | None = None,
    keep_checkpoints: bool = False,
    root: str | Path | None = None,
    on_epoch: OnEpoch | None = None,
    progress: bool = False,
    **settings: Any,
) -> Result:
    """Train a network on a dataset by the paper's protocol, several runs as one.

    Args:
        dataset: what :func:`lcpool.data.load_dataset` takes: a name, a zip or folder, a
            :class:`~lcpool.data.GraphSet`, or graphs of PyG or networkx, tables or SMILES.
        pool: a pooling's paper name, or ``module:Class`` for your own.
        backbone: "hierarchical" or "plain".
        conv: "gcn", "graphconv", "gin" or "gine", or ``module:Class`` for your own.
        runs: number of runs, each with its own initial parameters and batch order.
        settings: the other settings of network and protocol.
        splits: predefined splits, as :func:`~lcpool.data.load_dataset` takes them; the runs use
            them one after the other (``split="predefined"``).
        task: what the targets are ("classes", "labels" or "values"), if it is not to be told from
            them: whole numbers are taken for classes.
        device: where to train; by default a GPU if there is one.
        stack: the most runs to train as one; by default as many as fit in memory.
        checkpoints: a folder to continue from after an interruption; by default none is written.
        keep_checkpoints: do not remove them at the end; ``result.remove_checkpoints()`` does.
        root: where to look for the dataset.
        on_epoch: called after each epoch with the trainer.
        progress: show progress on stderr: a table in a terminal, lines elsewhere.

    Example:
        >>> result = train("builtin", "topkpool", runs=2, epochs=1, hidden=8, device="cpu")
        >>> len(result.accuracies()), result.model.predict(load_dataset("builtin")).shape[0] > 0
        (2, True)
    """
    if splits is not None:
        settings = with_predefined(settings)
    said = by_name({"backbone": backbone, "conv": conv, "pool": pool, **settings}, plurals=False)
    network, protocol = in_groups({name: value for name, (_, value) in said.items()})
    architecture, how = Architecture(**network), Protocol(**protocol)
    numbers = range(RUNS.checked(runs))
    graphs = load_dataset(dataset, root=root, splits=splits, task=task)
    warn_of_unused(graphs.name, graphs.num_edge_features > 0, bool(graphs.splits),
                   [(architecture, how)])  # fmt: skip
    place = pick_device(device)
    begins = (
        f"{graphs.name}: {len(graphs):,} graphs; {count(len(numbers), 'run')} of "
        f"{architecture.pool} on {place}"
    )
    with show_training(progress, len(numbers), on_epoch, begins) as watch:
        result = train_runs(graphs, architecture, how, numbers, place, stack, checkpoints, watch)
    if not keep_checkpoints:
        result.remove_checkpoints()
    return result


def with_predefined(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of which ``split`` is "predefined", as it must be where splits are passed."""
    if (said := settings.get("split", "predefined")) not in ("predefined", ["predefined"]):
        raise ValueError(f"splits were passed, but split={said!r}: leave one of them out.")
    return {**settings, "split": "predefined"}


def train_runs(
    graphs: GraphSet,
    architecture: Architecture,
    protocol: Protocol,
    numbers: Sequence[int],
    device: torch.device,
    stack: int | None = None,
    checkpoints: str | Path | None = None,
    on_epoch: OnEpoch | None = None,
) -> Result:
    """Train the runs ``numbers`` of one network, in stacks of at most ``stack``.

    Checkpoints stay until ``result.remove_checkpoints()``.
    """
    check_targets(graphs, protocol.metric)
    protocol = protocol.on(graphs, max(numbers) + 1)
    splits = {number: protocol.split_of(graphs, number) for number in numbers}
    graphs = graphs.to(device)
    size = stack_size(graphs, architecture, protocol, len(numbers), stack)
    identity = {
        "format": 4,
        "dataset": graphs.name,
        "graphs": None if checkpoints is None else fingerprint(graphs),
        "settings": flat(architecture, protocol),
        "code": own_code(architecture),
    }
    if architecture.reads_edge_attr and checkpoints is not None:
        identity["edge_attr"] = edge_fingerprint(graphs)
    begun: list[Checkpoint] = []
    finished: list[Trainer] = []
    with interrupt_later() as interrupted:

        def train_stack(part: Sequence[int]) -> Generator[Trainer | int, None, bool]:
            begun.append(Checkpoint(checkpoints, {**identity, "runs": list(part)}))
            trainer = Trainer(graphs, architecture, protocol, part, [splits[n] for n in part])
            yield from training(trainer, begun[-1], warnings.warn, interrupted)
            if trainer.tested:
                finished.append(trainer)
            return trainer.tested

        sizes = {number: split.sizes for number, split in splits.items()}
        for event in in_stacks(numbers, size, train_stack, device, int, sizes.__getitem__):
            if isinstance(event, int):
                size = event
                warnings.warn(f"memory is too small: training {size} runs as one", stacklevel=2)
            elif on_epoch is not None:
                on_epoch(event)
        if interrupted():  # The last epoch is complete in any case.
            raise KeyboardInterrupt
    return Result(
        dataset=graphs.name,
        architecture=architecture,
        protocol=protocol,
        runs=sorted((run for one in finished for run in one.runs), key=lambda run: run.number),
        seconds=sum(trainer.seconds for trainer in finished),
        device=device_name(device),
        stack=min(size, max(len(trainer.runs) for trainer in finished)),
        best=best_model(graphs, architecture, finished),
        checkpoints=begun,
    )


def best_model(
    graphs: GraphSet, architecture: Architecture, trainers: list[Trainer]
) -> Model | None:
    """The best run's network by the metric, at its chosen epoch; None if all diverged."""
    candidates = [
        (trainer.runs[position].choices[trainer.metric.name].cost, trainer, position)
        for trainer in trainers
        for position, run in enumerate(trainer.runs)
        if not run.lost
    ]
    if not candidates:
        return None
    _, trainer, position = min(candidates, key=lambda c: c[0])
    number, metric = trainer.runs[position].number, trainer.metric.name
    network = initial_model(graphs, architecture, trainer.protocol, number)
    chosen = trainer.best[metric]
    load_tensors(network, {name: value[position] for name, value in chosen.items()})
    return replace(
        Model.of(network.to(graphs.x.device), graphs),
        metric=metric,
        scale=None if trainer.scale is None else trainer.scale[position].cpu(),
        run=number,
        split=trainer.splits[position],
    )


def check_targets(graphs: GraphSet, metric: str = "auto") -> None:
    """Refuse graphs from which nothing can be learnt, and a metric that does not fit them."""
    check_installed()
    task = TASKS[graphs.task]
    task.check(graphs)
    try:
        task.metric(metric)
    except ValueError as error:
        raise ValueError(f"{graphs.name}: {error}") from error


def warn_of_unused(
    name: str, attributes: bool, splits: bool, wanted: Iterable[tuple[Architecture, Protocol]]
) -> None:
    """Say once which edge attributes and splits of a dataset no training makes use of."""
    networks, protocols = zip(*wanted, strict=True)
    if attributes and not any(network.reads_edge_attr for network in networks):
        convs = " and ".join(dict.fromkeys(network.conv for network in networks))
        warn_once(
            f"{name}: its edge attributes (edge labels) are not read by {convs}, which sees only "
            f"which nodes are connected. conv='gine' (--conv gine) reads them, and so does a "
            f"convolution of your own with the argument edge_attr."
        )
    schemes = dict.fromkeys(Scheme.of(protocol.split) for protocol in protocols)
    if splits and not any(scheme.kind == "predefined" for scheme in schemes):
        names = " and ".join(scheme.name for scheme in schemes)
        warn_once(
            f"{name}: it has predefined splits, which are not used ({names}): --split predefined "
            f"(split='predefined') trains on them."
        )


def edge_fingerprint(graphs: GraphSet) -> str:
    """A digest of the edge attributes, for networks that read them; "" if there are none."""
    if graphs.edge_attr is None or not graphs.num_edge_features:
        return ""
    return hashlib.sha256(graphs.edge_attr.cpu().contiguous().numpy().tobytes()).hexdigest()


def own_code(architecture: Architecture) -> str:
    """Digests of the files that define the user's own classes; "" without any.

    After a file has changed, a training is not continued from an older checkpoint.
    """
    return "".join(map(_code, architecture.own_classes))


def _code(name: str) -> str:
    try:
        source = Path(inspect.getfile(import_class(name))).read_bytes()
    except (OSError, TypeError):  # Defined in an interpreter, not in a file.
        return ""
    return hashlib.sha256(source).hexdigest()
