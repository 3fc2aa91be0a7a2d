"""One pooling against each of the others: over the datasets, and on each over its splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lcpool.report.comparison import Comparison
from lcpool.report.statistics import ALPHA, holm, nemenyi, over_datasets, over_splits


def pairs_over_datasets(comparison: Comparison) -> pd.DataFrame:
    """The reference against each other pooling, a difference a dataset; empty for one dataset.

    ``difference``, ``low`` and ``high`` in points, above zero where the reference is better; ``p``
    of Wilcoxon's signed ranks and ``p_holm`` corrected; ``p_nemenyi`` of the ranks; ``smallest``,
    the difference that Student's test could still see among this many.
    """
    k, n = len(comparison.pools), len(comparison.datasets)
    if comparison.empty or n < 2:
        return pd.DataFrame()
    others = [pool for pool in comparison.pools if pool != comparison.reference]
    blocks = pd.DataFrame(comparison.blocks(comparison.means), columns=list(comparison.pools))
    ranked = dict(zip(comparison.pools, comparison.average_ranks(comparison.means), strict=True))
    rows: list[dict[str, Any]] = []
    for pool in others:
        differences = (blocks[comparison.reference] - blocks[pool]).to_numpy()
        found = over_datasets(differences)
        strict = over_datasets(differences, ALPHA / len(others))
        assert found is not None
        assert strict is not None
        rows.append({
            "pool": pool, "difference": found.mean, "low": found.low, "high": found.high,
            "better": int((differences > 0).sum()), "datasets": n, "p": found.p,
            "p_nemenyi": nemenyi(ranked[comparison.reference] - ranked[pool], k, n),
            "smallest": strict.half_width,
        })  # fmt: skip
    return _with_holm(rows)


def pairs_over_splits(comparison: Comparison, cells: pd.DataFrame) -> pd.DataFrame:
    """The reference against each other pooling in each group, a difference a split.

    By the corrected resampled t-test, with Holm's correction for all of them together.
    """
    if comparison.empty:
        return pd.DataFrame()
    shares = cells.assign(share=cells["num_test"] / cells["num_train"])
    share_of = shares.groupby("dataset")["share"].first()
    at = comparison.pools.index(comparison.reference)
    rows: list[dict[str, Any]] = []
    names = comparison.groups.to_dict("records")
    for group, row in zip(names, comparison.values, strict=True):
        for pool, runs in zip(comparison.pools, row, strict=True):
            differences = (row[at] - runs).dropna().to_numpy(dtype=np.float64)
            found = over_splits(differences, float(share_of[group["dataset"]]))
            if pool != comparison.reference and found is not None:
                rows.append({
                    **group, "pool": pool, "difference": found.mean, "low": found.low,
                    "high": found.high, "splits": found.n, "p": found.p,
                })  # fmt: skip
    return _with_holm(rows)


def _with_holm(rows: list[dict[str, Any]]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    if rows:
        table["p_holm"] = holm(table["p"].to_numpy())
    return table
