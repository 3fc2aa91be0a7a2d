"""What the figures say, in sentences; all of it computed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lcpool.data.splits import Scheme, of_family
from lcpool.report.cells import agreeing
from lcpool.report.comparison import Comparison, Group, pairs_over_datasets, pairs_over_splits
from lcpool.report.measure import Measure
from lcpool.report.schemes import in_words, name_of_test, no_test
from lcpool.report.statistics import ALPHA, FEWEST_RUNS, rounded, smallest_signed_rank
from lcpool.report.words import count, duration, listed, p_value
from lcpool.sweep.engine import in_short

if TYPE_CHECKING:
    from lcpool.report.api import Report


def findings(report: Report) -> dict[str, list[str]]:
    """Sentences, by topic."""
    return {
        "answer": answer(report.ranked),
        "constant": constants_in_words(report.cells),
        "ranking": _ranking(report.ranked),
        "power": _power(report.ranked),
        "agreement": _agreement(report),
        "missing": _missing(report),
    }


def answer(c: Comparison) -> list[str]:
    """Which pooling is best, by how much, and whether that could be chance."""
    if c.empty:
        return ["Nothing to compare: no two poolings have results in the same groups."]
    return _on_one_dataset(c) if len(c.datasets) == 1 else _over_datasets(c)


def _on_one_dataset(c: Comparison) -> list[str]:
    first, second = c.order[:2]
    runs = c.on_splits(c.where())
    m = c.measure
    written = {
        pool: m.figure(m.sign * runs[pool].mean(), runs[pool].std(ddof=1)) + m.metric.unit
        for pool in (first, second)
    }
    place = c.datasets[0]
    if len(c.groups) > 1:
        place += f", mean over {count(len(c.groups), 'network')}"
    mean = dict(zip(c.pools, c.blocks(c.means)[0], strict=True))
    equally, most = "are equally accurate", "is the most accurate"
    lead = m.amount(mean[first] - mean[second])
    if m.title != "accuracy":
        equally, most = f"have the same {m.title}", f"has the {m.best} {m.title}"
    if len(c.first) > 1:
        return [f"{listed(c.first)} {equally} on {place}: {written[first]}."]
    said = [
        f"{first} {most} on {place}: {written[first]}, {lead} "
        f"{'above' if m.metric.higher else 'below'} the next, {second} ({written[second]})."
    ]
    test = name_of_test(c.schemes[c.datasets[0]])
    return [*said, why_no_test(c) or _significance(pairs_over_splits(c, ["dataset"]), test)]


def _over_datasets(c: Comparison) -> list[str]:
    first, *others = c.order
    average, blocks = c.rank, c.blocks(c.means)
    at, best = c.pools.index(first), blocks == blocks.max(axis=1, keepdims=True)
    highest, shared = int(best[:, at].sum()), int((best[:, at] & (best.sum(axis=1) > 1)).sum())
    over = count(len(c.datasets), "dataset")
    if len(c.first) > 1:
        return [f"{listed(c.first)} share the first rank over {over} ({average[first]:.2f})."]
    m = c.measure
    most = "most accurate" if m.title == "accuracy" else f"{m.best} {m.title}"
    following = [pool for pool in others if average[pool] == average[others[0]]]
    said = (
        f"{first} ranks first over {over}: average rank {average[first]:.2f} among "
        f"{count(len(c.pools), 'pooling')}, {most} on {highest}"
        f"{f' ({shared} shared)' if shared else ''}. Next "
        f"{'is' if len(following) == 1 else 'are'} {listed(following)} ({average[others[0]]:.2f})."
    )
    mean = rounded(blocks.mean(axis=0))
    if m.one_scale and mean[at] < mean.max():
        ahead = c.pools[mean.argmax()]
        lead = m.amount(mean.max() - mean[at])
        beyond = "above" if m.metric.higher else "below"
        said += f" By mean {m.title} {ahead} is first, {lead} {beyond} it."
    pairs = pairs_over_datasets(c)
    if smallest_signed_rank(len(c.datasets), int(pairs["tests"].iloc[0])) < ALPHA:
        return [said, _significance(pairs, "Wilcoxon's test over the datasets")]
    # With few datasets that test cannot be significant, whatever the difference; ranks can.
    behind = [average[pool] - average[first] for pool in pairs["pool"]]
    by_ranks = pairs.assign(difference=behind, p_holm=pairs["p_nemenyi"])
    return [said, _significance(by_ranks, "Nemenyi's test of the average ranks")]


def _significance(pairs: pd.DataFrame, test: str) -> str:
    """Which leads are significant, and which could be chance."""
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
        f"The lead over {listed(sure)} is significant (p {most}, {by}); the lead over "
        f"{listed(rest)} could be chance."
    )


def why_no_test(c: Comparison) -> str:
    """Why there is no test on single datasets; nothing if there is one."""
    if c.empty:
        return ""
    if not c.varied:
        return no_test(c.schemes[c.datasets[0]])
    pairs = pairs_over_splits(c, ["dataset"])
    if pairs["p"].notna().any():
        return ""
    runs = int(pairs["splits"].min())
    if runs < FEWEST_RUNS:
        of = "split" if c.schemes[c.varied[0]].kind == "predefined" else "run"
        return f"{count(runs, of)} are too few for a test, which needs {FEWEST_RUNS}."
    return "No test: the poolings differ by the same number of points in every run."


def constants_in_words(cells: pd.DataFrame) -> list[str]:
    """A sentence for each pooling and dataset with runs that predict a single class."""
    said = []
    for (dataset, pool), part in cells.groupby(["dataset", "pool"], sort=False):
        if runs := int(part["constant"].sum()):
            largest = part["largest_class"].mean()
            said.append(
                f"{pool} on {dataset}: {runs} of {count(int(part['constant_of'].sum()), 'run')} "
                "predicted the same class for all test graphs"
                + ("." if pd.isna(largest) else f"; the largest class has {largest:.1f} %.")
            )
    return said


def _ranking(c: Comparison) -> list[str]:
    """Whether the poolings differ at all; nothing with too little to tell."""
    test = c.friedman
    if test is None:
        return []
    verdict = "differ" if test.permuted_p < ALPHA else "cannot be told apart"
    return [
        f"As a whole the poolings {verdict}: Friedman's χ² {test.statistic:.2f}, p "
        f"{p_value(test.p)}, by permutation {p_value(test.permuted_p)}."
    ]


def _power(c: Comparison) -> list[str]:
    """The smallest differences that this many datasets or runs could show."""
    n, k, cd = len(c.datasets), len(c.pools), c.critical_difference
    if c.empty:
        return []
    if cd is None:
        return [
            *_power_on_one_dataset(c),
            "These are results on one dataset: they do not show how the poolings do on other data.",
        ]
    pairs = k * (k - 1) // 2
    said = [
        f"With {n} datasets and {k} poolings, average ranks must be {cd:.2f} apart to differ "
        f"(Nemenyi, α = {ALPHA:g}); they can be at most {k - 1} apart."
    ]
    if smallest_signed_rank(n, pairs) >= ALPHA:
        said.append(
            f"Wilcoxon's test, corrected for {count(pairs, 'comparison')}, cannot be significant "
            f"with {n} datasets."
        )
    return said


def _power_on_one_dataset(c: Comparison) -> list[str]:
    if why_no_test(c):
        return []
    pairs = pairs_over_splits(c, ["dataset"])
    tests, smallest = count(int(pairs["tests"].iloc[0]), "comparison"), pairs["smallest"]
    return [
        f"With {count(int(pairs['splits'].min()), 'run')} and {tests}, a lead is significant from "
        f"{_span(c.measure, smallest)} on, depending on the pooling."
    ]


def _span(measure: Measure, values: pd.Series) -> str:
    digits = 1 if measure.metric.percent else measure.digits
    return f"{values.min():.{digits}f} to {measure.amount(values.max(), digits)}"


def _agreement(report: Report) -> list[str]:
    """Nothing where there is no published figure for any cell."""
    if report.cells["reference_mean"].isna().all():
        return []
    name, other = report.reference.name, int((~report.cells["default"]).sum())
    said = [f"No cell can be compared with the {name}: that needs two runs."]
    if report.agreeing[1]:
        said = [agreement_in_words(report.cells, name)]
    if other:
        said.append(
            f"{count(other, 'cell')} of {len(report.cells)} had other settings than the {name}'s "
            "and are not compared."
        )
    return said


def agreement_in_words(cells: pd.DataFrame, name: str) -> str:
    """How many cells agree with a reference; only where there is a cell that can be judged."""
    agree, judged = agreeing(cells)
    share = f"{100 * agree / judged:.1f} %"
    return f"{agree} of {count(judged, 'published cell')} agree with the {name} ({share})."


def _missing(report: Report) -> list[str]:
    """What is left out, and why."""
    said = report.not_ranked()
    if report.aside:
        verb = "is" if len(report.aside) == 1 else "are"
        said.append(f"{listed(sorted(report.aside))} {verb} shown, but not ranked.")
    without, diverged = report.runs["value"].isna(), report.runs["diverged"].notna()
    if lost := int((without & diverged).sum()):
        said.append(f"{count(lost, 'run')} diverged before an epoch was chosen: not counted.")
    if undefined := int((without & ~diverged).sum()):
        said.append(
            f"{count(undefined, 'run')} {'has' if undefined == 1 else 'have'} no "
            f"{report.measure.title}, which cannot be computed on their test graphs: not counted."
        )
    late = int(diverged.sum()) - lost
    if late > 0:
        said.append(f"{count(late, 'run')} diverged after the chosen epoch: counted.")
    if few := int((report.cells["runs"] < FEWEST_RUNS).sum()):
        said.append(
            f"{few} of {count(len(report.cells), 'cell')} {'has' if few == 1 else 'have'} fewer "
            f"than {FEWEST_RUNS} runs: no p and no interval there."
        )
    return [*said, *_failed(report)]


def left_out_in_words(c: Comparison, lacks: str = "no result") -> list[str]:
    """A sentence for each pooling that is not ranked, and for the groups that are not."""
    every = [*c.groups.itertuples(index=False, name=None), *c.left_out.groups]
    said = [
        f"Not ranked: {pool}, which has {lacks} in {len(groups)} of {count(len(every), 'group')}."
        for pool, groups in c.left_out.pools.items()
    ]
    alike: dict[tuple[str, ...], list[Group]] = {}
    for group, pools in c.left_out.groups.items():
        alike.setdefault(tuple(pools), []).append(group)
    return said + [
        f"Left out of the ranking: {_named_groups(groups, every)}, with {lacks} of {listed(pools)}."
        for pools, groups in alike.items()
    ]


def _named_groups(groups: Sequence[Group], every: Sequence[Group]) -> str:
    """Groups in words; a dataset of which all groups are meant by its name alone.

    >>> every = [("A", "plain", "gcn"), ("A", "plain", "graphconv"), ("B", "plain", "gcn")]
    >>> _named_groups(every[1:], every)
    'A (plain graphconv); B'
    """
    texts = []
    for dataset in dict.fromkeys(group[0] for group in groups):
        meant, whole = ([g for g in some if g[0] == dataset] for some in (groups, every))
        networks = "; ".join(" ".join(group[1:]) for group in meant)
        texts.append(dataset if len(meant) == len(whole) else f"{dataset} ({networks})")
    return "; ".join(texts)


def _failed(report: Report) -> list[str]:
    """Cells that failed and have no run: the error, and where it was raised."""
    said = []
    for failure in report.results.failures:
        if of_family([failure.split], report.split):
            places = re.findall(r'File "(.*)", line (\d+)', failure.reason)
            where = f" ({':'.join(places[-1])})" if places else ""
            said.append(f"Failed: {' '.join(failure.names)}: {in_short(failure.reason)}{where}")
    return said


def provenance(report: Report) -> dict[str, str]:
    """Where the runs come from."""
    runs = report.runs
    settings = pd.DataFrame([json.loads(config) for config in runs["config"]])
    spent = duration(float(runs["seconds"].sum()))
    words = {"pools": "poolings", "datasets": "datasets"}
    chosen = "; ".join(f"{words[of]} {', '.join(names)}" for of, names in report.chosen.items())
    return {
        "runs": f"{len(runs)} in {count(len(report.cells), 'cell')}, {spent} in all",
        **({"chosen": chosen} if chosen else {}),
        "split": in_words(Scheme.of(report.split)),
        "epoch": f"chosen by validation {report.rule_title}",
        "at most": f"{_distinct(settings['epochs'])} epochs",
        "patience": f"{_distinct(settings['patience'])} epochs",
        "learning rate": _distinct(settings["lr"]),
        "batch size": _distinct(settings["batch_size"]),
        **{name: _distinct(runs[name])
           for name in ("seed", "device", "lcpool", "torch", "pyg", "python", "commit")},
    }  # fmt: skip


def _distinct(column: pd.Series) -> str:
    return ", ".join(str(value) for value in sorted(set(column.dropna()) - {""})) or "unknown"
