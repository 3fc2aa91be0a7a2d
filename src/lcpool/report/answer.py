"""Which pooling to use, and whether the difference is real: the first lines of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lcpool.report.comparison import Comparison
from lcpool.report.pairs import pairs_over_datasets, pairs_over_splits
from lcpool.report.statistics import ALPHA, FEWEST_RUNS, rounded, smallest_signed_rank
from lcpool.report.words import count, figure, listed, p_value

if TYPE_CHECKING:
    from lcpool.report.api import Report

FRESH = "lcpool bench … --split fresh"


def answer(report: Report) -> list[str]:
    """In plain words: who is first, by how much, and whether that could be chance."""
    c = report.ranked
    if c.empty:
        return ["There are no two poolings with runs in the same groups: nothing to compare."]
    return _on_one_dataset(c) if len(c.datasets) == 1 else _over_datasets(c)


def _on_one_dataset(c: Comparison) -> list[str]:
    first, second = c.order[:2]
    runs = c.on_splits(c.where())
    written = {pool: figure(runs[pool].mean(), runs[pool].std(ddof=1)) for pool in (first, second)}
    place = c.datasets[0]
    if len(c.groups) > 1:
        place += f", mean over {count(len(c.groups), 'backbone')}"
    if len(c.first) > 1:
        return [f"{listed(c.first)} are equally high on {place}: {written[first]} %."]
    mean = dict(zip(c.pools, c.blocks(c.means)[0], strict=True))
    said = [
        f"{first} is highest on {place}: {written[first]} %, {mean[first] - mean[second]:.2f} "
        f"points above the next, {second} ({written[second]} %)."
    ]
    if not c.fresh:
        return [*said, f"All runs share one split: for a test of the difference, {FRESH}."]
    pairs = pairs_over_splits(c, first, picked=True, by=["dataset"])
    if pairs["p"].isna().all():
        return [*said, why_no_test(int(pairs["splits"].min()))]
    return [*said, _told_apart(pairs, "the corrected resampled t-test")]


def _over_datasets(c: Comparison) -> list[str]:
    first, *others = c.order
    average = dict(zip(c.pools, c.average_ranks(c.means), strict=True))
    blocks = c.blocks(c.means)
    at, best = c.pools.index(first), blocks == blocks.max(axis=1, keepdims=True)
    highest, shared = int(best[:, at].sum()), int((best[:, at] & (best.sum(axis=1) > 1)).sum())
    over = count(len(c.datasets), "dataset")
    if len(c.first) > 1:
        return [f"{listed(c.first)} share the first rank over {over} ({average[first]:.2f})."]
    following = [pool for pool in others if average[pool] == average[others[0]]]
    said = (
        f"{first} ranks first over {over}: average rank {average[first]:.2f} among "
        f"{count(len(c.pools), 'pooling')}, highest on {highest}"
        f"{f' ({shared} shared)' if shared else ''}. Next "
        f"{'is' if len(following) == 1 else 'are'} {listed(following)} ({average[others[0]]:.2f})."
    )
    mean = rounded(blocks.mean(axis=0))
    if mean[at] < mean.max():
        ahead = c.pools[mean.argmax()]
        said += f" By mean accuracy {ahead} is first, {mean.max() - mean[at]:.2f} points above it."
    pairs = pairs_over_datasets(c, first, picked=True)
    if smallest_signed_rank(len(c.datasets), int(pairs["tests"].iloc[0])) < ALPHA:
        return [said, _told_apart(pairs, "Wilcoxon's test over the datasets")]
    # With few datasets that test says "chance" whatever the difference; ranks may tell more.
    behind = [average[pool] - average[first] for pool in pairs["pool"]]
    by_ranks = pairs.assign(difference=behind, p_holm=pairs["p_nemenyi"])
    return [said, _told_apart(by_ranks, "Nemenyi's test of the average ranks")]


def why_no_test(runs: int) -> str:
    """Why splits of one dataset give no p and no interval."""
    if runs < FEWEST_RUNS:
        return f"{count(runs, 'run')} are too few for a test, which takes {FEWEST_RUNS}."
    return "The poolings differ by the same in every run: no spread, no test."


def _told_apart(pairs: pd.DataFrame, test: str) -> str:
    """Which leads are real, and which could be chance."""
    tested = pairs[pairs["p"].notna()]
    real = (tested["p_holm"] < ALPHA) & (tested["difference"] > 0)
    sure, least = list(tested["pool"][real]), float(tested["p_holm"].min())
    by = f"by {test}, corrected for {count(int(pairs['tests'].iloc[0]), 'comparison')}"
    if not sure:
        return f"This could be chance: the smallest p is {p_value(least)}, {by}."
    most = p_value(float(np.max(tested["p_holm"][real])), "=" if len(sure) == 1 else "≤")
    if len(sure) == len(pairs):
        return f"The lead over every other pooling is significant: p {most}, {by}."
    rest = [pool for pool in pairs["pool"] if pool not in sure]
    return (
        f"The lead over {listed(sure)} is significant (p {most}, {by}); that over {listed(rest)} "
        "could be chance."
    )
