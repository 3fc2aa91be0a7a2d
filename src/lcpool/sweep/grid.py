"""The grid of an experiment: datasets, cells, and the jobs that train them."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lcpool.data import GraphSet, Split, load_dataset
from lcpool.data.load import Graphs, is_path, read_dataset
from lcpool.data.splits import MIN_GRAPHS, digest, resolved
from lcpool.data.targets import with_task
from lcpool.models import Architecture
from lcpool.settings import (
    BACKBONES,
    PAPER_CONVS,
    POOLS,
    RUNS,
    SETTINGS,
    MetricName,
    Setting,
    TaskName,
    by_name,
    config_text,
    flat,
    in_groups,
    labels,
    read_config_text,
    unnamed,
)
from lcpool.sweep.columns import OF_CELL
from lcpool.train import Protocol
from lcpool.train.api import check_targets, edge_fingerprint, own_code, warn_of_unused
from lcpool.train.model import fingerprint
from lcpool.train.tasks import TASKS

PAPER_DATASETS = ("PROTEINS", "ENZYMES", "Mutagenicity", "DD", "NCI1", "COX2")


@dataclass(frozen=True)
class Dataset:
    """A reference to a dataset, with a digest of its contents."""

    name: str
    digest: str
    source: str | GraphSet = field(compare=False, repr=False)  # a name, a path, or the graphs
    root: str | None = field(compare=False, default=None, repr=False)  # where to look for a name
    task: TaskName = field(compare=False, default="classes")  # what is predicted
    edge_digest: str = field(default="", repr=False)  # of the edge attributes, if known
    splits: str = ""  # a digest of its predefined splits, if it has any
    # Splits that were passed, where the source itself has none or others.
    passed: tuple[Split, ...] = field(compare=False, default=(), repr=False)

    @classmethod
    def of(
        cls,
        source: Graphs,
        root: str | Path | None = None,
        name: str | None = None,
        splits: Any = None,
        task: TaskName | None = None,
    ) -> Dataset:
        """Read a dataset and refer to it; ``name``, ``splits`` and ``task`` replace its own."""
        graphs = load_dataset(source, root=root, name=name, splits=splits, task=task)
        if len(graphs) < MIN_GRAPHS:
            raise ValueError(f"{graphs.name} has {len(graphs)} graphs; a split needs {MIN_GRAPHS}.")
        check_targets(graphs)
        lasting: str | GraphSet = graphs
        if isinstance(source, str | os.PathLike):  # A bare word is a name; a path becomes absolute.
            lasting = os.fspath(source)
            if is_path(lasting):
                lasting = str(Path(source).expanduser().absolute())
        folder = None if root is None else str(Path(root).expanduser().absolute())
        passed = () if splits is None else graphs.splits
        return cls(
            graphs.name, fingerprint(graphs), lasting, folder, graphs.task,
            edge_fingerprint(graphs), digest(graphs.splits), passed,
        )  # fmt: skip

    def load(self) -> GraphSet:
        """The graphs, with the name and the splits they have here."""
        graphs = with_task(read_dataset(self.source, root=self.root), self.task)
        same_edges = self.edge_digest in ("", edge_fingerprint(graphs))
        if fingerprint(graphs) != self.digest or not same_edges:
            raise ValueError(f"{self.name} ({self.source}) has changed: its graphs differ.")
        return replace(graphs, name=self.name, splits=self.passed or graphs.splits)

    def scheme(self, name: str, runs: int) -> str:
        """The setting ``split`` on this data; an error if its graphs cannot be split like that."""
        if name in ("fresh", "shared"):  # which any data can; reading it takes time
            return name
        return resolved(self.load(), name, runs)


@dataclass(frozen=True)
class Cell:
    """A dataset, a network and a protocol, of which there are several runs."""

    dataset: Dataset
    # Compared by their text: a ratio of 1 (one node) and of 1.0 (all nodes) are equal numbers.
    architecture: Architecture = field(compare=False)
    protocol: Protocol = field(compare=False)
    config: str = field(init=False, repr=False)  # both as canonical JSON

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", config_text(self.architecture, self.protocol))

    @cached_property
    def code(self) -> str:
        """A digest of the files of a user's classes; empty without any, and if one is not found."""
        try:
            return own_code(self.architecture)
        except ValueError:  # It cannot be imported, which its training will report.
            return ""

    @cached_property
    def id(self) -> str:
        """A digest of the configuration, of the dataset's contents and of a user's classes."""
        data = self.dataset.digest
        if self.architecture.reads_edge_attr:
            data += self.dataset.edge_digest
        text = json.dumps([self.dataset.name, data, self.config, self.code])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a table of runs that are the same for all runs of this cell."""
        known = flat(self.architecture, self.protocol)
        known |= {"dataset": self.dataset.name, "config": self.config}
        return {column.name: known[column.name] for column in OF_CELL}

    @property
    def names(self) -> tuple[str, str, str, str]:
        """Dataset, backbone, convolution, pooling."""
        a = self.architecture
        return self.dataset.name, a.backbone, a.conv, a.pool

    @property
    def settings(self) -> dict[str, Any]:
        """The settings without names and split."""
        return unnamed(flat(self.architecture, self.protocol))


def read_config(text: str) -> tuple[Architecture, Protocol]:
    """Network and protocol from what :func:`lcpool.settings.config_text` wrote."""
    network, protocol = in_groups(read_config_text(text))
    return Architecture(**network), Protocol(**protocol)


DATASET = Setting(
    "dataset", (str, Path, Dataset), "builtin", "TU names or paths.", "What to compare",
    plural="datasets", example="PROTEINS",
)  # fmt: skip
# All settings of a grid.
KNOWN = {**SETTINGS, "runs": RUNS, "dataset": DATASET}


Wanted = tuple[tuple[Cell, int], ...]  # cells with the numbers of their runs


@dataclass(frozen=True)
class Job:
    """Runs that are trained together: of one cell, or of cells that differ in split and backbone.

    ``label`` has the settings that distinguish it from other jobs of the same names.
    """

    wanted: Wanted
    label: str = field(compare=False, default="")

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(dict.fromkeys(cell for cell, _ in self.wanted))

    @property
    def split(self) -> str:
        return "+".join(dict.fromkeys(cell.protocol.split for cell in self.cells))

    @property
    def names(self) -> tuple[str, ...]:
        """Dataset, backbone or backbones, convolution, pooling."""
        columns = zip(*(cell.names for cell in self.cells), strict=True)
        return tuple("+".join(dict.fromkeys(column)) for column in columns)

    def __str__(self) -> str:
        label = [f"({self.label})"] if self.label else []
        return " ".join((*self.names, *label, self.split))


@dataclass(frozen=True)
class Grid:
    """A grid of cells with ``runs`` runs each: the product of the values of all settings."""

    datasets: tuple[str | Path | Dataset, ...]
    runs: int
    settings: Mapping[str, tuple[Any, ...]]

    @classmethod
    def of(cls, **values: Any) -> Grid:
        """A grid from settings.

        Args:
            values: ``datasets``, ``runs``, and any setting by its name or plural, each with one
                value or a list. Others have their default; ``pool`` is all of the paper's.

        Example:
            >>> grid = Grid.of(pools=["lcpool", "topkpool"], ratio=[0.25, 0.5], runs=3)
            >>> grid.settings["ratio"], grid.settings["hidden"]
            ((0.25, 0.5), (128,))
        """
        said = by_name(values, KNOWN)
        _, runs = said.pop("runs", ("runs", RUNS.default))
        written, datasets = said.pop("dataset", ("datasets", DATASET.default))
        default = {**{name: (one.default,) for name, one in SETTINGS.items()}, "pool": POOLS}
        given = {name: SETTINGS[name].several(value, word) for name, (word, value) in said.items()}
        return cls(DATASET.several(datasets, written), RUNS.checked(runs), {**default, **given})

    @classmethod
    def paper(cls) -> dict[str, Any]:
        """The settings of the paper's grid: 6 × 2 × 2 × 8 cells of ten runs, on one split each."""
        networks = {"backbone": BACKBONES, "conv": PAPER_CONVS}
        return {"dataset": PAPER_DATASETS, **networks, "split": "shared"}

    def configurations(self) -> list[tuple[Architecture, Protocol]]:
        """Every different combination of settings, the first setting outermost."""
        found: dict[str, tuple[Architecture, Protocol]] = {}
        for values in itertools.product(*self.settings.values()):
            groups = in_groups(dict(zip(self.settings, values, strict=True)))
            network, protocol = Architecture(**groups[0]), Protocol(**groups[1])
            # What a pooling does not read has its default: a grid over `hops` has one cell without
            # pooling, not several equal ones.
            unread = [one for one in SETTINGS.values() if not one.read_by(network.pool)]
            network = replace(network, **{one.name: one.default for one in unread})
            found.setdefault(config_text(network, protocol), (network, protocol))
        return list(found.values())

    def cells(self, datasets: Mapping[Any, Dataset]) -> list[Cell]:
        """Every cell, datasets outermost; ``datasets`` maps :attr:`datasets` to what they are."""
        pairs = itertools.product(self.datasets, self.configurations())
        return [Cell(datasets[dataset], *configuration) for dataset, configuration in pairs]


def make_jobs(
    grids: Iterable[Grid],
    root: str | Path | None = None,
    stack: int | None = None,
    task: TaskName | None = None,
) -> list[Job]:
    """The jobs of some grids: every run once, cells that can share a stack in one job.

    Cells with more than ``stack`` runs in all are several jobs, which workers can train at the
    same time. ``root`` is a folder to look for datasets in, and ``task`` says what their targets
    are, if it is not to be told from them.
    """
    alike: dict[tuple[Dataset, str], dict[Cell, int]] = {}
    loaded: dict[Any, Dataset] = {}
    for grid in grids:
        for source in grid.datasets:
            if source not in loaded:
                loaded[source] = (
                    source if isinstance(source, Dataset) else Dataset.of(source, root, task=task)
                )
        schemes = {
            (loaded[source], name): loaded[source].scheme(name, grid.runs)
            for source, name in itertools.product(grid.datasets, grid.settings["split"])
        }
        for asked in grid.cells(loaded):
            scheme = schemes[asked.dataset, asked.protocol.split]
            metric = _metric(asked)
            cell = replace(asked, protocol=replace(asked.protocol, split=scheme, metric=metric))
            network = cell.architecture
            if network.backbone in BACKBONES:  # One class makes both; another's are jobs apart.
                network = replace(network, backbone="hierarchical")
            key = config_text(network, replace(cell.protocol, split="shared"))
            runs = alike.setdefault((cell.dataset, key), {})
            runs[cell] = max(grid.runs, runs.get(cell, 0))
    for one, other in itertools.combinations(loaded.values(), 2):
        if one.name == other.name and one != other:
            raise ValueError(f"two different datasets are called {one.name}: rename one.")
    for dataset in dict.fromkeys(loaded.values()):
        cells = [cell for runs in alike.values() for cell in runs if cell.dataset == dataset]
        wanted = [(cell.architecture, cell.protocol) for cell in cells]
        warn_of_unused(dataset.name, bool(dataset.edge_digest), bool(dataset.splits), wanted)
    found = [job for runs in alike.values() for job in _jobs(runs, stack)]
    words = labels([job.cells[0].settings for job in found])
    return [replace(job, label=label) for job, label in zip(found, words, strict=True)]


def _metric(cell: Cell) -> MetricName:
    """The setting ``metric`` of a cell: "auto" also where its task's default was named.

    Otherwise the same runs would be trained twice and counted twice. A metric that does not fit
    the dataset is refused before anything is trained.
    """
    asked, task = cell.protocol.metric, TASKS[cell.dataset.task]
    try:
        return "auto" if task.metric(asked).name == task.default else asked
    except ValueError as error:
        raise ValueError(f"{cell.dataset.name}: {error}") from error


def _jobs(runs: Mapping[Cell, int], stack: int | None) -> list[Job]:
    """Cells with their numbers of runs, as jobs of at most ``stack`` runs or of one cell."""
    parts: list[list[tuple[Cell, int]]] = [[]]
    for cell, count in runs.items():
        if parts[-1] and stack is not None and len(parts[-1]) + count > stack:
            parts.append([])
        parts[-1] += [(cell, number) for number in range(count)]
    return [Job(tuple(part)) for part in parts]


def read_grids(path: Path, over: Mapping[str, Any]) -> list[Grid]:
    """The grids of a TOML file; settings in ``over`` replace the file's.

    Settings are at its top; each table ``[[grid]]`` is a grid that changes some of them. A list of
    values is a product.
    """
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}") from error
    tables = values.pop("grid", [{}])
    if not (isinstance(tables, list) and all(isinstance(table, dict) for table in tables)):
        raise ValueError(f"{path}: write grids as [[grid]].")
    try:
        return [Grid.of(**over_each_other(values, table, over)) for table in tables]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def over_each_other(*several: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a grid in layers, of which the last wins, by name or plural.

    >>> over_each_other({"pools": ["lcpool"], "runs": 3}, {"pool": "topkpool"})
    {'pool': 'topkpool', 'runs': 3}
    """
    found: dict[str, tuple[str, Any]] = {}
    for values in several:
        found.update(by_name(values, KNOWN))
    return dict(found.values())
