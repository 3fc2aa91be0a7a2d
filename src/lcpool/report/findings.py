"""What the figures say, in sentences; all of it computed."""

from __future__ import annotations

import itertools
import json
import math
import re
import shlex
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lcpool.report.cells import GROUP, RUN, Constant, agreeing, constants
from lcpool.report.comparison import (
    BACKBONE,
    DATASET,
    POOL,
    Comparison,
    Group,
    LeftOut,
    pairs_over_datasets,
    pairs_over_splits,
    part_name,
)
from lcpool.report.statistics import (
    ALPHA,
    FEWEST_RUNS,
    datasets_needed,
    rounded,
    smallest_signed_rank,
)
from lcpool.report.words import count, duration, figure, listed, p_value
from lcpool.sweep.engines.task import in_short

if TYPE_CHECKING:
    from lcpool.report.api import Report

FRESH = "lcpool bench … --split fresh"


def findings(report: Report) -> dict[str, list[str]]:
    """Sentences, by what they are about."""
    return {
        "answer": answer(report),
        "constant": constants_in_words(report.cells),
        "ranking": _ranking(report),
        "power": _power(report),
        "agreement": _agreement(report),
        "missing": _missing(report),
    }


def _agreement(report: Report) -> list[str]:
    """Nothing where there is no published figure for any cell."""
    if report.reference is None or report.cells["reference_mean"].isna().all():
        return []
    name, other = report.reference.name, int((~report.cells["default"]).sum())
    said = [f"No cell here can be judged against the {name}'s: that takes two runs."]
    if report.agreeing[1]:
        said = [agreement_in_words(report.cells, name)]
    if other:
        said.append(
            f"{count(other, 'cell')} of {len(report.cells)} were trained otherwise than the "
            f"{name}'s, and are not compared with it."
        )
    return said


def agreement_in_words(cells: pd.DataFrame, name: str) -> str:
    """How many cells agree with a reference; only where there is a cell that can be judged."""
    agree, judged = agreeing(cells)
    share = f"{100 * agree / judged:.1f} %"
    return f"{agree} of {count(judged, 'published cell')} agree with the {name} ({share})."


def _ranking(report: Report) -> list[str]:
    """Whether the poolings differ at all; nothing where there is too little to tell."""
    test = report.ranked.friedman
    if test is None:
        return []
    verdict = "differ" if test.permuted_p < ALPHA else "cannot be told apart"
    return [
        f"As a whole the poolings {verdict}: Friedman's χ² {test.statistic:.2f}, p "
        f"{p_value(test.p)}, by permutation {p_value(test.permuted_p)}; Iman and Davenport's F "
        f"{_finite(test.f)}, p {p_value(test.f_p)}."
    ]


def _power(report: Report) -> list[str]:
    """The smallest differences that this many datasets could show."""
    c = report.ranked
    n, k = len(c.datasets), len(c.pools)
    if c.empty:
        return []
    if n == 1:
        return [
            *_power_on_one_dataset(c),
            "One dataset is one block: no test over datasets is possible, and nothing here says "
            "how the poolings do on other data.",
        ]
    cd = c.critical_difference
    assert cd is not None
    pairs = k * (k - 1) // 2
    least, corrected = smallest_signed_rank(n), smallest_signed_rank(n, pairs)
    said = [
        f"With {n} datasets and {k} poolings, average ranks must lie {cd:.2f} apart to differ "
        f"(Nemenyi, α = {ALPHA:g}); the widest possible is {k - 1}."
        + (" So no two can." if cd > k - 1 else "")
    ]
    said.append(
        f"Wilcoxon's exact test of {n} datasets cannot give a p below {least:.4g}"
        + (
            f", nor, corrected for {count(pairs, 'comparison')}, below {corrected:.4g}."
            if k > 2
            else "."
        )
    )
    if corrected >= ALPHA:
        said.append(
            f"So by Wilcoxon's test no comparison can be significant at α = {ALPHA:g}, however "
            f"large the difference: that takes {datasets_needed(pairs)} datasets."
        )
    return said


def _power_on_one_dataset(c: Comparison) -> list[str]:
    pairs = pairs_over_splits(c, c.order[0], picked=True, by=["dataset"])
    if pairs.empty or pairs["p"].isna().all():
        return []
    low, high = pairs["smallest"].min(), pairs["smallest"].max()
    tests = count(int(pairs["tests"].iloc[0]), "comparison")
    return [
        f"With {count(int(pairs['splits'].min()), 'run')} and {tests}, a lead of {low:.1f} to "
        f"{high:.1f} points could be told from chance, depending on the pooling."
    ]


def _missing(report: Report) -> list[str]:
    """What is left out, and why."""
    said = report.not_ranked()
    if report.aside and report.reference is not None:
        variants, name = listed(sorted(report.aside)), report.reference.name
        said.append(f"{variants}, a variant, is not ranked, as in the {name}.")
    lost = int(report.cells["lost"].sum())
    if lost:
        said.append(
            f"{count(lost, 'run')} diverged before any epoch was chosen, and count nowhere."
        )
    late = int(report.runs["diverged"].notna().sum()) - lost
    if late > 0:
        said.append(f"{count(late, 'run')} diverged later; the epoch chosen until then counts.")
    few = int((report.cells["runs"] < FEWEST_RUNS).sum())
    if few:
        said.append(
            f"{count(few, 'cell')} of {len(report.cells)} {'has' if few == 1 else 'have'} fewer "
            f"than {FEWEST_RUNS} runs: no p and no interval there."
        )
    return [*said, *_same(report), *_set_aside(report)]


def _same(report: Report) -> list[str]:
    """Settings of one pooling that gave the same results, so that one of them is idle."""
    said = []
    for _, runs in report.runs.groupby("name", sort=False):
        table = runs.pivot(index=[*GROUP, *RUN], columns="pool", values="accuracy")
        for one, other in itertools.combinations(runs["pool"].unique(), 2):
            both = table[[one, other]].dropna()
            if len(both) and (both[one] == both[other]).all():
                said.append(f"{one} and {other} gave the same accuracy in every run.")
    return said


def _set_aside(report: Report) -> list[str]:
    """Cells that failed and have no run: the error, and where it was raised."""
    said = []
    for failure in report.results.failures:
        if failure.split == report.split:
            places = re.findall(r'File "(.*)", line (\d+)', failure.reason)
            where = f" ({places[-1][0]}:{places[-1][1]})" if places else ""
            names = " ".join(failure.names)
            said.append(f"Set aside: {names}: {in_short(failure.reason)}{where}")
    return said


def provenance(report: Report) -> dict[str, str]:
    """Where the runs come from."""
    runs = report.runs
    settings = pd.DataFrame([json.loads(config) for config in runs["config"]])
    spent = duration(float(runs["seconds"].sum()))
    splits = {
        "fresh": "fresh: a new one for each run, the same for every pooling",
        "shared": "shared: one for all runs",
    }
    return {
        "runs": f"{len(runs)} in {count(len(report.cells), 'cell')}, {spent} in all",
        **({"chosen": _chosen(report)} if report.chosen else {}),
        "split": splits[report.split],
        "epoch": f"chosen by validation {report.rule}",
        "at most": f"{_distinct(settings['epochs'])} epochs",
        "patience": f"{_distinct(settings['patience'])} epochs",
        "learning rate": _distinct(settings["lr"]),
        "batch size": _distinct(settings["batch_size"]),
        "seed": _distinct(runs["seed"]),
        "device": _distinct(runs["device"]),
        **{name: _distinct(runs[name]) for name in ("lcpool", "torch", "pyg", "python", "commit")},
    }


def _chosen(report: Report) -> str:
    """Which poolings and datasets the report is limited to."""
    words = {"pools": "poolings", "datasets": "datasets"}
    return "; ".join(f"{words[of]} {', '.join(names)}" for of, names in report.chosen.items())


def _distinct(column: pd.Series) -> str:
    return ", ".join(str(value) for value in sorted(set(column.dropna()) - {""})) or "unknown"


def _finite(f: float) -> str:
    return f"{f:.2f}" if math.isfinite(f) else "∞"


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


def constants_in_words(cells: pd.DataFrame) -> list[str]:
    """A sentence for each pooling and dataset with runs that predict one class."""
    several = len(cells.drop_duplicates(["backbone", "conv"])) > 1
    return [_sentence(found, several) for found in constants(cells)]


def _sentence(found: Constant, several: bool) -> str:
    runs = "run predicts" if found.of == 1 else "runs predict"
    said = (
        f"{found.pool} on {found.dataset}: {found.runs} of {found.of} {runs} one class for all "
        "test graphs"
    )
    if several:
        said += f" ({'; '.join(f'{b}, {conv}: {n}' for (b, conv), n in found.groups.items())})"
    if found.largest is None:
        return f"{said}."
    return f"{said}; the largest class has {found.largest:.1f} %."


def not_ranked(report: Report) -> list[str]:
    """For each part that is not ranked: which cells are missing, and how to compare it anyway."""
    groups = set(report.cells[GROUP].itertuples(index=False, name=None))
    return [
        f"Not ranked: {lacks(part, 'no results', groups)}.{_hint(part)}"
        for part in report.ranked.left_out
    ]


def lacks(part: LeftOut, what: str, groups: Collection[Group]) -> str:
    """A part and its missing cells; a dataset, or a pooling, that has none at all by its name."""
    if part.kind == POOL:
        lacking = [(cell[0], ", ".join(cell[1:3])) for cell in part.missing]
        own = {(group[0], part_name(group, BACKBONE)) for group in groups}
        return f"{part.name}, which has {what} on {_places(lacking, own)}"
    other = BACKBONE if part.kind == DATASET else DATASET
    lacking = [(cell[3], part_name(cell[:3], other)) for cell in part.missing]
    places = [
        part_name(group, other) for group in groups if part_name(group, part.kind) == part.name
    ]
    own = {(pool, place) for pool, _ in lacking for place in places}
    called = part.name if part.kind == DATASET else f"the backbone {part.name}"
    return f"{called}, where there are {what} of {_places(lacking, own)}"


def _hint(part: LeftOut) -> str:
    if not part.compare:
        return ""
    option = "--datasets" if part.kind == POOL else "--pools"
    return f" To compare it anyway: {option} {shlex.quote(','.join(part.compare))}"


def _places(lacking: Sequence[tuple[str, str]], own: Collection[tuple[str, str]]) -> str:
    """Names with what each lacks in parentheses; without, where that is all it could have.

    >>> own = {("A", "x"), ("A", "y"), ("B", "x"), ("B", "y"), ("C", "x"), ("C", "y")}
    >>> _places([("A", "x"), ("B", "x"), ("C", "x"), ("C", "y")], own)
    'A and B (x); C'
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(name for name, _ in lacking):
        details = tuple(detail for other, detail in lacking if other == name)
        whole = {detail for other, detail in own if other == name} == set(details)
        alike.setdefault(() if whole else details, []).append(name)
    texts = (
        listed(names) + (f" ({'; '.join(details)})" if details else "")
        for details, names in alike.items()
    )
    return "; ".join(texts)
