"""What helps to choose a pooling: accuracy beside costs, who can win where, connectivity."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lcpool.report.cells import GROUP
from lcpool.report.comparison import (
    Comparison,
    compare_over_splits,
    pairs_over_splits,
)
from lcpool.report.statistics import ALPHA, Difference, over_datasets
from lcpool.report.tables import Markdown
from lcpool.report.verdict import Verdict, Verdicts
from lcpool.words import count, listed, signed
from paper.names import named
from paper.published import OURS

STYLE = Markdown()
# Without a pooling: what accuracy and costs are compared with.
BASE = "nopool"
# What benchmarks/structure.py calls graphs that were not pooled.
BEFORE = "none"
# Poolings that give complete graphs by construction.
DENSE = {"diffpool", "mincutpool"}
COMPLETE = "DiffPool and MinCut give complete weighted graphs by construction."
ALIKE = (
    "For the same kept nodes LCPool and ASAP have the same edges (lemma 5): between them it is a "
    "matter of which nodes are kept."
)
# What is measured of an epoch, and of graphs.
COSTS = {"seconds_per_epoch": "seconds", "peak_mib": "memory"}
STRUCTURE = ("networks", "epochs", "connected_before", "stay_connected", "least", "most", "parts",
             "density", "diameter", "edges")  # fmt: skip


def leads(c: Comparison) -> dict[str, tuple[list[float], Difference]]:
    """Of each pooling but the base: accuracy − the base's on each dataset, and over them.

    Nothing where the base is not among them, or there is a single dataset.
    """
    if BASE not in c.pools:
        return {}
    blocks = c.blocks(c.means)
    base = blocks[:, c.pools.index(BASE)]
    found = {}
    for pool, accuracies in zip(c.pools, blocks.T, strict=True):
        tested = over_datasets(accuracies - base)
        if pool != BASE and tested is not None:
            found[pool] = (list(accuracies - base), tested)
    return found


class Range(NamedTuple):
    """A mean over datasets, and the least and the most of one."""

    mean: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} ({self.least:.1f} to {self.most:.1f})"

    def percent(self) -> str:
        """As a share."""
        return f"{self.mean:.0f} % ({self.least:.0f} to {self.most:.0f})"


def relative(costs: pd.DataFrame, column: str, base: str = BASE) -> dict[str, Range]:
    """How many times the base's each pooling costs: the geometric mean over the datasets.

    A pooling that was not measured on all of them has none.
    """
    table = costs.pivot(index="dataset", columns="pool", values=column)
    if base not in table:
        return {}
    ratios = table.div(table[base], axis=0).dropna(axis=1)
    return {
        str(pool): Range(float(np.exp(np.log(ratio).mean())), ratio.min(), ratio.max())
        for pool, ratio in ratios.items()
    }


def accuracy_and_costs(c: Comparison, epochs: pd.Series, costs: pd.DataFrame | None) -> str:
    """A row for each pooling, the most accurate first.

    Args:
        c: the poolings.
        epochs: by pooling, how many a run is trained for.
        costs: of an epoch, by dataset and pooling, if they were measured.
    """
    mean = dict(zip(c.pools, c.blocks(c.means).mean(axis=0), strict=True))
    lead = leads(c)
    header = ["pooling", "accuracy, %", f"− {BASE}", "95 % interval", "average rank", "epochs"]
    times = [] if costs is None else [relative(costs, name) for name in COSTS]
    header += [f"{word} × {BASE}" for word in COSTS.values()] if times else []
    rows = []
    for pool in sorted(c.pools, key=lambda pool: -mean[pool]):
        over = lead[pool][1] if pool in lead else None
        rows.append([
            STYLE.escape(pool), f"{mean[pool]:.2f}",
            "–" if over is None else signed(over.mean), _interval(over),
            f"{c.rank[pool]:.2f}", f"{epochs[pool]:.0f}",
            *(_times(ratio.get(pool)) for ratio in times),
        ])  # fmt: skip
    return STYLE.grid(header, rows)


def _times(ratio: Range | None) -> str:
    if ratio is None:
        return "–"
    return STYLE.above(f"{ratio.mean:.1f}", f"{ratio.least:.1f} to {ratio.most:.1f}")


def _interval(over: Difference | None) -> str:
    if over is None or not np.isfinite(over.low):
        return "–"
    return f"{signed(over.low)} to {signed(over.high)}"


def costs_by_dataset(costs: pd.DataFrame) -> str:
    """Seconds an epoch above MiB, poolings down, datasets across."""
    datasets, pools = (list(dict.fromkeys(costs[name])) for name in ("dataset", "pool"))
    by_name = costs.set_index(["pool", "dataset"])[list(COSTS)]
    rows = [
        [STYLE.escape(pool), *(_cost(by_name, (pool, dataset)) for dataset in datasets)]
        for pool in pools
    ]
    return STYLE.grid(["pooling", *map(STYLE.escape, datasets)], rows)


def _cost(by_name: pd.DataFrame, name: tuple[str, str]) -> str:
    if name not in by_name.index:
        return "–"
    seconds, mib = by_name.loc[name]
    return STYLE.above(f"{seconds:.3g} s", f"{mib:.0f} MiB")


def costs_in_short(costs: pd.DataFrame) -> str:
    """Seconds and memory of every pooling, the fastest first."""
    seconds, mib = (relative(costs, name) for name in COSTS)
    order = sorted(seconds, key=lambda pool: seconds[pool].mean)
    known = [pool for pool in order if pool in mib and pool != BASE]
    texts = [f"{named(pool)} {seconds[pool]} and {mib[pool].mean:.1f}" for pool in known]
    return (
        "Seconds of an epoch (least to most of a dataset) and its memory, as multiples of those "
        f"without pooling: {', '.join(texts)}."
    )


class Top(NamedTuple):
    """The highest pooling on a dataset, those significantly below it, and leads that would be."""

    highest: str
    lower: list[str]
    visible: str


def tops(c: Comparison) -> dict[str, Top]:
    """On each dataset the highest pooling, and those significantly below it.

    By the corrected resampled t-test of means over the backbones; since the highest is picked by
    the same figures, corrected for all pairs of poolings on all datasets.
    """
    everyone, found = pairs_on_datasets(c), {}
    for dataset, accuracies in zip(c.datasets, c.blocks(c.means), strict=True):
        highest = c.pools[accuracies.argmax()]
        with_it = (everyone[["reference", "pool"]] == highest).any(axis=1)
        pairs = everyone[(everyone["dataset"] == dataset) & with_it]
        sure = pairs[pairs["p_holm"] < ALPHA]
        lower = {*sure["reference"], *sure["pool"]} - {highest}
        found[dataset] = Top(highest, [p for p in c.pools if p in lower], visible(pairs))
    return found


def pairs_on_datasets(c: Comparison) -> pd.DataFrame:
    """Every pooling against every other on each dataset, means over the networks."""
    return compare_over_splits([(c, list(itertools.combinations(c.pools, 2)))], ["dataset"])


def visible(pairs: pd.DataFrame) -> str:
    """From and to how many points a lead must be for these tests to tell it from chance."""
    if "smallest" not in pairs or pairs["smallest"].isna().all():
        return "–"
    return f"{pairs['smallest'].min():.1f} to {pairs['smallest'].max():.1f}"


def contenders(c: Comparison) -> str:
    """Who can be the best on each dataset, as a table."""
    rows = []
    for dataset, (highest, lower, seen) in tops(c).items():
        level = [pool for pool in c.pools if pool not in (highest, *lower)]
        names = (", ".join(map(STYLE.escape, some)) or "–" for some in ([highest], level, lower))
        rows.append([STYLE.escape(dataset), *names, seen])
    header = ["dataset", "highest", "cannot be told from it", "significantly below it",
              "a lead that would be seen, points"]  # fmt: skip
    return STYLE.grid(header, rows)


def fastest(pools: Iterable[str], seconds: Mapping[str, float]) -> str | None:
    """Who takes the least time; None where that is not known of all.

    >>> fastest(["a", "b"], {"a": 2.0, "b": 1.0}), fastest(["a", "c"], {"a": 2.0})
    ('b', None)
    """
    pools = list(pools)
    known = all(pool in seconds for pool in pools)
    return min(pools, key=lambda pool: seconds[pool]) if pools and known else None


def advice(c: Comparison, seconds: Mapping[str, float]) -> str:
    """Who is highest, or cannot be told from it, on the most datasets; who of them is fastest."""
    found = tops(c)
    lower = [top.lower for top in found.values()]
    if not any(lower):
        return "On no single dataset is any pooling significantly below the best one."
    able = {pool: sum(pool not in some for some in lower) for pool in c.pools}
    most = max(able.values())
    best = [pool for pool, n in able.items() if n == most]
    verb = "is" if len(best) == 1 else "are"
    said = (
        f"By means over the backbones, {listed(best)} {verb} highest, or not significantly below "
        "the highest, on "
    )
    if most == len(lower):
        said += "every dataset."
    else:
        said += f"{most} of {len(lower)} datasets, and no pooling on more."
    if len(best) > 1 and (quick := fastest(best, seconds)):
        said += f" Of these {quick} takes the least time."
    below = [
        f"{listed(top.lower)} on {dataset} (below {top.highest})"
        for dataset, top in found.items()
        if top.lower
    ]
    return f"{said} Significantly below the highest: {listed(below)}."


def where_ours_wins(c: Comparison, verdicts: Verdicts) -> tuple[str, str]:
    """LCPool − each other pooling in every group, bold where it is significant; and how often.

    The last row has the verdicts.
    """
    pairs = pairs_over_splits(c, GROUP, OURS)
    rivals = [pool for pool in c.pools if pool != OURS]
    entry = {(*(pair[n] for n in GROUP), pair["pool"]): pair for pair in pairs.to_dict("records")}
    rows = [
        [STYLE.escape(group[0]), " ".join(group[1:]),
         *(_difference(entry[*group, rival]) for rival in rivals)]
        for group in c.groups[GROUP].itertuples(index=False, name=None)
    ]  # fmt: skip
    over = {verdict.pool: verdict for verdict in verdicts.rivals}
    sure = (wins_and_losses(pairs[pairs["pool"] == rival]) for rival in rivals)
    rows.append(["significant", "", *(f"{better} better, {worse} worse" for better, worse in sure)])
    rows.append(["average dataset", "", *(_over(over[rival]) for rival in rivals)])
    header = ["dataset", "backbone", *map(STYLE.escape, rivals)]
    return STYLE.grid(header, rows), how_often(pairs)


def how_often(pairs: pd.DataFrame) -> str:
    """In how many comparisons with LCPool as the reference it is better, and worse."""
    better, worse = wins_and_losses(pairs)
    tested = int(pairs["p"].notna().sum())
    return (
        f"Of {count(tested, 'comparison')}, LCPool is significantly better in {better} and "
        f"significantly worse in {worse}. A lead below {visible(pairs)} points, depending on the "
        "cell, cannot be told from chance."
    )


def wins_and_losses(pairs: pd.DataFrame) -> tuple[int, int]:
    """How often the reference is significantly better, and worse."""
    sure = pairs[pairs["p_holm"] < ALPHA]["difference"]
    return int((sure > 0).sum()), int((sure < 0).sum())


def _difference(pair: dict[str, float]) -> str:
    text = signed(pair["difference"])
    return STYLE.bold(text) if pair["p_holm"] < ALPHA else text


def _over(verdict: Verdict) -> str:
    return STYLE.above(signed(verdict.mean), verdict.word)


def stay_connected(structure: pd.DataFrame) -> dict[str, Range]:
    """Of the connected graphs, how many percent each pooling leaves so; mean over datasets."""
    after = structure[structure["pool"] != BEFORE]
    shares = after.groupby("pool", sort=False)["stay_connected"]
    return {str(pool): Range(of.mean(), of.min(), of.max()) for pool, of in shares}


def connected_in_short(structure: pd.DataFrame) -> str:
    """Of every pooling that has a choice, the one that keeps most first."""
    shares = stay_connected(structure)
    order = sorted(shares.keys() - DENSE, key=lambda pool: -shares[pool].mean)
    texts = [f"{named(pool)} {shares[pool].percent()}" for pool in order]
    return (
        f"Connected graphs that stay connected, mean (least to most) over datasets: "
        f"{', '.join(texts)}. {ALIKE}"
    )


def connectivity(structure: pd.DataFrame) -> str:
    """Poolings down, datasets across; the graphs as they are first."""
    datasets, pools = (list(dict.fromkeys(structure[name])) for name in ("dataset", "pool"))
    by_name = {(row["pool"], row["dataset"]): row for row in structure.to_dict("records")}
    rows = [
        ["as they are" if pool == BEFORE else STYLE.escape(pool),
         *(_structure(by_name.get((pool, dataset))) for dataset in datasets)]
        for pool in pools
    ]  # fmt: skip
    return STYLE.grid(["", *map(STYLE.escape, datasets)], rows)


def _structure(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    share = row["connected_before" if row["pool"] == BEFORE else "stay_connected"]
    small = (
        f"parts {row['parts']:.3g}, density {row['density']:.2g}, diameter {row['diameter']:.3g}"
    )
    if row["pool"] != BEFORE and row["most"] > row["least"]:
        small = f"{row['least']:.0f} to {row['most']:.0f} %, {small}"
    return STYLE.above(f"{share:.1f} %", small)
