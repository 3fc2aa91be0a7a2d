"""One pooling against each of the others: over the datasets, and on each over its splits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from lcpool.report.comparison import Comparison
from lcpool.report.statistics import ALPHA, Array, holm, nemenyi, over_datasets, over_splits


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
