"""What a report is about: one metric of the test graphs, its unit and direction, in words."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from lcpool.sweep.results import Results
from lcpool.train.metrics import METRICS, Metric
from lcpool.train.tasks import LOSS
from lcpool.warn import warn_caller
from lcpool.words import figure, listed, signed


@dataclass(frozen=True)
class Measure:
    """The metric that is reported, and the one that chose the epochs; usually the same."""

    metric: Metric = METRICS["accuracy"]
    selected_by: Metric = METRICS["accuracy"]

    @property
    def title(self) -> str:
        return self.metric.title

    @property
    def digits(self) -> int:
        return self.metric.digits

    @property
    def sign(self) -> float:
        """By which values are multiplied so that higher is better."""
        return 1.0 if self.metric.higher else -1.0

    @property
    def heading(self) -> str:
        """For the axis of a plot or the corner of a table."""
        return f"{self.title}, %" if self.metric.percent else self.title

    @property
    def described(self) -> str:
        """What the figures are, as the beginning of a sentence."""
        text = f"Test {self.title} in percent" if self.metric.percent else f"Test {self.title}"
        return text if self.metric.higher else f"{text} (lower is better)"

    @property
    def one_scale(self) -> bool:
        """Whether datasets can be averaged: errors are in the units of each dataset's targets."""
        return self.metric.name not in ("mae", "rmse")

    @property
    def point(self) -> float | None:
        """What counts as a point where poolings are judged; None: a percent of the error."""
        if not self.one_scale:
            return None
        return 1.0 if self.metric.percent else 0.01

    @property
    def points(self) -> str:
        """What points are called."""
        if not self.one_scale:
            return "percent of the error"
        return "points" if self.metric.percent else "hundredths"

    @property
    def best(self) -> str:
        return "highest" if self.metric.higher else "lowest"

    @property
    def capital(self) -> str:
        """The title as the first word."""
        return self.title[0].upper() + self.title[1:]

    @property
    def differences(self) -> str:
        """In what differences are given; above zero is better."""
        if self.metric.percent:
            return "in points"
        return "in its unit" if self.metric.higher else "in its unit, above zero where it is lower"

    @property
    def unit(self) -> str:
        """Of an amount of difference, as the beginning of a sentence."""
        return "In points" if self.metric.percent else "In its unit"

    def figure(self, mean: float, std: float) -> str:
        """Mean ± std, without the unit."""
        return figure(mean, std, self.digits)

    def signed(self, difference: float) -> str:
        """A difference with its sign."""
        return signed(difference, self.digits)

    def amount(self, difference: float, digits: int | None = None) -> str:
        """A difference with its unit."""
        digits = self.digits if digits is None else digits
        return f"{difference:.{digits}f}{' points' if self.metric.percent else ''}"

    def inside(self, value: float) -> float:
        """An end of an interval, within what the metric can be."""
        return float(np.clip(value, 0, 100)) if self.metric.percent else value

    def column(self, rule: str) -> str:
        """The column of a table of runs with the metric at the epochs that a rule chose."""
        return f"test_{self.metric.name}{'_by_loss' if rule == LOSS else ''}"

    def rule(self, rule: str | None) -> str:
        """The rule that was asked for; by default the metric that chose the epochs."""
        rules = self.selected_by.name, LOSS
        if rule not in (None, *rules):
            raise ValueError(f"unknown rule '{rule}': choose one of {', '.join(rules)}.")
        return rule or rules[0]

    def rule_title(self, rule: str) -> str:
        """A rule in words."""
        return rule if rule == LOSS else self.selected_by.title


def choose_measure(results: Results, metric: str | None = None) -> tuple[Results, Measure]:
    """What to report on: the runs whose epochs were chosen by a metric, and that metric.

    ``metric`` names another one than that which chose the epochs, or one of several. Runs that were
    chosen by different metrics cannot be compared, and are refused unless one of these is named.
    """
    if metric not in (None, *METRICS):
        raise ValueError(f"unknown metric '{metric}': choose one of {', '.join(METRICS)}.")
    # Tables of before there were other metrics are about accuracy.
    named = [name if isinstance(name, str) else "" for name in results.runs["metric"]]
    chosen_by = pd.Series([name or "accuracy" for name in named], dtype=object)
    if metric is not None and metric in set(chosen_by):
        kept = (chosen_by == metric).to_numpy()
        if not kept.all():
            others = chosen_by[~kept].unique()
            left_out = "; ".join(_with_datasets(results.runs, chosen_by, name) for name in others)
            warn_caller(f"left out, as another metric chose their epochs: {left_out}.")
            results = _only(results, kept)
        return results, Measure(METRICS[metric], METRICS[metric])
    there = list(dict.fromkeys(chosen_by))
    if unknown := [name for name in there if name not in METRICS]:
        raise ValueError(f"unknown metric '{unknown[0]}' in the table of runs: export it again.")
    if len(there) > 1:
        raise ValueError(
            f"the runs have different metrics, which cannot be compared: "
            f"{'; '.join(_with_datasets(results.runs, chosen_by, name) for name in there)}. "
            f"Choose one of these (--metric {there[0]}), or datasets that have the same."
        )
    selected_by = METRICS[there[0]] if there else METRICS["accuracy"]
    measure = Measure(METRICS[metric] if metric else selected_by, selected_by)
    column = measure.column(selected_by.name)
    if metric and results.runs[column].isna().all():
        have = [n for n in METRICS if results.runs[f"test_{n}"].notna().any()]
        raise ValueError(f"the runs have no {measure.title}: choose one of {', '.join(have)}.")
    return results, measure


def _only(results: Results, kept: np.ndarray) -> Results:
    return replace(results, runs=results.runs[kept].reset_index(drop=True))


def _with_datasets(runs: pd.DataFrame, chosen_by: pd.Series, name: str) -> str:
    datasets = list(dict.fromkeys(runs["dataset"].to_numpy()[chosen_by == name]))
    return f"{name} on {listed(datasets)}"
