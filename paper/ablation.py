"""One setting at a time against the default reading: paired tests, and a rule for what is better.

Fixed before the runs were made: a setting is clearly better than the default if it is significantly
better in a cell, in none significantly worse, and by ``MARGIN`` points or more on average over all
cells. Significant is what the corrected resampled t-test over the splits says, corrected by Holm
for all settings and cells together. In single cells it sees large differences alone, so the same is
asked of datasets, of the mean over their networks: fewer tests, and less spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from lcpool.report.cells import GROUP, select
from lcpool.report.comparison import Comparison, compare_over_splits
from lcpool.report.statistics import ALPHA
from lcpool.report.tables import Markdown
from lcpool.settings import SETTINGS
from lcpool.sweep.results import Results
from lcpool.words import count, listed, p_value, signed
from paper.choosing import visible
from paper.claims import MARGIN
from paper.published import OURS, in_paper_order

STYLE = Markdown()
# What settings do, where their name does not say it.
WORDS = {
    "self_loops=False": "diagonal of A' dropped (GCN adds one of its own)",
    "rescale=True": "gate rescaled",
    "norm=layer": "LayerNorm",
    "norm=none": "no norm",
}


@dataclass(frozen=True)
class Ablation:
    """Settings of LCPool against the default.

    Attributes:
        default: mean accuracy of the default in each cell.
        pairs: setting − default in each cell, as
            :func:`lcpool.report.comparison.pairs_over_splits` has them, but for the sign.
        of_datasets: the same of the mean over the networks of a dataset.
        by_loss: setting − default on average over the cells, with epochs chosen by validation loss.
    """

    default: pd.Series
    pairs: pd.DataFrame
    of_datasets: pd.DataFrame
    by_loss: dict[str, float]

    @classmethod
    def of(cls, default: Results, others: Results) -> Ablation:
        """Pair the runs of ``others`` with those of ``default`` on the same splits."""
        runs = pd.concat([default.runs, others.runs], ignore_index=True)
        ours = in_paper_order(Results(runs[runs["pool"] == OURS].reset_index(drop=True)))
        chosen = select(ours, split="fresh")
        settings = [pool for pool in dict.fromkeys(chosen["pool"]) if pool != OURS]
        compared = [c for c in (_with_default(chosen, one) for one in settings) if not c.empty]
        if not compared:
            raise ValueError(f"the ablation's runs share no cell with the default of {OURS}.")
        met = pd.concat([c.groups for c in compared]).drop_duplicates()
        base = chosen[chosen["pool"] == OURS].merge(met, on=GROUP)
        tests = [(c, [(OURS, pool) for pool in c.pools if pool != OURS]) for c in compared]
        return cls(
            default=base.groupby(GROUP, sort=False)["value"].mean(),
            pairs=_flipped(compare_over_splits(tests, GROUP)),
            of_datasets=_flipped(compare_over_splits(tests, ["dataset"])),
            by_loss=_leads(select(ours, "loss", split="fresh")),
        )

    @property
    def settings(self) -> list[str]:
        """What was changed, in words: ``lcpool (ratio=0.25)`` and so on."""
        return list(dict.fromkeys(self.pairs["pool"]))

    def clearly_better(self, setting: str) -> bool:
        """By the rule above."""
        pairs = self.pairs[self.pairs["pool"] == setting]
        sure = pairs["difference"][pairs["p_holm"] < ALPHA]
        return bool((sure > 0).any() and not (sure < 0).any() and self.mean(setting) >= MARGIN)

    def mean(self, setting: str) -> float:
        """Points above the default on average over the cells."""
        return float(self.pairs["difference"][self.pairs["pool"] == setting].mean())

    def said(self) -> list[str]:
        """Everything: the rule, both tables, and what they show."""
        return [
            self.rule(), self.table(), *self.verdict(), self.of_datasets_table(), *self.hops(),
        ]  # fmt: skip

    def table(self) -> str:
        """Settings down, cells across: differences, and their mean by both rules."""
        usual = STYLE.above("default", ", ".join(_usual(self.settings)))
        base = self.default
        rows = [[usual, *(f"{mean:.2f} %" for mean in base), f"{base.mean():.2f} %", ""]]
        found = _by_name(self.pairs, ["pool", *GROUP])
        for setting in self.settings:
            entries = (_entry(found.get((setting, *cell))) for cell in base.index)
            means = (signed(mean) for mean in (self.mean(setting), self.by_loss[setting]))
            rows.append([_named(setting), *entries, *means])
        cells = (f"{STYLE.escape(dataset)}<br>{b} {conv}" for dataset, b, conv in base.index)
        return STYLE.grid(["", *cells, "mean", "mean,<br>by loss"], rows)

    def of_datasets_table(self) -> str:
        """Settings down, datasets across: differences of the means over networks, with their p."""
        datasets = list(dict.fromkeys(self.of_datasets["dataset"]))
        found = _by_name(self.of_datasets, ["pool", "dataset"])
        rows = [
            [_named(setting), *(_tested(found.get((setting, dataset))) for dataset in datasets)]
            for setting in self.settings
        ]
        return STYLE.grid(["", *map(STYLE.escape, datasets)], rows)

    def verdict(self) -> list[str]:
        """Which settings are clearly better, and what else is sure."""
        better = [f"`{_option(one)}`" for one in self.settings if self.clearly_better(one)]
        said = "By this rule no setting is clearly better than the default."
        if better:
            said = (
                f"By this rule clearly better than the default: {listed(better)}. The default "
                "stays as it is."
            )
        return [
            f"{said} {_sure(self.pairs, 'In single cells')}",
            f"{_sure(self.of_datasets, 'On datasets, means over networks')} These, with p:",
        ]

    def hops(self) -> list[str]:
        """Whether three hops, whose A' has more edges, earn their cost."""
        fewer = [one for one in self.settings if _option(one).startswith("hops=")]
        if not fewer:
            return []
        means = [f"{signed(self.mean(one))} points on average (`{_option(one)}`)" for one in fewer]
        pairs = self.pairs[self.pairs["pool"].isin(fewer)]
        return [
            f"Do three hops earn their cost? Fewer differ in accuracy by {listed(means)}, "
            f"significantly in {(pairs['p_holm'] < ALPHA).sum()} of {len(pairs)} cells. With one "
            "pooling they save hardly any time, and fewer graphs stay connected ([measured by "
            "itself](performance.md#hops), there of untrained layers). With several poolings in a "
            "row the edges do cost time ([networks](performance.md#networks-with-several-"
            "poolings))."
        ]

    def rule(self) -> str:
        """What the table shows, and the rule."""
        fewest = int(self.pairs["splits"].min())
        return (
            f"LCPool with one setting changed, {fewest} runs a cell on fresh splits: the "
            f"difference from the default in points, bold where p < {ALPHA:g} by the corrected "
            "resampled t-test, corrected by Holm for all of them; a dash where a setting has no "
            "result, and no test where it changes nothing. A setting is clearly better if it is "
            "significantly better in a cell, in none significantly worse, and by at least "
            f"{MARGIN:g} point on average."
        )


def _with_default(chosen: pd.DataFrame, setting: str) -> Comparison:
    """A setting and the default, in the cells of the setting."""
    cells = chosen[(chosen["pool"] == setting) & chosen["value"].notna()][GROUP]
    return Comparison.of(chosen.merge(cells.drop_duplicates(), on=GROUP), [OURS, setting])


def _leads(chosen: pd.DataFrame) -> dict[str, float]:
    """Points of each setting above the default, mean over its cells."""
    means = chosen.groupby([*GROUP, "pool"])["value"].mean().unstack("pool")
    return {str(pool): float((means[pool] - means[OURS]).mean()) for pool in means}


def _by_name(pairs: pd.DataFrame, names: list[str]) -> dict[tuple[str, ...], dict[str, Any]]:
    return {tuple(pair[name] for name in names): pair for pair in pairs.to_dict("records")}


def _flipped(pairs: pd.DataFrame) -> pd.DataFrame:
    """The reference is what is subtracted, not what is subtracted from."""
    ends = {"low": -pairs["high"], "high": -pairs["low"]}
    return pairs.assign(difference=-pairs["difference"], **ends)


def _sure(pairs: pd.DataFrame, where: str) -> str:
    """What differs significantly, and what could not have been seen."""
    real = pairs[pairs["p_holm"] < ALPHA]
    words = {"better": real[real["difference"] > 0], "worse": real[real["difference"] < 0]}
    texts = []
    for word, found in words.items():
        names = [
            f"`{_option(pair['pool'])}` ({' '.join(pair[n] for n in GROUP if n in pair)} "
            f"{signed(pair['difference'])})"
            for pair in found.to_dict("records")
        ]
        texts.append(f"significantly {word}: {listed(names) or 'none'}")
    tests = count(int(pairs["tests"].iloc[0]), "comparison")
    return (
        f"{where} ({tests}), {'; '.join(texts)}. There a difference below {visible(pairs)} points, "
        "depending on the place, cannot be told from chance."
    )


def _option(setting: str) -> str:
    return setting.removeprefix(f"{OURS} (").removesuffix(")")


def _named(setting: str) -> str:
    """The option, above what it does."""
    option = _option(setting)
    code = f"`{option}`"
    return STYLE.above(code, WORDS[option]) if option in WORDS else code


def _usual(settings: list[str]) -> list[str]:
    """What the settings are where they are not changed."""
    names = dict.fromkeys(_option(setting).split("=")[0] for setting in settings)
    return [f"{name}={SETTINGS[name].default}" for name in names if name in SETTINGS]


def _entry(pair: dict[str, Any] | None) -> str:
    if pair is None:
        return "–"
    text = signed(pair["difference"])
    return STYLE.bold(text) if pair["p_holm"] < ALPHA else text


def _tested(pair: dict[str, Any] | None) -> str:
    """The same with its p, where there is one."""
    if pair is None or np.isnan(pair["p_holm"]):
        return _entry(pair)
    return STYLE.above(_entry(pair), f"p {p_value(pair['p_holm'], '=')}")
