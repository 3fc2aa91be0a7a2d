"""Both readings of the paper beside its figures: ``python -m paper harness paper/results``.

How near is each to the published cells, do the same poolings lead, and which pooling lies below or
above its published accuracy? The rules are those of the plan, ``results/harness/README.md``, into
which the result is written. Readings are compared in the same cells and runs, so that neither has
the more certain means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from lcpool.report.cells import CELL, GROUP, shown_pools
from lcpool.report.statistics import Difference, over_datasets
from lcpool.report.tables import Markdown
from lcpool.settings import POOLS
from lcpool.sweep.results import Results
from lcpool.words import listed, signed
from paper.claims import MARGIN
from paper.harness import NETWORKS, POOLINGS
from paper.published import OURS, PAPER_RUNS, VARIANT, published, reference

BEGIN, END = "<!-- begin: python -m paper harness -->", "<!-- end: python -m paper harness -->"
STYLE = Markdown()
FIRST, SECOND, CHAIN = "the text", "the harness", "the harness, seed 0 in a chain"
ON_SHARED = f"{FIRST}, shared split"  # the first reading beside the chain
# A group's mean says something where so many poolings beside LCPool have runs.
OTHERS = 3
VALUES = {"accuracy": "test_accuracy", "loss": "test_accuracy_by_loss"}
# Where LCPool's definition is tried, and where the best try is confirmed.
TRIED, CONFIRMED = ("COX2", "ENZYMES", "PROTEINS"), ("NCI1", "Mutagenicity", "DD")


class Nearness(NamedTuple):
    """How near a reading is to the published cells, in points; NaN where it cannot be said."""

    distance: float  # root mean square of ours − paper
    expected: float  # what it would be, were ours and the paper's one distribution
    correlation: float
    of_leads: float  # over the mean of the group
    groups: int  # that count for leads


@dataclass(frozen=True)
class Reading:
    """The published cells that a reading has runs of.

    Attributes:
        name: which reading.
        rule: "accuracy" or "loss", by which epochs were chosen.
        cells: a row per cell: mean, std, runs, test graphs, and the paper's mean and deviation.
    """

    name: str
    rule: str
    cells: pd.DataFrame

    @classmethod
    def of(cls, name: str, rule: str, runs: pd.DataFrame) -> Reading:
        value = runs[VALUES[rule]]
        groups = runs.assign(value=value).dropna(subset="value").groupby(CELL, sort=False)
        cells = groups.agg(
            mean=("value", "mean"), std=("value", "std"), runs=("value", "count"),
            tested=("num_test", "mean"),
        ).reset_index()  # fmt: skip
        paper = [published(*cell) or (np.nan, np.nan) for cell in cells[CELL].to_numpy()]
        cells[["paper", "paper_std"]] = np.array(paper).reshape(-1, 2)
        return cls(name, rule, cells.dropna(subset="paper").reset_index(drop=True))

    def nearness(self) -> Nearness:
        c = self.cells
        off = c["mean"] - c["paper"]
        p = c["mean"] / 100
        variance = (
            1e4 * p * (1 - p) / c["tested"] + c["std"].fillna(0) ** 2 / c["runs"]
            + c["paper_std"] ** 2 / PAPER_RUNS
        )  # fmt: skip
        leads = self.leads()
        return Nearness(
            float(np.sqrt((off**2).mean())), float(np.sqrt(variance.mean())),
            _correlation(c["mean"], c["paper"]), _correlation(leads["mean"], leads["paper"]),
            len(leads[GROUP].drop_duplicates()),
        )  # fmt: skip

    def leads(self) -> pd.DataFrame:
        """The cells of groups with LCPool and ``OTHERS`` more, less the mean of the group."""
        full = self.cells.groupby(GROUP)["pool"].transform(
            lambda pools: OURS in set(pools) and len(set(pools) - {OURS, VARIANT}) >= OTHERS
        )
        cells = self.cells[full.astype(bool)]
        means = cells.groupby(GROUP)[["mean", "paper"]].transform("mean")
        return cells.assign(**{name: cells[name] - means[name] for name in means})

    def differences(self) -> dict[str, Difference]:
        """Ours − paper by pooling, over datasets; a dataset is the mean of its cells."""
        off = (self.cells["mean"] - self.cells["paper"]).groupby(
            [self.cells["pool"], self.cells["dataset"]]
        )
        found = {}
        for pool, by_dataset in off.mean().groupby(level=0):
            values = by_dataset.to_numpy()
            found[str(pool)] = over_datasets(values) or Difference(
                float(values.mean()), np.nan, np.nan, len(values)
            )
        return {pool: found[pool] for pool in POOLS if pool in found}


def named(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of the harness's networks and poolings, by the paper's names."""
    return runs.assign(
        backbone=runs["backbone"].replace(NETWORKS), pool=runs["pool"].replace(POOLINGS)
    )


def readings(folder: Path) -> list[Reading]:
    """What there is of the harness, each after the first reading in the same cells and runs."""
    found = []
    for name, file, before, beside in (
        (SECOND, "runs.csv", FIRST, "runs-fresh.csv"),
        (CHAIN, "runs-chain.csv", ON_SHARED, "runs-shared.csv"),
    ):
        if not (folder / "harness" / file).exists():
            continue
        theirs = named(Results.read(folder / "harness" / file).runs)
        first = Results.read(folder / "paper" / beside).runs
        same = first.merge(theirs[[*CELL, "run"]].drop_duplicates(), on=[*CELL, "run"])
        found += [Reading.of(before, rule, same) for rule in VALUES]
        found.append(Reading.of(name, "loss", theirs))
    return found


class Tried(NamedTuple):
    """A try: its lead over LCPool by dataset, in the same cells and runs."""

    name: str
    leads: Mapping[str, float]

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.leads.values())))


def tried(default: pd.DataFrame, others: pd.DataFrame) -> list[Tried]:
    """Every try with its leads, highest first."""
    others = named(others).assign(pool=shown_pools(others))
    usual = named(default).query("pool == @OURS")
    keys = [*GROUP, "run"]
    pairs = others.merge(usual, on=keys, suffixes=("", "_usual"))
    pairs["lead"] = pairs[VALUES["loss"]] - pairs[f"{VALUES['loss']}_usual"]
    cells = pairs.groupby(["pool", *GROUP], sort=False)["lead"].mean()
    by_dataset = cells.groupby(["pool", "dataset"], sort=False).mean()
    found = [
        Tried(str(pool), part.droplevel(0).to_dict()) for pool, part in by_dataset.groupby(level=0)
    ]
    return sorted(found, key=lambda one: -one.mean)


def write(folder: Path) -> Path:
    """Write the result into the plan."""
    page = folder / "harness" / "README.md"
    before, rest = page.read_text("utf-8").split(BEGIN)
    text = "\n\n".join(said(folder)) or "No runs yet."
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", "utf-8")
    return page


def said(folder: Path) -> Iterator[str]:
    """The tables, and what they show."""
    found = readings(folder)
    yield from (answer(one) for one in found if one.name not in (FIRST, ON_SHARED))
    if found:
        yield _nearness(found)
        yield _differences(found)
    names = ("runs", "runs-tries", "runs-confirm")
    runs, tries, confirm = (folder / "harness" / f"{name}.csv" for name in names)
    if tries.exists() and runs.exists():
        default = Results.read(runs).runs
        after = tried(default, Results.read(confirm).runs) if confirm.exists() else []
        yield _tries(tried(default, Results.read(tries).runs), after)
    elif found:
        yield "The tries: no runs yet."


def answer(reading: Reading) -> str:
    """Whether LCPool lies below its published accuracy where the baselines do not."""
    cells, all_cells = reading.cells, len(reference().figures)
    datasets = list(dict.fromkeys(cells["dataset"]))
    off = reading.differences()
    few = (
        f"{reading.name[0].upper()}{reading.name[1:]}: {len(cells)} of {all_cells} published cells "
        f"have runs, {cells['runs'].min()} to {cells['runs'].max()} each, on {listed(datasets)}."
    )
    base = [one.mean for pool, one in off.items() if pool not in (OURS, VARIANT)]
    if OURS not in off or not base:
        return f"{few} Nothing can be said of LCPool beside the baselines."
    ours, mean = off[OURS], float(np.mean(base))
    beside = f"LCPool is {signed(ours.mean, 1)} points from its published accuracy"
    if np.isnan(ours.low):
        known = f"{beside}, the baselines {signed(mean, 1)} on average"
        return f"{few} {known}; one dataset decides nothing."
    beside += f" ({signed(ours.low, 1)} to {signed(ours.high, 1)} over datasets)"
    below = ours.high < 0 and ours.high < mean
    verdict = (
        "so LCPool as the paper describes it lies below what the paper reports, and the baselines "
        "do not lie as far"
        if below
        else "that LCPool lies below its published accuracy where the baselines do not is not shown"
    )
    return f"{few} {beside}, the baselines {signed(mean, 1)} on average; {verdict}."


def _nearness(found: list[Reading]) -> str:
    rows = []
    for one in found:
        near = one.nearness()
        rows.append([
            one.name, one.rule, str(len(one.cells)),
            *(_number(x) for x in near[:4]), str(near.groups),
        ])  # fmt: skip
    header = [
        "reading", "epoch by validation", "cells", "distance to the paper, points",
        "if it were exactly right", "correlation", "correlation of leads", "groups",
    ]  # fmt: skip
    return (
        f"{STYLE.grid(header, rows)}\n\nThe distance is a root mean square over cells. It would be "
        "that of the next column by the noise of test graphs and runs alone."
    )


def _differences(found: list[Reading]) -> str:
    rows = []
    for one in found:
        off = one.differences()
        rows.append([one.name, one.rule, *(_entry(off.get(pool)) for pool in POOLS)])
    header = ["ours − paper, points", "epoch by validation", *map(STYLE.escape, POOLS)]
    return f"{STYLE.grid(header, rows)}\n\nMean over datasets, small below its 95 % interval."


def _tries(found: list[Tried], after: list[Tried]) -> str:
    datasets = list(dict.fromkeys(name for one in found for name in one.leads))
    rows = [
        [STYLE.escape(one.name),
         *(signed(one.leads[name], 1) if name in one.leads else "–" for name in datasets),
         signed(one.mean, 1)]
        for one in found
    ]  # fmt: skip
    table = STYLE.grid(["try − LCPool, points", *datasets, "mean"], rows)
    return f"{table}\n\nOf {len(found)} tries with runs, {confirmation(found, after)}."


def confirmation(found: list[Tried], after: list[Tried]) -> str:
    """Whether the highest of the tries leads by enough, and leads again where it is confirmed.

    A try counts when it has runs on all datasets of its step.
    """
    whole = [one for one in found if set(TRIED) <= set(one.leads)]
    if not whole:
        return f"none has them on all of {listed(TRIED)}: nothing is decided"
    best = whole[0]
    if best.mean < MARGIN:
        return f"none leads LCPool by {MARGIN:g} point: nothing is to be confirmed"
    again = [one for one in after if one.name == best.name and set(CONFIRMED) <= set(one.leads)]
    if not again:
        return f"{best.name} is to be confirmed on {listed(CONFIRMED)}"
    lead = again[0].mean
    explains = "explains" if lead >= MARGIN else "does not explain"
    return (
        f"{best.name} leads most; on {listed(CONFIRMED)} its lead is {signed(lead, 1)} points: it "
        f"{explains} the published figures"
    )


def _correlation(one: pd.Series, other: pd.Series) -> float:
    varied = len(one) > 2 and one.std() > 0 and other.std() > 0
    return float(np.corrcoef(one, other)[0, 1]) if varied else np.nan


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}"


def _entry(off: Difference | None) -> str:
    if off is None:
        return "–"
    if np.isnan(off.low):
        return signed(off.mean, 1)
    return STYLE.above(signed(off.mean, 1), f"{signed(off.low, 1)} to {signed(off.high, 1)}")
