"""Poolings that have results in the same groups: their ranks, and tests of pairs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lcpool.data.splits import Scheme
from lcpool.notebook import card
from lcpool.report import statistics
from lcpool.report.cells import CELL, GROUP, RUN
from lcpool.report.measure import Measure
from lcpool.report.schemes import per_split, share_of_tests
from lcpool.report.statistics import Array, ranks, rounded
from lcpool.words import count

Bools = NDArray[np.bool_]
# Dataset, backbone and convolution.
Group = tuple[str, str, str]
# The more accurate pooling and the other one, or the reference and another.
Pair = tuple[str, str]


class LeftOut(NamedTuple):
    """What is not ranked because results are missing."""

    pools: dict[str, list[Group]]  # poolings, each with the groups where it has no result
    groups: dict[Group, list[str]]  # groups, each with the ranked poolings without a result there


@dataclass(frozen=True)
class Comparison:
    """Poolings with a result in each of the same groups.

    A metric of which lower is better counts negative here: higher is always better.
    """

    pools: tuple[str, ...]
    groups: pd.DataFrame  # a row per group, with the columns dataset, backbone and conv
    means: Array  # accuracy, or another metric, of each group and pooling, ``[groups, pools]``
    values: dict[tuple[str, ...], pd.Series]  # of the runs by cell, indexed by seed and run
    schemes: dict[str, Scheme]  # how the graphs of each dataset were split
    shares: dict[str, float]  # of the test graphs of each dataset, see share_of_tests
    left_out: LeftOut
    measure: Measure = field(default_factory=Measure)

    @classmethod
    def of(
        cls, runs: pd.DataFrame, pools: Sequence[str], measure: Measure | None = None
    ) -> Comparison:
        """Compare ``pools`` in the groups where all of them have a result; see :func:`ranked`."""
        measure = measure or Measure()
        there = runs[runs["pool"].isin(pools) & runs["value"].notna()]
        there = there.assign(value=measure.sign * there["value"])
        of_cell = dict(iter(there.set_index(RUN).groupby(CELL)["value"]))
        every = list(there[GROUP].drop_duplicates().itertuples(index=False, name=None))
        found = [[(*group, pool) in of_cell for pool in pools] for group in every]
        has_result = np.array(found, dtype=bool).reshape(len(every), len(pools))
        in_groups, in_pools = ranked(has_result)
        names = list(itertools.compress(every, in_groups))
        kept = list(itertools.compress(pools, in_pools))
        means = [[of_cell[*group, pool].mean() for pool in kept] for group in names]
        sizes = there.groupby("dataset")[["num_test", "num_train"]].mean()
        splits = there.groupby("dataset", sort=False)["split"].first()
        schemes = {dataset: Scheme.of(name) for dataset, name in splits.items()}
        left_out = LeftOut(
            {p: [g for g in every if (*g, p) not in of_cell] for p in pools if p not in kept},
            {g: [p for p in kept if (*g, p) not in of_cell] for g in every if g not in names},
        )
        return cls(
            pools=tuple(kept),
            groups=pd.DataFrame(names, columns=GROUP),
            means=np.array(means, dtype=np.float64).reshape(len(names), len(kept)),
            values=of_cell,
            schemes=schemes,
            shares={d: share_of_tests(schemes[d], *sizes.loc[d]) for d in schemes},
            left_out=left_out,
            measure=measure,
        )

    def __repr__(self) -> str:
        on = f"{count(len(self.pools), 'pooling')} on {count(len(self.datasets), 'dataset')}"
        first = "" if self.empty else f", {' and '.join(self.first)} first in rank"
        return f"Comparison({on}{first})"

    def _repr_html_(self) -> str:
        rows = [] if self.empty else [(pool, f"{self.rank[pool]:.2f}") for pool in self.order]
        return card(
            f"Comparison by {self.measure.title}",
            {"datasets": ", ".join(self.datasets), "networks": len(self.backbones)},
            ("pooling", "average rank"),
            rows,
        )

    @property
    def empty(self) -> bool:
        """Whether there are no two poolings with a result in the same group."""
        return len(self.pools) < 2 or self.groups.empty

    @property
    def trained_pools(self) -> list[str]:
        """All poolings with a result, ranked or not."""
        return list(dict.fromkeys(cell[3] for cell in self.values))

    @property
    def trained_datasets(self) -> list[str]:
        """All datasets with a result, ranked or not."""
        return list(dict.fromkeys(cell[0] for cell in self.values))

    @property
    def varied(self) -> list[str]:
        """The datasets whose runs have different splits: over these there is a test."""
        return [dataset for dataset in self.datasets if self.schemes[dataset].varies]

    @property
    def order(self) -> list[str]:
        """The poolings by average rank, equals by accuracy."""
        mean = self.blocks(self.means).mean(axis=0)
        return [self.pools[i] for i in np.lexsort((-mean, list(self.rank.values())))]

    @property
    def first(self) -> list[str]:
        """The pooling with the lowest average rank; several if they share it."""
        return [pool for pool, rank in self.rank.items() if rank == min(self.rank.values())]

    @functools.cached_property
    def rank(self) -> dict[str, float]:
        """The average rank of each pooling over the datasets."""
        average = rounded(ranks(self.blocks(self.means)).mean(axis=0))
        return dict(zip(self.pools, average.tolist(), strict=True))

    @functools.cached_property
    def datasets(self) -> list[str]:
        """The datasets, which are the blocks of all tests."""
        return list(self.groups["dataset"].unique())

    @functools.cached_property
    def backbones(self) -> list[tuple[str, str]]:
        """The networks: pairs of backbone and convolution."""
        return list(dict.fromkeys(zip(self.groups["backbone"], self.groups["conv"], strict=True)))

    def blocks(self, means: Array) -> Array:
        """One figure per dataset, the mean over its groups, on one scale: ``[datasets, pools]``."""
        members = [self.where(dataset=dataset) for dataset in self.datasets]
        each = np.stack([np.nanmean(means[member], axis=0) for member in members])
        return rounded(self.on_one_scale(each))

    def on_one_scale(self, means: Array) -> Array:
        """Means whose differences can be compared over datasets.

        Errors (MAE, RMSE) are in the units of each dataset's targets: −100·ln takes their place.
        The difference of two poolings is then 100·ln of the ratio of their errors, about by how
        many percent one is lower, in any unit. Other metrics have no unit, and stay as they are.
        """
        if self.measure.one_scale:
            return means
        return -100 * np.log(np.maximum(-means, np.finfo(np.float64).tiny))

    def backbone_ranks(self, means: Array) -> Array:
        """Average rank of each pooling for each network: ``[backbones, pools]``."""
        members = [self.where(backbone=b, conv=c) for b, c in self.backbones]
        each = ranks(self.on_one_scale(means))
        return rounded(np.stack([np.nanmean(each[member], axis=0) for member in members]))

    def where(self, **names: str) -> Bools:
        """Which groups have these names; all, if no name is given."""
        same = self.groups[list(names)] == pd.Series(names, dtype=object)
        return np.asarray(same.all(axis=1))

    @property
    def friedman(self) -> statistics.Friedman | None:
        """Whether the poolings differ at all; None with too little to tell."""
        return None if self.empty else statistics.friedman(self.blocks(self.means))

    @property
    def critical_difference(self) -> float | None:
        """Nemenyi's critical difference over the datasets; None with too little to compare."""
        n = len(self.datasets)
        if self.empty or n < 2:
            return None
        return statistics.critical_difference(len(self.pools), n)

    def on_splits(self, members: Bools) -> pd.DataFrame:
        """Accuracy of each run and pooling, mean over these groups; NaN if one lacks the run."""
        groups = list(self.groups[members].itertuples(index=False, name=None))
        of_pool = {pool: [self.values[*group, pool] for group in groups] for pool in self.pools}
        return pd.DataFrame({
            pool: pd.concat(runs, axis=1).mean(axis=1, skipna=False)
            for pool, runs in of_pool.items()
        })  # fmt: skip


def ranked(there: Bools) -> tuple[Bools, Bools]:
    """Which groups and which poolings are ranked, of ``there[group, pool]``: is there a result?

    A pooling is left out if it lacks more than half of the groups that at least half of the
    poolings have (if that leaves fewer than two poolings, none is left out). The others are ranked
    in the groups where all of them have a result.

    >>> ranked(np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 1, 0]], dtype=bool))
    (array([ True,  True, False,  True]), array([ True,  True, False]))
    """
    common = there[there.sum(axis=1) >= there.shape[1] / 2]
    pools = common.sum(axis=0) >= len(common) / 2
    if pools.sum() < 2:
        pools[:] = True
    return np.asarray(there[:, pools].all(axis=1)), pools


def pairs_over_splits(
    comparison: Comparison, by: list[str], reference: str | None = None
) -> pd.DataFrame:
    """The reference against each other pooling on each dataset or in each group, over its splits.

    Empty where all runs share a split. The reference is a pooling that was named beforehand; by
    default the one that came out first, and then the correction is for all pairs of poolings.
    ``by`` is as for :func:`compare_over_splits`.
    """
    if comparison.empty or not comparison.varied:
        return pd.DataFrame()
    pairs = compare_over_splits([(comparison, _tests(comparison, reference))], by)
    # Those of the reference alone, after the correction for all.
    return pairs[pairs["reference"] == pairs["reference"].iloc[0]].reset_index(drop=True)


def compare_over_splits(
    compared: Sequence[tuple[Comparison, Sequence[Pair]]], by: list[str]
) -> pd.DataFrame:
    """Pairs of poolings by the corrected t-test over splits, corrected by Holm for all of them.

    Datasets whose runs share one split are left out. ``difference``, ``low`` and ``high`` are above
    zero where the first is better; ``p`` is empty where there are too few runs, or runs without
    spread, and ``p_holm`` is corrected for ``tests``; ``smallest`` is the smallest difference that
    would be significant. ``by`` is ``["dataset"]`` for the mean over its groups, or the columns
    of a group.
    """
    places = [
        (c, place, pairs)
        for c, pairs in compared
        for place in c.groups[by].drop_duplicates().to_dict("records")
        if place["dataset"] in c.varied
    ]
    tests = sum(len(pairs) for *_, pairs in places)
    rows = []
    for c, place, pairs in places:
        runs = c.on_splits(c.where(**place))
        for one, other in pairs:
            dataset = place["dataset"]
            differences = per_split((runs[one] - runs[other]).dropna(), c.schemes[dataset])
            values = differences.to_numpy(dtype=np.float64)
            found = statistics.over_splits(values, c.shares[dataset])
            rows.append({
                **place, "reference": one, "pool": other, "splits": found.n,
                "difference": found.mean, "low": found.low, "high": found.high, "p": found.p,
                "smallest": found.half_width(tests),
            })  # fmt: skip
    table = pd.DataFrame(rows)
    tested = table["p"].notna()
    table["tests"], table["p_holm"] = int(tested.sum()), np.nan
    table.loc[tested, "p_holm"] = statistics.holm(table.loc[tested, "p"].to_numpy())
    return table


def _tests(comparison: Comparison, reference: str | None) -> list[Pair]:
    """The pairs that are corrected for together, those of the reference first.

    A reference that was named beforehand makes one test per other pooling. A reference that was
    picked because it came out first has been compared with all, and they with one another.
    """
    first = reference or comparison.order[0]
    others = [pool for pool in comparison.pools if pool != first]
    tests = [(first, pool) for pool in others]
    return tests if reference else [*tests, *itertools.combinations(others, 2)]
