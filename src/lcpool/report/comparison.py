"""Poolings that met in the same groups, and their ranks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lcpool.data.published import published
from lcpool.report.cells import CELL, GROUP
from lcpool.report.statistics import Array, Friedman, critical_difference, friedman, ranks

OURS = "lcpool"
# A variant of lcpool that stands outside the ranking, as in the paper.
VARIANT = "lcpool*"
RESAMPLES = 2000


@dataclass(frozen=True)
class Comparison:
    """Poolings with an accuracy in each of the same groups.

    Attributes:
        pools: the poolings.
        groups: a row for each backbone with a convolution on a dataset.
        means: accuracy of each group and pooling, ``[groups, pools]``.
        values: the accuracies of the runs, by group and pooling, by the run's number.
        absent: poolings that are left out, for most groups lack them.
        incomplete: how many groups are left out, for a pooling is missing there.
    """

    pools: tuple[str, ...]
    groups: pd.DataFrame
    means: Array
    values: list[list[pd.Series]]
    absent: tuple[str, ...]
    incomplete: int

    @classmethod
    def of(cls, runs: pd.DataFrame, pools: Sequence[str]) -> Comparison:
        """Compare ``pools`` where they met."""
        there = runs[runs["pool"].isin(pools) & runs["accuracy"].notna()]
        met = there.drop_duplicates(CELL)
        num_groups = len(met.drop_duplicates(GROUP))
        in_groups = met["pool"].value_counts()
        kept = [pool for pool in pools if 2 * in_groups.get(pool, 0) >= max(num_groups, 1)]
        by_group = met[met["pool"].isin(kept)].groupby(GROUP, sort=False)
        names = [name for name, of_group in by_group if len(of_group) == len(kept)]
        groups = pd.DataFrame(names, columns=GROUP)
        of_cell = dict(iter(there.set_index("run").groupby(CELL)["accuracy"]))
        values = [[of_cell[*name, pool] for pool in kept] for name in names]
        means = np.array([[runs.mean() for runs in row] for row in values], dtype=np.float64)
        return cls(
            pools=tuple(kept),
            groups=groups,
            means=means.reshape(len(names), len(kept)),
            values=values,
            absent=tuple(pool for pool in pools if pool not in kept),
            incomplete=num_groups - len(names),
        )

    @property
    def empty(self) -> bool:
        """Whether no two poolings met anywhere, so that there is nothing to compare."""
        return len(self.pools) < 2 or self.groups.empty

    @property
    def reference(self) -> str:
        """The pooling that the others are compared with: lcpool, or whichever ranks best."""
        if OURS in self.pools:
            return OURS
        return self.pools[int(self.average_ranks(self.means).argmin())]

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
        return np.stack([np.nanmean(means[..., member, :], axis=-2) for member in members], axis=-2)

    def average_ranks(self, means: Array) -> Array:
        """Average rank of each pooling over the datasets, ``[…, pools]``."""
        return np.asarray(ranks(self.blocks(means)).mean(axis=-2))

    def backbone_ranks(self, means: Array) -> Array:
        """The same for each backbone by itself, as in the paper: ``[…, backbones, pools]``."""
        members = [self.where(backbone=b, conv=c) for b, c in self.backbones]
        each = ranks(means)
        return np.stack([np.nanmean(each[..., member, :], axis=-2) for member in members], axis=-2)

    def where(self, **names: str) -> NDArray[np.bool_]:
        """Which groups have these names."""
        found = (self.groups[list(names)] == pd.Series(names)).all(axis=1)
        return np.asarray(found, dtype=bool)

    @property
    def friedman(self) -> Friedman | None:
        """Whether the poolings differ at all; None where there is too little to tell."""
        return None if self.empty else friedman(self.blocks(self.means))

    @property
    def critical_difference(self) -> float | None:
        """Nemenyi's, over the datasets; None where there is too little to compare."""
        n = len(self.datasets)
        return None if self.empty or n < 2 else critical_difference(len(self.pools), n)

    def published(self) -> Array | None:
        """``means`` as the paper has them, NaN for the cell that it does not report.

        None if it knows nothing of a pooling or a group.
        """
        nothing = (np.nan, np.nan)
        rows = [
            [(published(g.dataset, g.backbone, g.conv, pool) or nothing)[0] for pool in self.pools]
            for g in self.groups.itertuples()
        ]
        means = np.array(rows).reshape(self.means.shape)
        known = ~np.isnan(means)
        return means if known.any(axis=0).all() and known.any(axis=1).all() else None

    @property
    def fewest_runs(self) -> int:
        """Runs of the cell that has the fewest."""
        return min((len(runs) for row in self.values for runs in row), default=0)

    def resampled(self, paired: bool, seed: int = 0) -> Array:
        """``means`` if other runs had been drawn, ``[RESAMPLES, groups, pools]``: the bootstrap.

        Args:
            paired: draw the same runs for all poolings of a group, since they share their splits;
                where a run of one is missing, each is drawn by itself.
            seed: of the draws.
        """
        random = np.random.default_rng(seed)
        drawn = np.empty((RESAMPLES, *self.means.shape))
        for g, row in enumerate(self.values):
            together = pd.concat(row, axis=1)
            if paired and together.notna().all(axis=None):
                drawn[:, g] = _draw(together.to_numpy(), random)
            else:
                drawn[:, g] = np.column_stack([_draw(runs.to_numpy(), random) for runs in row])
        return drawn


def _draw(runs: Array, random: np.random.Generator) -> Array:
    """Means of as many runs as there are, drawn with replacement."""
    index = random.integers(len(runs), size=(RESAMPLES, len(runs)))
    return np.asarray(runs[index].mean(axis=1))
