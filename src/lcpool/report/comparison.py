"""Poolings that met in the same groups: what is ranked, their ranks, and tests of pairs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lcpool.report.cells import CELL, GROUP, RUN
from lcpool.report.statistics import (
    ALPHA,
    Array,
    Friedman,
    critical_difference,
    friedman,
    holm,
    nemenyi,
    over_datasets,
    over_splits,
    ranks,
    rounded,
)

if TYPE_CHECKING:
    pass

# Enough to tell 99.8 % of them from all.
RESAMPLES = 5000
Bools = NDArray[np.bool_]
# Dataset, backbone and convolution; with a pooling, a cell.
Group = tuple[str, str, str]
Cell = tuple[str, str, str, str]
POOL, DATASET, BACKBONE = "pool", "dataset", "backbone"


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

        What lacks a cell is left out, see :func:`complete`.
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


@dataclass(frozen=True)
class LeftOut:
    """A pooling, a dataset or a backbone that is not ranked because cells of it are missing.

    Attributes:
        kind: "pool", "dataset" or "backbone".
        name: of the pooling or the dataset; for a backbone with its convolution, "plain, gcn".
        missing: the cells without a result because of which it is left out.
        cells: how many cells it has, with and without a result, in what was not left out before.
        compare: what to choose to have it ranked: datasets for a pooling, poolings for a dataset
            or a backbone. Empty if no choice does that.
    """

    kind: str
    name: str
    missing: tuple[Cell, ...]
    cells: int
    compare: tuple[str, ...] = ()


class Grid(NamedTuple):
    """Groups and poolings, and which cells have a result, ``[groups, pools]``."""

    groups: list[Group]
    pools: list[str]
    there: Bools


class Complete(NamedTuple):
    """Which groups and which poolings are ranked, and what is left out."""

    groups: Bools
    pools: Bools
    left_out: tuple[LeftOut, ...]


class _Part(NamedTuple):
    """What can be left out, and its cells."""

    kind: str
    name: str
    cells: Bools


def complete(grid: Grid) -> Complete:
    """Leave out poolings, datasets and backbones until no cell is missing.

    Whatever has the largest share of missing cells goes first. Among equals a pooling goes before a
    dataset and a dataset before a backbone, and the last in the tables before the others. So one
    failed cell takes its pooling out of the ranking and leaves the dataset to the others, and a
    dataset that has just begun is left out itself. The last two poolings stay as long as leaving
    out something else helps.
    """
    found = _complete(grid)
    compared = (replace(part, compare=_compare(grid, found, part)) for part in found.left_out)
    return found._replace(left_out=tuple(compared))


def _complete(grid: Grid) -> Complete:
    parts, left_out = list(_parts(grid)), []
    kept = np.ones_like(grid.there)
    while (missing := kept & ~grid.there).any():
        part = max(parts, key=lambda part: _urgency(part, missing, kept))
        gone = np.argwhere(missing & part.cells)
        cells = tuple((*grid.groups[i], grid.pools[j]) for i, j in gone)
        left_out.append(LeftOut(part.kind, part.name, cells, int((kept & part.cells).sum())))
        kept &= ~part.cells
    groups, pools = (np.asarray(kept.any(axis=axis)) for axis in (1, 0))
    return Complete(groups, pools, tuple(left_out))


def _parts(grid: Grid) -> Iterator[_Part]:
    """Everything that can be left out; among equals the first goes first."""
    for at in reversed(range(len(grid.pools))):
        cells = np.zeros_like(grid.there)
        cells[:, at] = True
        yield _Part(POOL, grid.pools[at], cells)
    for kind in (DATASET, BACKBONE):
        names = [part_name(group, kind) for group in grid.groups]
        for name in reversed(dict.fromkeys(names)):
            cells = np.zeros_like(grid.there)
            cells[[other == name for other in names]] = True
            yield _Part(kind, name, cells)


def part_name(group: Group, kind: str) -> str:
    """The dataset of a group, or its backbone with the convolution."""
    return group[0] if kind == DATASET else ", ".join(group[1:])


def _urgency(part: _Part, missing: Bools, kept: Bools) -> tuple[float, ...]:
    """How much a part should be left out; the highest goes."""
    own = kept & part.cells
    lacking = int((missing & own).sum())
    if not lacking:
        return (0,)
    share = lacking / int(own.sum())
    two_stay = (kept & ~part.cells).any(axis=0).sum() > 1
    # Without any result it is no loss, even if nothing remains to be compared.
    return (1, share == 1, bool(two_stay), share)


def _compare(grid: Grid, found: Complete, part: LeftOut) -> tuple[str, ...]:
    """The ranked datasets, or poolings, to choose so that this part is ranked too."""
    ranked = list(itertools.compress(grid.groups, found.groups))
    if part.kind == POOL:
        of_pool = dict(zip(grid.groups, grid.there[:, grid.pools.index(part.name)], strict=True))
        lacking = {group[0] for group in ranked if not of_pool[group]}
        names = [name for name in dict.fromkeys(g[0] for g in ranked) if name not in lacking]
        chosen = _choose(grid, names, grid.pools)
    else:
        other = BACKBONE if part.kind == DATASET else DATASET
        places = {part_name(group, other) for group in ranked}
        its = [
            part_name(group, part.kind) == part.name and part_name(group, other) in places
            for group in grid.groups
        ]
        whole = grid.there[its].all(axis=0) & found.pools
        names = list(itertools.compress(grid.pools, whole))
        chosen = _choose(grid, {group[0] for group in grid.groups}, names)
    return tuple(names) if _ranks(chosen, part) else ()


def _choose(grid: Grid, datasets: Collection[str], pools: Collection[str]) -> Grid:
    """The part of a grid with these names; groups without any result are no part of it."""
    columns = [at for at, pool in enumerate(grid.pools) if pool in pools]
    rows = [
        at for at, group in enumerate(grid.groups)
        if group[0] in datasets and grid.there[at, columns].any()
    ]  # fmt: skip
    return Grid(
        [grid.groups[at] for at in rows],
        [grid.pools[at] for at in columns],
        grid.there[np.ix_(rows, columns)],
    )


def _ranks(grid: Grid, part: LeftOut) -> bool:
    """Whether a part of a grid is compared there."""
    groups, pools, _ = _complete(grid)
    names = list(itertools.compress(grid.pools, pools))
    if part.kind == POOL:
        return len(names) > 1 and part.name in names
    places = itertools.compress(grid.groups, groups)
    return len(names) > 1 and part.name in (part_name(group, part.kind) for group in places)


def pairs_over_datasets(comparison: Comparison, reference: str, picked: bool) -> pd.DataFrame:
    """The reference against each other pooling, a difference a dataset; empty for one dataset.

    ``difference``, ``low`` and ``high`` in points, above zero where the reference is better; ``p``
    of Wilcoxon's signed ranks and ``p_holm`` corrected for ``tests``; ``p_nemenyi`` of the ranks;
    ``smallest``, the difference that a corrected t-test could still see among this many.

    Args:
        comparison: the poolings.
        reference: the pooling that the others are compared with.
        picked: whether these same accuracies made it the reference; see :func:`_tests`.
    """
    k, n = len(comparison.pools), len(comparison.datasets)
    if comparison.empty or n < 2:
        return pd.DataFrame()
    tests = _tests(comparison, reference, picked)
    blocks = pd.DataFrame(comparison.blocks(comparison.means), columns=list(comparison.pools))
    ranked = dict(zip(comparison.pools, comparison.average_ranks(comparison.means), strict=True))
    rows: list[dict[str, Any]] = []
    for one, other in tests:
        differences = (blocks[one] - blocks[other]).to_numpy()
        found, strict = over_datasets(differences), over_datasets(differences, ALPHA / len(tests))
        assert found is not None
        assert strict is not None
        rows.append({
            "reference": one, "pool": other, "difference": found.mean, "low": found.low,
            "high": found.high, "better": int((differences > 0).sum()), "datasets": n,
            "p": found.p, "p_nemenyi": nemenyi(ranked[one] - ranked[other], k, n),
            "smallest": strict.half_width,
        })  # fmt: skip
    return _corrected(rows, reference)


def pairs_over_splits(
    comparison: Comparison, reference: str, picked: bool, by: list[str]
) -> pd.DataFrame:
    """The reference against each other pooling on each dataset or in each group, over its splits.

    By the corrected resampled t-test, with Holm's correction for all of them together; columns as
    over datasets. Empty on a shared split; without ``p`` where too few runs, or runs without
    spread, allow none.

    Args:
        comparison: the poolings.
        reference: the pooling that the others are compared with.
        picked: whether these same accuracies made it the reference; see :func:`_tests`.
        by: the columns that name a place: ``["dataset"]``, for the mean over its groups, or
            those of a group.
    """
    if comparison.empty or not comparison.fresh:
        return pd.DataFrame()
    tests = _tests(comparison, reference, picked)
    return _over_splits([(comparison, tests)], reference, by)


def all_over_splits(comparison: Comparison, by: list[str]) -> pd.DataFrame:
    """The same for every two poolings, ``reference`` and ``pool``, all corrected together."""
    if comparison.empty or not comparison.fresh:
        return pd.DataFrame()
    return _over_splits([(comparison, list(itertools.combinations(comparison.pools, 2)))], None, by)


def each_over_splits(
    comparisons: Sequence[Comparison], reference: str, by: list[str]
) -> pd.DataFrame:
    """The same for comparisons that have groups of their own, all corrected together."""
    named = [(c, _tests(c, reference, picked=False)) for c in comparisons]
    return _over_splits(named, reference, by)


def _over_splits(
    compared: Sequence[tuple[Comparison, list[tuple[str, str]]]],
    reference: str | None,
    by: list[str],
) -> pd.DataFrame:
    """These pairs of poolings in all places of each comparison, all of them one family."""
    places = [(c, place, tests) for c, tests in compared for place in _places(c, by)]
    strict = ALPHA / sum(len(tests) for *_, tests in places)
    rows: list[dict[str, Any]] = []
    for c, place, tests in places:
        runs = c.on_splits(c.where(**place))
        for one, other in tests:
            differences = (runs[one] - runs[other]).dropna().to_numpy(dtype=np.float64)
            tested = _on_splits(differences, c.shares[place["dataset"]], strict)
            rows.append({**place, "reference": one, "pool": other, **tested})
    return _corrected(rows, reference)


def _places(comparison: Comparison, by: list[str]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = comparison.groups[by].drop_duplicates().to_dict("records")
    return found


def _on_splits(differences: Array, share: float, strict: float) -> dict[str, float]:
    mean = differences.mean() if len(differences) else np.nan
    found, strictly = (over_splits(differences, share, alpha) for alpha in (ALPHA, strict))
    if found is None or strictly is None:
        return {"splits": len(differences), "difference": mean, "p": np.nan}
    return {
        "splits": found.n, "difference": found.mean, "low": found.low, "high": found.high,
        "p": found.p, "smallest": strictly.half_width,
    }  # fmt: skip


def _tests(comparison: Comparison, reference: str, picked: bool) -> list[tuple[str, str]]:
    """The pairs that are corrected for together.

    Who is compared with a pooling named beforehand makes one test for each of the others. Who is
    picked for having come out first has been compared with all, and they with one another.
    """
    others = [pool for pool in comparison.pools if pool != reference]
    tests = [(reference, pool) for pool in others]
    return [*tests, *itertools.combinations(others, 2)] if picked else tests


def _corrected(rows: list[dict[str, Any]], reference: str | None) -> pd.DataFrame:
    """With Holm's correction for all rows; those of the reference, if there is one."""
    table = pd.DataFrame(rows)
    tested = table["p"].notna()
    table["tests"], table["p_holm"] = int(tested.sum()), np.nan
    table.loc[tested, "p_holm"] = holm(table.loc[tested, "p"].to_numpy())
    if reference is not None:
        table = table[table["reference"] == reference]
    return table.reset_index(drop=True)
