"""The grid: which cells there are, what names them, and which are trained as one."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

from torch_geometric.data import Data

from lcpool.data import GraphSet, load_dataset
from lcpool.data.load import read_dataset
from lcpool.data.splits import MIN_GRAPHS
from lcpool.data.table import paper_datasets
from lcpool.models import Architecture, PoolingOptions
from lcpool.models.backbone import BACKBONES, CONVS
from lcpool.models.pooling import POOLINGS
from lcpool.sweep.settings import checked, settings_of, telling
from lcpool.train import Protocol
from lcpool.train.api import fingerprint

Source = str | Path | GraphSet | Iterable[Data]
# What to write for a setting, where the default says nothing.
EXAMPLES = {"datasets": ["PROTEINS", "my_folder/MY_DATA"], "score_channels": 64}


@dataclass(frozen=True)
class Dataset:
    """A dataset by reference: small enough to travel, and knowing what it refers to.

    Attributes:
        name: what tables call it.
        digest: of its contents.
        graphs: how many graphs it has.
        nodes: how many nodes they have together.
        source: a name, a path, or the graphs themselves.
        root: where to look for a name.
    """

    name: str
    digest: str
    graphs: int
    nodes: int
    source: str | GraphSet = field(compare=False, repr=False)
    root: str | None = field(compare=False, default=None, repr=False)

    @classmethod
    def of(cls, source: Source, root: str | Path | None = None, name: str | None = None) -> Dataset:
        """Look at a dataset; ``name`` calls it something else."""
        graphs = load_dataset(source, root=root, name=name)
        if len(graphs) < MIN_GRAPHS:
            raise ValueError(f"{graphs.name} has {len(graphs)} graphs; a split needs {MIN_GRAPHS}.")
        if graphs.num_classes < 2:
            found = f"{graphs.num_classes} classes" if graphs.num_classes else "no labels (y)"
            raise ValueError(f"{graphs.name} has {found}; training needs two classes.")
        by_name = isinstance(source, str | os.PathLike)
        return cls(
            name=graphs.name,
            digest=fingerprint(graphs),
            graphs=len(graphs),
            nodes=graphs.x.size(0),
            source=_lasting(os.fspath(source)) if by_name else graphs,  # type: ignore[arg-type]
            root=None if root is None else str(Path(root).expanduser().absolute()),
        )

    def load(self) -> GraphSet:
        """The graphs, under the name they have here."""
        graphs = read_dataset(self.source, root=self.root)
        if fingerprint(graphs) != self.digest:
            raise ValueError(f"{self.name} ({self.source}) is not what it was: its graphs differ.")
        return replace(graphs, name=self.name)


def _lasting(source: str) -> str:
    """A path that holds in every folder; a bare word is a name."""
    path = Path(source).expanduser()
    return source if path.name == source and path.suffix != ".zip" else str(path.absolute())


@dataclass(frozen=True)
class Cell:
    """What is repeated run by run: a dataset, a network, a protocol."""

    dataset: Dataset
    architecture: Architecture
    protocol: Protocol

    @cached_property
    def config(self) -> str:
        """Everything but the data, as canonical JSON."""
        return config_text(self.architecture, self.protocol)

    @cached_property
    def id(self) -> str:
        """A digest of the configuration and of what is in the dataset."""
        text = json.dumps([self.dataset.name, self.dataset.digest, self.config])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def names(self) -> tuple[str, str, str, str]:
        """Dataset, backbone, convolution, pooling: the row of a table."""
        a = self.architecture
        return self.dataset.name, a.backbone, a.conv, a.pool

    @property
    def settings(self) -> dict[str, Any]:
        """Network and protocol, apart from names and split."""
        return settings_of(self.architecture, self.protocol)


def config_text(architecture: Architecture, protocol: Protocol) -> str:
    """A configuration as canonical JSON: equal configurations, equal text."""
    values = {"architecture": architecture.to_dict(), "protocol": asdict(protocol)}
    return json.dumps(values, sort_keys=True)


def read_config(text: str) -> tuple[Architecture, Protocol]:
    """The inverse of :func:`config_text`."""
    values = json.loads(text)
    return Architecture.from_dict(values["architecture"]), Protocol(**values["protocol"])


@dataclass(frozen=True)
class Job:
    """Runs that are trained as one: of one cell, or of cells alike in all but split and backbone.

    Attributes:
        wanted: each cell with the number of each of its runs.
        label: the settings that tell it from other jobs of the same names.
    """

    wanted: tuple[tuple[Cell, int], ...]
    label: str = field(compare=False, default="")

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The cells, each once."""
        return tuple(dict.fromkeys(cell for cell, _ in self.wanted))

    @property
    def split(self) -> str:
        """The split, or splits, of its cells."""
        return "+".join(dict.fromkeys(cell.protocol.split for cell in self.cells))

    @property
    def names(self) -> tuple[str, str, str, str]:
        """Dataset, backbone or backbones, convolution, pooling."""
        dataset, _, conv, pool = self.cells[0].names
        backbones = dict.fromkeys(cell.architecture.backbone for cell in self.cells)
        return dataset, "+".join(backbones), conv, pool

    def __str__(self) -> str:
        label = [f"({self.label})"] if self.label else []
        return " ".join((*self.names, *label, self.split))


@dataclass(frozen=True)
class Grid:
    """A grid of cells; the defaults are the paper's reading, on fresh splits of the built-in set.

    The names are those of :func:`lcpool.train.train`, in the plural where there can be several.
    """

    datasets: tuple[str | Path | Dataset, ...] = ("builtin",)
    pools: tuple[str, ...] = tuple(POOLINGS)
    backbones: tuple[str, ...] = ("hierarchical",)
    convs: tuple[str, ...] = ("gcn",)
    runs: int = 10
    splits: tuple[str, ...] = ("fresh",)
    seeds: tuple[int, ...] = (0,)
    ratio: float = 0.5
    hidden: int = 128
    norm: str = "batch"
    poolings: int = 1
    score_channels: int | None = None
    self_loops: bool = True
    rescale: bool = False
    hops: int = 3
    epochs: int = 500
    patience: int = 50
    lr: float = 5e-4
    batch_size: int = 32

    @classmethod
    def of(cls, **values: Any) -> Grid:
        """A grid from what a user wrote: one value stands for a list of one."""
        known = {f.name: f.default for f in fields(cls)}
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1) or [", ".join(known)]
                raise ValueError(f"unknown setting '{name}' of a grid: did you mean {near[0]}?")
        kinds = get_type_hints(cls)
        values = {
            name: checked(name, value, kinds[name], EXAMPLES.get(name, known[name]))
            for name, value in values.items()
        }
        for name in ("runs", "epochs"):
            if values.get(name, 1) < 1:
                raise ValueError(f"'{name}' must be at least 1, not {values[name]}.")
        return cls(**values)

    @classmethod
    def paper(cls) -> dict[str, Any]:
        """The settings of the paper's grid: 6 × 2 × 2 × 8 cells of ten runs, on one split each."""
        names = {"datasets": paper_datasets(), "backbones": BACKBONES, "convs": CONVS}
        return {**{name: tuple(values) for name, values in names.items()}, "splits": "shared"}

    def cells(self, datasets: Mapping[Any, Dataset]) -> list[Cell]:
        """Every cell, datasets outermost; ``datasets`` holds what :attr:`datasets` refers to."""
        options = PoolingOptions(
            self.ratio, self.score_channels, self.self_loops, self.rescale, self.hops
        )
        return [
            Cell(
                datasets[dataset],
                Architecture(backbone, conv, pool, self.hidden, self.norm, self.poolings, options),
                Protocol(self.lr, self.batch_size, self.epochs, self.patience, split, seed),  # type: ignore[arg-type]
            )
            for dataset, backbone, conv, pool, seed, split in itertools.product(
                self.datasets, self.backbones, self.convs, self.pools, self.seeds, self.splits
            )
        ]


def make_jobs(
    grids: Iterable[Grid], root: str | Path | None = None, stack: int | None = None
) -> list[Job]:
    """The jobs of some grids: every run once, cells that can share a stack in one job.

    Args:
        grids: what is wanted.
        root: folder to look for datasets in.
        stack: the most runs to train as one. Cells that have more together are several jobs, which
            workers can take side by side.
    """
    alike: dict[tuple[Any, ...], dict[Cell, int]] = {}
    loaded: dict[Any, Dataset] = {}
    for grid in grids:
        for source in grid.datasets:
            if isinstance(source, Dataset):
                loaded[source] = source
            elif source not in loaded:
                loaded[source] = Dataset.of(source, root)
        for cell in grid.cells(loaded):
            network = replace(cell.architecture, backbone=BACKBONES[0])
            key = cell.dataset, network, replace(cell.protocol, split="shared")
            runs = alike.setdefault(key, {})
            runs[cell] = max(grid.runs, runs.get(cell, 0))
    check_names(loaded.values())
    found = [job for runs in alike.values() for job in _jobs(runs, stack)]
    labels = telling([job.cells[0].settings for job in found])
    return [replace(job, label=label) for job, label in zip(found, labels, strict=True)]


def _jobs(runs: Mapping[Cell, int], stack: int | None) -> list[Job]:
    """Cells and how many runs of each, as jobs of at most ``stack`` unless one cell has more."""
    parts: list[list[tuple[Cell, int]]] = [[]]
    for cell, count in runs.items():
        if parts[-1] and stack is not None and len(parts[-1]) + count > stack:
            parts.append([])
        parts[-1] += [(cell, number) for number in range(count)]
    return [Job(tuple(part)) for part in parts]


def check_names(datasets: Iterable[Dataset]) -> None:
    """Refuse two datasets that tables could not tell apart."""
    seen: dict[str, Dataset] = {}
    for dataset in datasets:
        if seen.setdefault(dataset.name, dataset) != dataset:
            raise ValueError(f"two different datasets are called {dataset.name}: rename one.")


def read_grids(path: Path, over: Mapping[str, Any]) -> list[Grid]:
    """The grids of a TOML file.

    Settings stand at its top; each table ``[[grid]]`` is a grid that changes some of them.

    Args:
        path: the file.
        over: settings that replace the file's.
    """
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from error
    tables = values.pop("grid", [{}])
    if not (isinstance(tables, list) and all(isinstance(table, dict) for table in tables)):
        raise ValueError(f"{path}: write grids as [[grid]].")
    try:
        return [Grid.of(**{**values, **table, **over}) for table in tables]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
