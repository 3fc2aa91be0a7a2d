"""Poolings that met in the same groups, and their ranks."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lcpool.report.cells import CELL, GROUP, RUN
from lcpool.report.missing import Grid, LeftOut, complete
from lcpool.report.statistics import (
    Array,
    Friedman,
    critical_difference,
    friedman,
    ranks,
    rounded,
)

# Enough to tell 99.8 % of them from all.
RESAMPLES = 5000


@dataclass(frozen=True)
class Comparison:
    """Poolings with an accuracy in each of the same groups.

    Attributes:
        pools: the poolings.
        groups: a row for each backbone with a convolution on a dataset.
        means: accuracy of each group and pooling, ``[groups, pools]``.
        values: the accuracies of the runs, by group and pooling, by seed and number of the run.
        fresh: whether each run has a split of its own, the same for all poolings and backbones.
        shares: n_test / n_train of each dataset.
        left_out: poolings, datasets and backbones that are not ranked, and which cells they lack.
    """

    pools: tuple[str, ...]
    groups: pd.DataFrame
    means: Array
    values: list[list[pd.Series]]
    fresh: bool
    shares: dict[str, float]
    left_out: tuple[LeftOut, ...]

    @classmethod
    def of(cls, runs: pd.DataFrame, pools: Sequence[str]) -> Comparison:
        """Compare ``pools`` in the part of the groups where every cell has a result.

        What lacks a cell is left out, see :func:`lcpool.report.missing.complete`.
        """
        there = runs[runs["pool"].isin(pools) & runs["accuracy"].notna()]
        met = there.drop_duplicates(CELL)
        every = list(dict.fromkeys(met[GROUP].itertuples(index=False, name=None)))
        cells = set(met[CELL].itertuples(index=False, name=None))
        has_result = np.array([(*name, pool) in cells for name in every for pool in pools], bool)
        found = complete(Grid(every, list(pools), has_result.reshape(len(every), len(pools))))
        kept = list(itertools.compress(pools, found.pools))
        names = list(itertools.compress(every, found.groups))
        groups = pd.DataFrame(names, columns=GROUP)
        of_cell = dict(iter(there.set_index(RUN).groupby(CELL)["accuracy"]))
        values = [[of_cell[*name, pool] for pool in kept] for name in names]
        means = np.array([[runs.mean() for runs in row] for row in values], dtype=np.float64)
        sizes = there.groupby("dataset")[["num_test", "num_train"]].mean()
        return cls(
            pools=tuple(kept),
            groups=groups,
            means=means.reshape(len(names), len(kept)),
            values=values,
            fresh=bool((there["split"] == "fresh").all()),
            shares=(sizes["num_test"] / sizes["num_train"]).to_dict(),
            left_out=found.left_out,
        )

    @property
    def empty(self) -> bool:
        """Whether no two poolings met anywhere, so that there is nothing to compare."""
        return len(self.pools) < 2 or self.groups.empty

    @property
    def order(self) -> list[str]:
        """The poolings by average rank, equals by accuracy."""
        blocks, average = self.blocks(self.means), self.average_ranks(self.means)
        return [self.pools[i] for i in np.lexsort((-blocks.mean(axis=0), average))]

    @property
    def first(self) -> list[str]:
        """Who ranks first; several where they share it."""
        average = self.average_ranks(self.means)
        return [pool for pool, r in zip(self.pools, average, strict=True) if r == average.min()]

    @functools.cached_property
    def datasets(self) -> list[str]:
        """The blocks."""
        return list(self.groups["dataset"].unique())

    @functools.cached_property
    def backbones(self) -> list[tuple[str, str]]:
        """The pairs of backbone and convolution."""
        return list(dict.fromkeys(zip(self.groups["backbone"], self.groups["conv"], strict=True)))

    def blocks(self, means: Array) -> Array:
        """One accuracy for each dataset, the mean over its groups: ``[…, datasets, pools]``."""
        members = [self.where(dataset=dataset) for dataset in self.datasets]
        blocks = [np.nanmean(means[..., member, :], axis=-2) for member in members]
        return rounded(np.stack(blocks, axis=-2))

    def average_ranks(self, means: Array) -> Array:
        """Average rank of each pooling over the datasets, ``[…, pools]``."""
        return rounded(ranks(self.blocks(means)).mean(axis=-2))

    def backbone_ranks(self, means: Array) -> Array:
        """The same for each backbone by itself: ``[…, backbones, pools]``."""
        members = [self.where(backbone=b, conv=c) for b, c in self.backbones]
        each = ranks(means)
        average = [np.nanmean(each[..., member, :], axis=-2) for member in members]
        return rounded(np.stack(average, axis=-2))

    def where(self, **names: str) -> NDArray[np.bool_]:
        """Which groups have these names; all, if there are none."""
        found = np.ones(len(self.groups), dtype=bool)
        for column, name in names.items():
            found &= self.groups[column].to_numpy() == name
        return found

    @property
    def friedman(self) -> Friedman | None:
        """Whether the poolings differ at all; None where there is too little to tell."""
        return None if self.empty else friedman(self.blocks(self.means))

    @property
    def critical_difference(self) -> float | None:
        """Nemenyi's, over the datasets; None where there is too little to compare."""
        n = len(self.datasets)
        return None if self.empty or n < 2 else critical_difference(len(self.pools), n)

    @property
    def fewest_runs(self) -> int:
        """Runs of the cell that has the fewest."""
        return min((len(runs) for row in self.values for runs in row), default=0)

    def on_splits(self, members: NDArray[np.bool_]) -> pd.DataFrame:
        """Accuracy of each run and pooling, mean over these groups; empty where one lacks it."""
        rows = [self.values[g] for g in np.flatnonzero(members)]
        columns = [
            pd.concat([row[p] for row in rows], axis=1).mean(axis=1, skipna=False)
            for p in range(len(self.pools))
        ]
        return pd.concat(columns, axis=1, keys=self.pools)

    def resampled(self, seed: int = 0) -> Array:
        """``means`` if other runs had been drawn, ``[RESAMPLES, groups, pools]``: the bootstrap.

        Fresh splits are those of a dataset, whatever is trained on them: runs are drawn once for
        all its groups and poolings. On a shared split each cell's are drawn by themselves.
        """
        random = np.random.default_rng(seed)
        drawn = np.empty((RESAMPLES, *self.means.shape))
        for dataset in self.datasets:
            members = np.flatnonzero(self.where(dataset=dataset))
            cells = pd.concat([runs for g in members for runs in self.values[g]], axis=1).to_numpy()
            if self.fresh:
                means = _draw(cells, self.shares[dataset], random)
            else:
                alone = (cell[~np.isnan(cell)][:, None] for cell in cells.T)
                means = np.hstack([_draw(cell, 0.0, random) for cell in alone])
            drawn[:, members] = means.reshape(RESAMPLES, len(members), -1)
        return drawn


def _draw(cells: Array, test_share: float, random: np.random.Generator) -> Array:
    """Means of runs drawn with replacement, the same for all cells: ``[RESAMPLES, cells]``.

    Drawn means vary by s²·(n − 1)/n² where a mean of n runs varies by s²·(1/n + n_test/n_train),
    for splits of one dataset overlap (Nadeau and Bengio): deviations are stretched to that. And of
    few runs s is uncertain itself: in each draw it is another one, as in Student's distribution.

    Args:
        cells: accuracies, ``[runs, cells]``, NaN where a cell lacks a run.
        test_share: n_test / n_train for fresh splits, 0 for a shared one.
        random: where draws come from.
    """
    there = ~np.isnan(cells)
    n, mean = there.sum(axis=0), np.nanmean(cells, axis=0)
    deviations = np.where(there, cells - mean, 0.0)
    times = random.multinomial(len(cells), np.full(len(cells), 1 / len(cells)), size=RESAMPLES)
    shift = (times @ deviations) / np.maximum(times @ there, 1)
    stretch = np.sqrt(n / np.maximum(n - 1, 1) * (1 + n * test_share))
    freedom = max(len(cells) - 1, 1)
    uncertain = np.sqrt(freedom / random.chisquare(freedom, size=(RESAMPLES, 1)))
    return np.asarray(mean + shift * stretch * uncertain)
