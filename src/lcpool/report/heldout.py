"""The graphs that accuracies are measured on, and networks that predict one class for all of them.

A network that gives every graph the same class is as accurate as that class is frequent: of 285
graphs of one class and 15 of the other it gets 95 % right. An accuracy must be read beside that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd


class HeldOut(NamedTuple):
    """The test graphs of a dataset.

    Attributes:
        fewest: how many they are, in the cell that has the fewest.
        most: likewise; the same but for runs on different data of one name.
        largest: how many percent of them are of the largest class, mean over runs, if known.
    """

    fewest: int
    most: int
    largest: float | None

    @property
    def size(self) -> str:
        """How many, in words."""
        return f"{self.fewest}" if self.fewest == self.most else f"{self.fewest} to {self.most}"

    @property
    def share(self) -> str:
        """The largest class, in words."""
        return "–" if self.largest is None else f"{self.largest:.1f}"


class Constant(NamedTuple):
    """A pooling with runs on a dataset that predict one class for all test graphs.

    Attributes:
        dataset: where.
        pool: the pooling.
        runs: how many of its runs predict one class.
        of: of how many runs that is known.
        largest: how many percent of the test graphs are of the largest class, if known.
        groups: how many of the runs have which backbone and convolution.
    """

    dataset: str
    pool: str
    runs: int
    of: int
    largest: float | None
    groups: dict[tuple[str, str], int]


def held_out(cells: pd.DataFrame) -> dict[str, HeldOut]:
    """The test graphs of each dataset."""
    return {
        str(dataset): HeldOut(
            round(of_dataset["num_test"].min()),
            round(of_dataset["num_test"].max()),
            _known(of_dataset["largest_class"]),
        )
        for dataset, of_dataset in cells.groupby("dataset", sort=False)
    }


def size_rows(datasets: Sequence[HeldOut]) -> dict[str, list[str]]:
    """Below the accuracies on these datasets: how many test graphs, and the largest class if known.

    >>> size_rows([HeldOut(300, 300, 95.0), HeldOut(47, 47, None)])
    {'test graphs': ['300', '47'], 'largest class, %': ['95.0', '–']}
    """
    rows = {"test graphs": [of.size for of in datasets]}
    if any(of.largest is not None for of in datasets):
        rows["largest class, %"] = [of.share for of in datasets]
    return rows


def constants(cells: pd.DataFrame) -> list[Constant]:
    """Where runs predict one class, in the order of the tables."""
    found = []
    marked = cells[cells["constant"] > 0]
    for (dataset, pool), part in marked.groupby(["dataset", "pool"], sort=False):
        every = cells[(cells["dataset"] == dataset) & (cells["pool"] == pool)]
        pairs = zip(part["backbone"], part["conv"], strict=True)
        found.append(
            Constant(
                dataset,
                pool,
                int(part["constant"].sum()),
                int(every["constant_of"].sum()),
                _known(every["largest_class"]),
                dict(zip(pairs, part["constant"].astype(int).tolist(), strict=True)),
            )
        )
    return found


def constant_mark(cell: Mapping[str, Any]) -> str:
    """Of a cell with runs that predict one class: how many."""
    return f"{cell['constant']:.0f} of {cell['constant_of']} constant"


def in_words(cells: pd.DataFrame) -> list[str]:
    """A sentence for each pooling and dataset with runs that predict one class."""
    several = len(cells.drop_duplicates(["backbone", "conv"])) > 1
    return [_sentence(found, several) for found in constants(cells)]


def _sentence(found: Constant, several: bool) -> str:
    runs = "run predicts" if found.of == 1 else "runs predict"
    said = (
        f"{found.pool} on {found.dataset}: {found.runs} of {found.of} {runs} one class for all "
        "test graphs"
    )
    if several:
        said += f" ({'; '.join(f'{b}, {conv}: {n}' for (b, conv), n in found.groups.items())})"
    if found.largest is None:
        return f"{said}."
    return f"{said}; the largest class has {found.largest:.1f} %."


def _known(shares: pd.Series) -> float | None:
    mean = shares.mean()
    return None if pd.isna(mean) else float(mean)
