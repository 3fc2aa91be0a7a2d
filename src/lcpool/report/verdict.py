"""Which pooling? Each pooling against a reference: better, equal or worse, and how surely.

Runs of two poolings are paired by dataset, network and split. A dataset's runs are averaged over
its networks, which are no independent evidence. Over several datasets the differences are judged by
the model of :mod:`lcpool.report.hierarchical`; on a single one by the Bayesian correlated t-test
(Corani and Benavoli, 2015), which speaks of that dataset alone. Poolings are equal if they differ
by no more than a margin, and a verdict takes a probability of ``SURE``. It depends on the runs of
the two poolings alone, and is the same from either side.

The verdict is about μ, the difference on the average dataset of the kind that was tried. The
probabilities for one new dataset stand beside it: they are less sure, since datasets differ.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from lcpool.report.comparison import Comparison
from lcpool.report.hierarchical import Differences, Draws, Priors, Regions, Sampler, posterior
from lcpool.report.schemes import no_test, per_split
from lcpool.report.statistics import ALPHA, FEWEST_RUNS, Array, over_splits, rounded
from lcpool.words import count

SURE = 0.95
# So far from ``SURE`` the draws, of which there are a few thousand, cannot tell a probability.
NEAR = 0.01
POWER = 0.8
# Below this accuracy, in percent, a network without pooling leaves room to be better.
SATURATED = 97.0
NO_POOLING = "nopool"
# Datasets that are nearly the same: screens of the same compounds, frames of the same images.
FAMILIES = {
    "NCI1": "NCI", "NCI109": "NCI", "PTC_MR": "PTC", "PTC_FM": "PTC", "PTC_MM": "PTC",
    "PTC_FR": "PTC", "MSRC_9": "MSRC", "MSRC_21": "MSRC", "MSRC_21C": "MSRC",
    "IMDB-BINARY": "IMDB", "IMDB-MULTI": "IMDB", "COX2": "COX2, BZR, DHFR",
    "BZR": "COX2, BZR, DHFR", "DHFR": "COX2, BZR, DHFR",
}  # fmt: skip
PRIORS = Priors()
# Other priors, by what they say.
OTHER_PRIORS = {
    "datasets alike (τ about 0.5)": replace(PRIORS, between=0.5),
    "datasets unlike (τ about 8)": replace(PRIORS, between=8.0),
    "small differences (μ within ±4)": replace(PRIORS, mean=2.0),
    "normal datasets (ν = 64)": replace(PRIORS, tails=(64,)),
}


@dataclass(frozen=True)
class Paired:
    """The differences of two poolings by dataset, ``one`` − ``other``, in points.

    Attributes:
        runs: by dataset, a difference per run or predefined split, mean over the networks.
        lost: by dataset, runs that one of the two lacks in a network, which are left out.
        missing: datasets, or networks on one, that only one of the two has results on.
    """

    one: str
    other: str
    runs: dict[str, Array]
    lost: dict[str, int]
    missing: list[str]


def paired(c: Comparison, one: str, other: str) -> Paired:
    """The runs of two poolings, paired; of these two alone, whatever else was trained.

    Metrics that are not in percent count in hundredths; errors, whose unit is that of the dataset,
    in percent of the mean error of ``one``.
    """
    groups = dict.fromkeys(cell[:3] for cell in c.values if cell[3] in (one, other))
    runs: dict[str, Array] = {}
    lost: dict[str, int] = {}
    for dataset in dict.fromkeys(group[0] for group in groups):
        both = [
            (c.values[*group, one], c.values[*group, other])
            for group in groups
            if group[0] == dataset and (*group, one) in c.values and (*group, other) in c.values
        ]
        if not both:
            continue
        off = pd.concat([mine - its for mine, its in both], axis=1).mean(axis=1, skipna=False)
        known = per_split(off.dropna(), c.schemes[dataset])
        if known.empty:
            continue
        errors = [np.mean([abs(side.mean()) for side in sides]) / 100
                  for sides in zip(*both, strict=True)]  # fmt: skip
        # An error of zero is no unit: then the other's, or none.
        point = c.measure.point or errors[0] or errors[1] or 1.0
        runs[dataset], lost[dataset] = known.to_numpy(np.float64) / point, int(off.isna().sum())
    missing = [name for name in dict.fromkeys(group[0] for group in groups) if name not in runs]
    missing += [
        f"{name} ({' '.join(network)})"
        for name, *network in groups
        if name in runs and not all((name, *network, pool) in c.values for pool in (one, other))
    ]
    return Paired(one, other, runs, {name: n for name, n in lost.items() if n}, missing)


@dataclass(frozen=True)
class Verdict:
    """One pooling against another.

    Attributes:
        pairs: the differences it is about.
        margin: differences up to it are none, in points.
        mean: of the posterior of the difference on the average dataset, with its 95 % interval.
        unweighted: the plain mean over datasets.
        regions: the probabilities that decide; NaN where nothing can be said.
        new: the same for one new dataset; NaN for a single dataset.
        ahead: the probability that the difference is above zero.
        datasets: a row per dataset: ``runs``, ``difference``, and the posterior's mean and 95 %
            interval of its difference, which borrows from the others.
        why_not: why nothing can be said, if so.
        draws: from the posterior; None for a single dataset.
    """

    pairs: Paired
    margin: float
    mean: float
    low: float
    high: float
    unweighted: float
    regions: Regions
    new: Regions
    ahead: float
    datasets: pd.DataFrame
    why_not: str = ""
    draws: Draws | None = None
    data: Differences | None = None

    @property
    def pool(self) -> str:
        """The other pooling."""
        return self.pairs.other

    @property
    def word(self) -> str:
        return decided(self.regions)

    @property
    def doubt(self) -> float:
        """The probability that the verdict is wrong; NaN of one that is undecided."""
        worse, equal, better = self.regions
        right = {"better": better, "equal": equal, "worse": worse, "not worse": 1 - worse,
                 "not better": 1 - better}  # fmt: skip
        return 1 - right.get(self.word, np.nan)

    @property
    def close(self) -> bool:
        """Whether the error of the simulation could change the verdict."""
        sure = (SURE - NEAR, SURE + NEAR)
        return self.draws is not None and len({decided(self.regions, at) for at in sure}) > 1

    @property
    def sensitivity(self) -> dict[str, Regions]:
        """The probabilities under other priors, where the draws tell."""
        if self.draws is None:
            return {}
        found = {
            name: self.draws.regions_under(self.margin, PRIORS, other)
            for name, other in OTHER_PRIORS.items()
        }
        return {name: regions for name, regions in found.items() if np.isfinite(regions.equal)}

    @property
    def power(self) -> Power | None:
        """What could have been found; None where the model was not used."""
        if self.draws is None or self.data is None:
            return None
        return power(self.data, self.draws, self.margin)

    @property
    def more_datasets(self) -> float:
        """How many more datasets would decide with probability ``POWER``; NaN if one is enough.

        If the difference is as it is now. The error of μ falls with √n, and must be such that the
        nearer end of the margin is Φ⁻¹(0.95) + Φ⁻¹(0.8) errors away.
        """
        if self.draws is None or self.word in ("better", "equal", "worse"):
            return np.nan
        error = np.diff(np.quantile(self.draws.mu, (1 - SURE, SURE)))[0] / 2 / stats.norm.ppf(SURE)
        away = abs(abs(self.mean) - self.margin)
        wanted = stats.norm.ppf(SURE) + stats.norm.ppf(POWER)
        n = len(self.datasets)
        return float(max(np.ceil(n * (wanted * error / away) ** 2) - n, 1.0))


def decided(regions: Regions, sure: float = SURE) -> str:
    """What is sure enough.

    >>> decided(Regions(0.0, 0.03, 0.97)), decided(Regions(0.01, 0.3, 0.69))
    ('better', 'not worse')
    >>> decided(Regions(0.2, 0.6, 0.2)), decided(Regions(0.03, 0.93, 0.04))
    ('undecided', 'not worse')
    """
    worse, equal, better = regions
    for word, probability in (("better", better), ("equal", equal), ("worse", worse)):
        if probability >= sure:
            return word
    if max(1 - worse, 1 - better) < sure or np.isnan(equal):
        return "undecided"
    return "not worse" if worse <= better else "not better"


def judge_pair(pairs: Paired, c: Comparison, margin: float, families: Mapping[str, str]) -> Verdict:
    """One pooling against another, over the datasets or on the only one."""
    names = list(pairs.runs)
    if len(names) == 1:
        return _on_one(pairs, c, margin)
    share = [c.shares[name] for name in names]
    data = Differences.of(
        list(pairs.runs.values()), share, [families.get(name, f"only {name}") for name in names]
    )
    # The same draws from either side, so that both sides have the same verdict.
    mirror = pairs.one > pairs.other
    draws = posterior(replace(data, mean=-data.mean) if mirror else data, PRIORS)
    draws = draws.mirrored() if mirror else draws
    low, high = np.quantile(draws.mu, (ALPHA / 2, 1 - ALPHA / 2))
    ends = np.quantile(draws.delta, (ALPHA / 2, 1 - ALPHA / 2), axis=(0, 1))
    table = pd.DataFrame({
        "dataset": names, "runs": data.runs.astype(int), "difference": data.mean,
        "mean": draws.delta.mean(axis=(0, 1)), "low": ends[0], "high": ends[1],
    })  # fmt: skip
    return Verdict(
        pairs, margin, float(draws.centre.mean()), float(low), float(high), float(data.mean.mean()),
        draws.regions(margin), draws.new_regions(margin), float(1 - draws.below(0).mean()),
        table, draws=draws, data=data,
    )  # fmt: skip


def _on_one(pairs: Paired, c: Comparison, margin: float) -> Verdict:
    """The Bayesian correlated t-test: δ − x̄ is Student's t with n − 1 degrees of freedom.

    Its scale is s·√(1/n + ρ/(1 − ρ)), so that its interval is that of the corrected t-test.
    """
    ((dataset, values),) = pairs.runs.items()
    found, scheme = over_splits(values, c.shares[dataset]), c.schemes[dataset]
    why = ""
    if not scheme.varies:
        why = no_test(scheme)
    elif len(values) < FEWEST_RUNS:
        why = f"{count(len(values), 'run')} are too few for a verdict, which needs {FEWEST_RUNS}."
    elif np.ptp(rounded(values)) == 0:
        why = "No verdict: the poolings differ by the same number of points in every run."
    error = np.nan if why else found.error
    below, at, within = (
        stats.t.cdf((end - found.mean) / error, found.n - 1) for end in (-margin, 0.0, margin)
    )
    half = stats.t.ppf(1 - ALPHA / 2, max(found.n - 1, 1)) * error
    ends = {"low": found.mean - half, "high": found.mean + half}
    row = {"dataset": dataset, "runs": found.n, "difference": found.mean, "mean": found.mean}
    return Verdict(
        pairs, margin, found.mean, **ends, unweighted=found.mean, regions=Regions.of(below, within),
        new=Regions(np.nan, np.nan, np.nan), ahead=float(1 - at),
        datasets=pd.DataFrame([{**row, **ends}]), why_not=why,
    )  # fmt: skip


@dataclass(frozen=True)
class Power:
    """What these datasets and runs could have shown.

    Attributes:
        found: the true difference on the average dataset that would have been found to be better
            than the margin with probability ``POWER``.
        equal: the probability that two poolings without any difference are found to be equal.
    """

    found: float
    equal: float


def power(data: Differences, draws: Draws, margin: float, worlds: int = 100) -> Power:
    """By simulation of as many datasets and runs, with variances drawn from the posterior.

    The worlds have no difference on average. A difference d shifts them by d, and the posterior of
    μ nearly as much (its prior is wide): it is found if the lower end of that posterior, shifted,
    is above the margin.
    """
    random = np.random.default_rng(0)
    at = np.linspace(0, draws.mu.size - 1, worlds).astype(int)
    tau, nu, kappa = (of.reshape(-1, 1)[at] for of in (draws.tau, draws.nu, draws.kappa))
    n = len(data.runs)
    v = draws.v.reshape(-1, n)[at]
    shape, families = (worlds, data.members.shape[1]), data.families
    scale = tau / np.sqrt(random.gamma(nu / 2, 2 / nu, shape))[:, families]
    common, own = random.normal(size=shape)[:, families], random.normal(size=(worlds, n))
    delta = scale * (np.sqrt(kappa) * common + np.sqrt(1 - kappa) * own)
    mean = random.normal(delta, v * np.sqrt(data.factor))
    squares = v**2 * 2 * random.gamma((data.runs - 1) / 2, size=(worlds, n))
    worlds_data = replace(data, mean=mean, squares=squares)
    found = Sampler(worlds_data, replace(PRIORS, points=16), chains=worlds).run(60, 30)
    # Few draws are enough for the ends of a posterior that is nearly normal.
    error = np.sqrt((found.error**2).mean(axis=0) + found.centre.var(axis=0))
    centre = found.centre.mean(axis=0)
    low = centre - stats.norm.ppf(SURE) * error
    below, within = (stats.norm.cdf((end - centre) / error) for end in (-margin, margin))
    return Power(
        float(margin - np.quantile(low, 1 - POWER)), float((within - below >= SURE).mean())
    )


@dataclass(frozen=True)
class Verdicts:
    """A reference against every other pooling.

    Attributes:
        comparison: the poolings.
        reference: the pooling that the others are compared with.
        named: whether it was named; else it is the one with the highest mean, picked by these runs.
        margin: differences up to it are none, in points.
        families: of datasets that belong to one, by their name.
    """

    comparison: Comparison
    reference: str
    named: bool
    margin: float
    families: Mapping[str, str]

    @classmethod
    def of(
        cls,
        c: Comparison,
        against: str | None = None,
        margin: float | None = None,
        families: Mapping[str, str] | None = None,
    ) -> Verdicts:
        """Check what is wanted, see :meth:`lcpool.report.Report.of`; nothing is judged yet."""
        margin = 1.0 if margin is None else margin
        if not (margin > 0 and np.isfinite(margin)):
            raise ValueError(f"the margin must be a number above zero, not {margin:g}.")
        pools = c.trained_pools
        if against is not None and against not in pools:
            known = f"choose one of {', '.join(pools)}" if pools else "there are no others"
            raise ValueError(f"there are no ranked runs of '{against}' to compare with: {known}.")
        families = FAMILIES if families is None else families
        return cls(c, against or _highest(c, pools), against is not None, margin, families)

    @functools.cached_property
    def rivals(self) -> tuple[Verdict, ...]:
        """A verdict per other pooling, the reference's greatest lead last."""
        return self.judged(self.comparison)

    def judged(self, c: Comparison, only: Collection[str] | None = None) -> tuple[Verdict, ...]:
        """The verdicts by the runs of a comparison, on all datasets or on some."""
        found = []
        for pool in c.trained_pools:
            pairs = paired(c, self.reference, pool)
            if only is not None:
                pairs = replace(pairs, runs={d: v for d, v in pairs.runs.items() if d in only})
            if pool != self.reference and pairs.runs:
                found.append(judge_pair(pairs, c, self.margin, self.families))
        return tuple(sorted(found, key=lambda verdict: verdict.mean))

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """A row per rival, in points: probabilities, difference, interval, what could be found.

        ``ahead`` is the probability of a difference above zero; ``new_worse``, ``new_equal`` and
        ``new_better`` are about one new dataset; ``detectable`` and ``equal_if_equal`` are
        :class:`Power`'s.
        """
        return pd.DataFrame([self._row(verdict) for verdict in self.rivals])

    def _row(self, verdict: Verdict) -> dict[str, Any]:
        able, draws = verdict.power, verdict.draws
        return {
            "reference": self.reference, "pool": verdict.pool,
            "datasets": len(verdict.datasets), "runs": int(verdict.datasets["runs"].sum()),
            "verdict": verdict.word, **verdict.regions._asdict(), "ahead": verdict.ahead,
            "difference": verdict.mean, "low": verdict.low, "high": verdict.high,
            "unweighted": verdict.unweighted,
            **{f"new_{name}": p for name, p in verdict.new._asdict().items()},
            "detectable": np.nan if able is None else able.found,
            "equal_if_equal": np.nan if able is None else able.equal,
            "more_datasets": verdict.more_datasets,
            "rhat": np.nan if draws is None else draws.rhat,
            "ess": np.nan if draws is None else draws.ess,
        }  # fmt: skip

    def sensitivity(
        self, other_rule: tuple[str, Comparison], informative: Collection[str] | None
    ) -> pd.DataFrame:
        """The verdicts by other priors, by the other rule, and without uninformative datasets.

        A row per analysis and rival: the three probabilities, ``difference`` and ``verdict``.
        """
        rows = []
        for verdict in self.rivals:
            others = verdict.sensitivity.items()
            rows += [_analysis(name, verdict, regions) for name, regions in others]
        rule, c = other_rule
        rows += [_analysis(rule, found, found.regions) for found in self.judged(c)]
        if informative is not None:
            some = self.judged(self.comparison, informative)
            rows += [_analysis("informative datasets only", found, found.regions) for found in some]
        return pd.DataFrame(rows)


def _analysis(name: str, verdict: Verdict, regions: Regions) -> dict[str, Any]:
    # The mean under other priors is not computed: what matters is whether a verdict stands.
    mean = verdict.mean if regions is verdict.regions else np.nan
    return {
        "analysis": name, "pool": verdict.pool, **regions._asdict(), "difference": mean,
        "verdict": decided(regions),
    }  # fmt: skip


def _highest(c: Comparison, pools: Sequence[str]) -> str:
    """The pooling with the highest mean over datasets; of errors, the first in rank."""
    if c.empty:
        return next(iter(pools), "")
    if not c.measure.one_scale:
        return c.order[0]
    return c.pools[int(c.blocks(c.means).mean(axis=0).argmax())]


def uninformative(c: Comparison, largest_class: Mapping[str, float]) -> list[str] | None:
    """Datasets on which poolings can hardly differ: nothing is learned there, or everything.

    A dataset is informative if the accuracy without pooling is two standard errors above the share
    of the largest class, in percent, and below ``SATURATED``. None where this cannot be said:
    without runs of "nopool", and of other metrics.
    """
    if c.measure.metric.name != "accuracy":
        return None
    found, known = [], False
    for dataset in c.trained_datasets:
        cells = [runs for cell, runs in c.values.items() if cell[0::3] == (dataset, NO_POOLING)]
        if not cells:
            continue
        known = True
        runs = per_split(pd.concat(cells, axis=1).mean(axis=1), c.schemes[dataset])
        error = over_splits(runs.to_numpy(), c.shares[dataset]).error
        chance = largest_class.get(dataset, np.nan)
        if runs.mean() >= SATURATED or runs.mean() <= chance + 2 * np.nan_to_num(error):
            found.append(dataset)
    return found if known else None
