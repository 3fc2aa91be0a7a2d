"""The table of the terminal: accuracy on each dataset, mean over its backbones, and the ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lcpool.report.cells import GROUP
from lcpool.report.heldout import HeldOut, held_out
from lcpool.report.statistics import rounded

if TYPE_CHECKING:
    from lcpool.report.api import Report


class Mean(NamedTuple):
    """Accuracy on a dataset, mean over backbones.

    Attributes:
        accuracy: in percent.
        groups: over how many backbones.
        of: how many backbones the dataset has.
        constant: how many runs predict one class for all test graphs, as far as that is known.
    """

    accuracy: float
    groups: int
    of: int
    constant: int = 0


class Row(NamedTuple):
    """A pooling: its average rank, if it is ranked over several datasets, and its accuracies."""

    pool: str
    rank: float | None
    means: dict[str, Mean]


@dataclass(frozen=True)
class Summary:
    """Poolings by rank, then those that are not ranked, with the accuracies that they have.

    Attributes:
        datasets: the columns; those that are not ranked come last.
        unranked: the datasets among them that are not ranked.
        rows: the poolings, the first in rank first.
        held_out: by dataset, the graphs that accuracies are measured on.
    """

    datasets: list[str]
    unranked: frozenset[str]
    rows: list[Row]
    held_out: dict[str, HeldOut]


def summary(report: Report) -> Summary:
    """Everything that was trained, but for the variant that stands outside the ranking."""
    c = report.ranked
    ranked = [] if c.empty else c.datasets
    cells = report.cells[~report.cells["pool"].isin(report.aside) & report.cells["mean"].notna()]
    # Where a backbone is left out of the ranking, its accuracies are not in these means either.
    groups = set(c.groups.itertuples(index=False, name=None))
    named = zip(cells["dataset"], cells[GROUP].itertuples(index=False, name=None), strict=True)
    kept = [dataset not in ranked or group in groups for dataset, group in named]
    cells = cells[np.array(kept, dtype=bool)]
    others = [name for name in dict.fromkeys(cells["dataset"]) if name not in ranked]
    num_groups = cells.drop_duplicates(GROUP)["dataset"].value_counts()
    of_pool = {
        pool: {
            name: Mean(
                float(rounded(own["mean"].mean())),
                len(own),
                int(num_groups[name]),
                int(own["constant"].sum()),
            )
            for name, own in part.groupby("dataset", sort=False)
        }
        for pool, part in cells.groupby("pool", sort=False)
    }
    order = [] if c.empty else c.order
    rank: dict[str, float] = {}
    if len(ranked) > 1:
        rank = dict(zip(c.pools, c.average_ranks(c.means).tolist(), strict=True))
    pools = [*order, *(pool for pool in of_pool if pool not in order)]
    rows = [Row(pool, rank.get(pool), of_pool[pool]) for pool in pools]
    return Summary([*ranked, *others], frozenset(others), rows, held_out(cells))
