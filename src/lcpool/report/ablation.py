"""One setting at a time against the paper's reading: paired tests, and a rule for what is better.

Fixed before the runs were made: a setting is clearly better than the paper's reading if it is
significantly better in a cell, in none significantly worse, and by ``MARGIN`` points or more on
average over all cells. Significant is what the corrected resampled t-test over the splits says,
corrected by Holm for all settings and cells together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from lcpool.models import Architecture
from lcpool.report.cells import GROUP, select
from lcpool.report.claims import MARGIN
from lcpool.report.comparison import OURS, Comparison
from lcpool.report.pairs import pairs_over_splits
from lcpool.report.statistics import ALPHA
from lcpool.report.styles import Markdown
from lcpool.report.words import count, listed, p_value, signed
from lcpool.sweep.results import Results
from lcpool.sweep.settings import settings_of
from lcpool.train import Protocol

STYLE = Markdown()


@dataclass(frozen=True)
class Ablation:
    """Settings of LCPool against the paper's reading.

    Attributes:
        compared: the default and the settings, in cells that have all of them.
        pairs: setting − default in each cell, as
            :func:`lcpool.report.pairs.pairs_over_splits` has them, but for the sign.
    """

    compared: Comparison
    pairs: pd.DataFrame

    @classmethod
    def of(cls, default: Results, others: Results) -> Ablation:
        """Pair the runs of ``others`` with those of ``default`` on the same splits."""
        runs = pd.concat([default.runs, others.runs], ignore_index=True)
        met = pd.MultiIndex.from_frame(others.runs[GROUP])
        there = (runs["pool"] == OURS) & pd.MultiIndex.from_frame(runs[GROUP]).isin(met)
        chosen = select(Results(runs[there].reset_index(drop=True)), split="fresh")
        compared = Comparison.of(chosen, list(dict.fromkeys(chosen["pool"])))
        if compared.empty or OURS not in compared.pools:
            raise ValueError(f"the ablation's runs share no cell with the default of {OURS}.")
        pairs = pairs_over_splits(compared, OURS, picked=False, by=GROUP)
        flipped = {"difference": -pairs["difference"], "low": -pairs["high"], "high": -pairs["low"]}
        return cls(compared, pairs.assign(**flipped))

    @property
    def settings(self) -> list[str]:
        """What was changed, in words: ``lcpool (ratio=0.25)`` and so on."""
        return [pool for pool in self.compared.pools if pool != OURS]

    def clearly_better(self, setting: str) -> bool:
        """By the rule above."""
        pairs = self.pairs[self.pairs["pool"] == setting]
        sure = pairs["difference"][pairs["p_holm"] < ALPHA]
        return bool((sure > 0).any() and not (sure < 0).any() and self.mean(setting) >= MARGIN)

    def mean(self, setting: str) -> float:
        """Points above the default on average over the cells."""
        return float(self.pairs["difference"][self.pairs["pool"] == setting].mean())

    def table(self) -> str:
        """Settings down, cells across; differences with their corrected p."""
        c = self.compared
        cells = list(c.groups[GROUP].itertuples(index=False, name=None))
        base = c.means[:, c.pools.index(OURS)]
        reading = STYLE.above("paper's reading", ", ".join(_reading(self.settings)))
        rows = [[reading, *(f"{mean:.2f} %" for mean in base), f"{base.mean():.2f} %"]]
        for setting in self.settings:
            pairs = self.pairs[self.pairs["pool"] == setting].to_dict("records")
            rows.append([
                f"`{_option(setting)}`", *map(_entry, pairs), signed(self.mean(setting)),
            ])  # fmt: skip
        header = ["", *(f"{STYLE.escape(dataset)}<br>{b} {conv}" for dataset, b, conv in cells)]
        return STYLE.grid([*header, "mean"], rows)

    def verdict(self) -> str:
        """Which settings are clearly better than the paper's reading."""
        better = [f"`{_option(one)}`" for one in self.settings if self.clearly_better(one)]
        if not better:
            return "By this rule no setting is clearly better than the paper's reading."
        return (
            f"By this rule clearly better than the paper's reading: {listed(better)}. The default "
            "stays the paper's."
        )

    def rule(self) -> str:
        """The rule, and what could not be compared."""
        tests = count(int(self.pairs["tests"].iloc[0]), "comparison")
        said = (
            "LCPool with [one setting changed](layers.md#options-of-lcpool), "
            f"at least {self.compared.fewest_runs} runs a cell on fresh splits: the difference "
            "from the paper's reading in points, and p of the corrected resampled t-test, "
            f"corrected by Holm for {tests}; bold where p < {ALPHA:g}. A setting is clearly better "
            "if it is significantly better in a cell, in none significantly worse, and by at least "
            f"{MARGIN:g} point on average."
        )
        c = self.compared
        if c.absent:
            said += f" Left out, for lack of runs in most cells: {listed(c.absent)}."
        if c.incomplete:
            said += f" {count(c.incomplete, 'cell')} left out, for a setting has no runs there."
        return said


def _option(setting: str) -> str:
    return setting.removeprefix(f"{OURS} (").removesuffix(")")


def _reading(settings: list[str]) -> list[str]:
    """What the settings are where they are not changed."""
    usual = settings_of(Architecture(), Protocol())
    names = dict.fromkeys(_option(setting).split("=")[0] for setting in settings)
    return [f"{name}={usual[name]}" for name in names if name in usual]


def _entry(pair: dict[str, float]) -> str:
    if np.isnan(pair["p_holm"]):
        return signed(pair["difference"])
    text = STYLE.above(signed(pair["difference"]), f"p {p_value(pair['p_holm'], '=')}")
    return STYLE.bold(text) if pair["p_holm"] < ALPHA else text
