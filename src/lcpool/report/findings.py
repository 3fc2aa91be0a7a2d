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
from lcpool.report.comparison import Comparison, Group, pairs_over_splits
from lcpool.report.schemes import in_words, no_test
from lcpool.report.statistics import ALPHA, FEWEST_RUNS
from lcpool.report.verdict import NO_POOLING, POWER, SURE, Verdicts
from lcpool.sweep.engine import in_short
from lcpool.words import between, count, duration, listed, p_value, signed

if TYPE_CHECKING:
    from lcpool.report.api import Report


# More datasets than these are not counted.
MANY = 200


def findings(report: Report) -> dict[str, list[str]]:
    """Sentences, by topic."""
    return {
        "answer": answer(report),
        "constant": constants_in_words(report.cells),
        "power": _power(report),
        "sensitivity": _sensitivity(report),
        "ranking": _ranking(report.ranked),
        "agreement": _agreement(report),
        "missing": _missing(report),
    }


def answer(report: Report) -> list[str]:
    """Which pooling to take, what is decided, and what it would take to decide the rest."""
    verdicts = report.verdicts
    if not verdicts.rivals:
        return ["Nothing to compare: no two poolings have results in the same groups."]
    if len(report.ranked.datasets) == 1 and not report.ranked.empty:
        return [_on_one_dataset(report.ranked), *_only_there(verdicts)]
    return [
        _take(verdicts),
        *_ahead(verdicts),
        *_undecided(verdicts),
        *_picked(report),
        *_not_converged(verdicts),
    ]


def _on_one_dataset(c: Comparison) -> str:
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
    mean = dict(zip(c.pools, c.means.mean(axis=0), strict=True))
    equally, most = "are equally accurate", "is the most accurate"
    lead = m.amount(mean[first] - mean[second])
    if m.title != "accuracy":
        equally, most = f"have the same {m.title}", f"has the {m.best} {m.title}"
    if len(c.first) > 1:
        return f"{listed(c.first)} {equally} on {place}: {written[first]}."
    return (
        f"{first} {most} on {place}: {written[first]}, {lead} "
        f"{'above' if m.metric.higher else 'below'} the next, {second} ({written[second]})."
    )


def _only_there(v: Verdicts) -> list[str]:
    """The verdicts on a single dataset, or why there are none."""
    if reasons := {verdict.why_not for verdict in v.rivals if verdict.why_not}:
        return sorted(reasons)
    return [f"There, {_relations(v)}. {_equal(v)} This says nothing about other data."]


# What a verdict says of the reference.
RELATIONS = {
    "better": "better than", "not worse": "at least as good as", "equal": "equal to",
    "not better": "at best as good as", "worse": "worse than", "undecided": "undecided against",
}  # fmt: skip


def _relations(v: Verdicts) -> str:
    """The reference and all rivals, by verdict."""
    by_word = {word: [r.pool for r in v.rivals if r.word == word] for word in RELATIONS}
    said = [f"{RELATIONS[word]} {listed(pools)}" for word, pools in by_word.items() if pools]
    return f"{v.reference} is {'; '.join(said)}"


def _take(v: Verdicts) -> str:
    words = {rival.word for rival in v.rivals}
    if words == {"undecided"}:
        rivals = listed([rival.pool for rival in v.rivals], "or")
        return (
            f"Undecided: on the average dataset these runs do not tell whether {v.reference} is "
            f"better or worse than {rivals}. {_equal(v)}"
        )
    beaten = [rival.pool for rival in v.rivals if rival.word == "worse"]
    if beaten:
        advice = f"Take {beaten[0]}, not {v.reference}"
    elif words & {"not better", "undecided"}:
        rest = [r.pool for r in v.rivals if r.word in ("not better", "undecided")]
        advice = f"Take {listed([v.reference, *rest], 'or')}"
    else:
        advice = f"Take {v.reference}"
    return f"{advice}: on the average dataset {_relations(v)}. {_equal(v)}"


def _equal(v: Verdicts) -> str:
    return (
        f"Differences of up to {amount_of_points(v)} count as equal, and a verdict takes a "
        f"probability of {SURE:g}."
    )


def amount_of_points(v: Verdicts) -> str:
    """The margin, in words."""
    word = v.comparison.measure.points
    return f"{v.margin:g} {word.removesuffix('s') if v.margin == 1 else word}"


def _ahead(v: Verdicts) -> list[str]:
    """Whom the reference is ahead of, but not surely by more than the margin."""
    ahead = [r for r in v.rivals if r.word == "not worse" and r.ahead >= SURE]
    if not ahead:
        return []
    named = listed([f"{r.pool} ({signed(r.mean, 1)})" for r in reversed(ahead)])
    return [
        f"It is ahead of {named} with that probability; whether by more than "
        f"{amount_of_points(v)} is open."
    ]


def _undecided(v: Verdicts) -> list[str]:
    """What it would take to decide the others."""
    said = []
    for rival in v.rivals:
        if rival.word == "undecided" and np.isfinite(more := rival.more_datasets):
            about = f"about {more:.0f}" if more <= MANY else f"more than {MANY}"
            said.append(f"{rival.pool} {about} ({signed(rival.mean, 1)})")
    if not said:
        return []
    return [
        "How many more such datasets it would take to say better, equal or worse, if the "
        f"difference stays the same (most where it is near {amount_of_points(v)}): "
        f"{'; '.join(said)}."
    ]


def _picked(report: Report) -> list[str]:
    """That the reference was picked by the same runs, and the best that makes graphs smaller."""
    v, c = report.verdicts, report.ranked
    if v.named or c.empty:
        return []
    said = f"{v.reference} was picked for its {c.measure.best} mean by these same runs"
    if not c.measure.one_scale:
        said = f"{v.reference} was picked for its average rank in these same runs"
    said += ", which flatters it a little."
    if v.reference == NO_POOLING and len(c.pools) > 1:
        blocks = dict(zip(c.pools, c.blocks(c.means).mean(axis=0), strict=True))
        best = max((pool for pool in c.pools if pool != NO_POOLING), key=blocks.__getitem__)
        said += f" Of the poolings that make graphs smaller, {best} has the {c.measure.best} mean."
    return [said]


def _not_converged(v: Verdicts) -> list[str]:
    wrong = [r.pool for r in v.rivals if r.draws is not None and not r.draws.converged]
    if not wrong:
        return []
    return [
        f"Do not rely on the verdict on {listed(wrong)}: the sampler's chains do not agree. Look "
        "at the single datasets."
    ]


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
    """Whether the poolings differ at all by their ranks; nothing with too little to tell."""
    test, cd = c.friedman, c.critical_difference
    if test is None or cd is None:
        return []
    verdict = "differ" if test.permuted_p < ALPHA else "cannot be told apart"
    return [
        f"By their ranks alone the poolings {verdict} as a whole: Friedman's χ² "
        f"{test.statistic:.2f}, p {p_value(test.p)}, by permutation {p_value(test.permuted_p)}. "
        f"With {len(c.datasets)} datasets and {len(c.pools)} poolings, average ranks must be "
        f"{cd:.2f} apart to differ (Nemenyi, α = {ALPHA:g})."
    ]


def _power(report: Report) -> list[str]:
    """What could have been found, and how many verdicts may be wrong."""
    v, c = report.verdicts, report.ranked
    if not v.rivals or c.empty:
        return []
    if len(c.datasets) == 1:
        return _power_on_one_dataset(c)
    able = v.table[v.table["detectable"].notna()]
    if able.empty:
        return []
    found, equal = able["detectable"], able["equal_if_equal"]
    wrong = [rival.doubt for rival in v.rivals if rival.word != "undecided"]
    said = [
        f"With these datasets and runs, a true difference of {between(found, 1)} "
        f"{c.measure.points}, depending on the pooling, would be found with probability {POWER:g}; "
        "poolings without any difference would be found equal with probability "
        f"{between(equal, 2)} (by simulation).",
    ]
    if wrong:
        said.append(
            f"Verdicts are not corrected for their number: of {count(len(wrong), 'verdict')}, "
            f"{sum(wrong):.2f} are expected to be wrong."
        )
    return said


def _sensitivity(report: Report) -> list[str]:
    """Which verdicts are others by other priors, by the other rule, on informative datasets."""
    verdicts = {rival.pool: rival.word for rival in report.verdicts.rivals}
    table = report.sensitivity
    if table.empty:
        return []
    changes, same = [], []
    for analysis, rows in table.groupby("analysis", sort=False):
        changed = rows[rows["verdict"] != rows["pool"].map(verdicts)]
        pools = [f"{row.pool} ({row.verdict})" for row in changed.itertuples()]
        if pools:
            changes.append(f"{analysis}: {listed(pools)}")
        else:
            same.append(str(analysis))
    said = [f"Verdicts that other assumptions change. {'; '.join(changes)}."] if changes else []
    if same:
        said.append(f"No verdict changes with {listed(same, 'or')}.")
    if close := [f"{r.pool} ({r.word})" for r in report.verdicts.rivals if r.close]:
        said.append(
            "These verdicts are so near the limit that the error of the simulation could change "
            f"them: {listed(close)}."
        )
    if uninformative := report.uninformative:
        said.append(f"Not informative: {listed(uninformative)}.")
    return said


def _power_on_one_dataset(c: Comparison) -> list[str]:
    if why_no_test(c):
        return []
    pairs = pairs_over_splits(c, ["dataset"])
    tests, smallest = count(int(pairs["tests"].iloc[0]), "comparison"), pairs["smallest"]
    digits = 1 if c.measure.metric.percent else c.measure.digits
    return [
        f"With {count(int(pairs['splits'].min()), 'run')} and {tests}, a lead is significant from "
        f"{smallest.min():.{digits}f} to {c.measure.amount(smallest.max(), digits)} on, depending "
        "on the pooling."
    ]


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
    said += _without_partner(report.verdicts)
    late = int(diverged.sum()) - lost
    if late > 0:
        said.append(f"{count(late, 'run')} diverged after the chosen epoch: counted.")
    if few := int((report.cells["runs"] < FEWEST_RUNS).sum()):
        said.append(
            f"{few} of {count(len(report.cells), 'cell')} {'has' if few == 1 else 'have'} fewer "
            f"than {FEWEST_RUNS} runs: no p and no interval there."
        )
    return [*said, *_failed(report)]


def _without_partner(v: Verdicts) -> list[str]:
    """Runs, networks, datasets that a verdict leaves out, as one of its two poolings lacks them."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for rival in v.rivals:
        parts = [f"{count(n, 'run')} of {name}" for name, n in rival.pairs.lost.items()]
        if parts or rival.pairs.missing:
            alike.setdefault((*parts, *rival.pairs.missing), []).append(rival.pool)
    return [
        f"Not in the verdict on {v.reference} against {listed(pools)}, as one of the two lacks it: "
        f"{listed(parts)}."
        for parts, pools in alike.items()
    ]


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
