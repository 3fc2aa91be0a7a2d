"""Runs of one split and one selection rule, gathered into cells.

A group is a dataset with a backbone and a convolution; a cell is a pooling in a group. Published
figures can be shown beside a cell. The two agree if their means differ by at most
2·√(100²·p(1 − p)/n_test + s²/n + s'²/n') points, with p our mean as a fraction, and s and s' the
standard deviations over our n and their n' runs. The first term is the luck of the test graphs, the
others the luck of the runs.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from lcpool.data.splits import Scheme, of_family
from lcpool.models import BACKBONES, CONVS, POOLINGS
from lcpool.report.measure import Measure
from lcpool.report.schemes import per_split, share_of_tests
from lcpool.report.statistics import over_splits, rounded
from lcpool.settings import changed, labels, read_config_text, unnamed
from lcpool.sweep.columns import EXPORTED
from lcpool.sweep.results import Results, key
from lcpool.train.tasks import LOSS
from lcpool.words import listed

# Columns of numbers that can be empty.
NUMBERS = (*(c.name for c in EXPORTED if c.name.startswith("test_")), "diverged", "seconds",
           "peak_memory", "num_train", "num_test", "largest_class", "constant",
           "constant_by_loss")  # fmt: skip
GROUP = ["dataset", "backbone", "conv"]
CELL = [*GROUP, "pool"]
# What tells the runs of a cell apart: runs of another seed are further replicates.
RUN = ["seed", "run"]
# Names, or a text with commas between names; None for all.
Names = str | Sequence[str] | None


def select(
    results: Results,
    rule: str | None = None,
    split: str | None = None,
    measure: Measure | None = None,
) -> pd.DataFrame:
    """The runs of one split, in the order of the tables, with their metric by one rule: ``value``.

    Datasets keep the order in which they come. Runs that share their names and differ in a setting
    (``ratio=0.25`` beside the default) belong to different cells: the setting becomes part of
    ``pool``, and ``name`` is the pooling without it. ``settings`` lists what is not at its default,
    ``default`` says that nothing is; ``key`` finds the curves; ``one_class`` is 1 where the network
    gives all test graphs the same class, 0 where not, NaN where that is unknown. Memory is kept for
    GPUs only: the growth of a process on a CPU says little about what it trained.
    """
    measure = measure or Measure()
    rule = measure.rule(rule)
    runs = _of_scheme(results.runs, split)
    runs = runs.astype(dict.fromkeys(NUMBERS, float))
    runs["key"] = [key(row) for row in runs.to_dict("records")]
    runs["name"], runs["pool"] = runs["pool"], shown_pools(runs)
    runs["settings"] = [", ".join(changed(_settings(c)).values()) for c in runs["config"]]
    runs["default"] = runs["settings"] == ""
    runs["value"] = runs[measure.column(rule)]
    constant = runs["constant_by_loss" if rule == LOSS else "constant"]
    runs["one_class"] = constant.where(runs["value"].notna())
    runs["peak_memory"] = runs["peak_memory"].where(runs["device"] != "CPU")
    repeated = runs[runs.duplicated([*CELL, *RUN])]
    if len(repeated):
        first = repeated.iloc[0]
        raise ValueError(
            f"run {first['run']} of {' '.join(first[CELL])} is there more than once: pass each "
            "file of runs once."
        )
    return _in_order(runs)


def _of_scheme(runs: pd.DataFrame, split: str | None) -> pd.DataFrame:
    """The runs of one scheme of splits, by default fresh if there are any, and shared last.

    "predefined" are the splits of every dataset; one dataset has one set of them in a report.
    """
    there = sorted(set(runs["split"]), key=lambda name: (name != "fresh", name == "shared", name))
    if not there:
        raise ValueError("there are no runs to report on.")
    try:
        families = [Scheme.of(name).family for name in there]
    except ValueError as error:
        raise ValueError(f"{error} It is in the table of runs: export it again.") from None
    split = split or families[0]
    if split not in (*there, *families):
        raise ValueError(f"there are no runs with split '{split}', only '{', '.join(there)}'.")
    found = runs[runs["split"].isin(of_family(there, split))].reset_index(drop=True)
    for dataset, names in found.groupby("dataset")["split"].unique().items():
        if len(names) > 1:
            raise ValueError(
                f"{dataset} was trained on different predefined splits, which cannot be compared: "
                f"choose one by split, {' or '.join(sorted(names))}."
            )
    return found


def shown_pools(runs: pd.DataFrame) -> list[str]:
    """The name of each run's pooling, with the settings in which these runs differ."""
    options = labels([_settings(config) for config in runs["config"]])
    return [
        f"{pool} ({option})" if option else pool
        for pool, option in zip(runs["pool"], options, strict=True)
    ]


def _settings(config: str) -> dict[str, Any]:
    """The settings of a run, without those that have a column."""
    settings = unnamed(read_config_text(config))
    return {name: value for name, value in settings.items() if name not in ("seed", "metric")}


def _in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Sorted by dataset, network and pooling, each in our order; unknown names come last."""
    known = {"dataset": [], "backbone": BACKBONES, "conv": CONVS, "name": POOLINGS}

    def places(column: pd.Series) -> pd.Series:
        if column.name not in known:
            return column
        return column.map(list(dict.fromkeys([*known[str(column.name)], *column])).index)

    return runs.sort_values([*known, "pool", *RUN], key=places, ignore_index=True)


def gather(
    runs: pd.DataFrame, reference: Reference | None = None, measure: Measure | None = None
) -> pd.DataFrame:
    """A row per cell: mean and standard deviation over its runs, costs, a published figure.

    ``std`` is that of a sample (n − 1), and empty for a single run. A run that diverged before any
    epoch was chosen has no value and is counted in ``lost``. ``constant`` of ``constant_of``
    runs give all test graphs the same class, and ``largest_class`` percent of these graphs are in
    the largest class; NaN where that is unknown. ``low`` and ``high`` are the ends of the 95 %
    interval of the mean, wider for splits that overlap. Without a ``reference`` its columns
    are empty.
    """
    measure, groups = measure or Measure(), runs.groupby(CELL, sort=False)
    cells = pd.DataFrame([_gathered(of_cell, measure) for _, of_cell in groups])
    return cells.join((reference or Reference()).beside(cells))


def _gathered(runs: pd.DataFrame, measure: Measure) -> dict[str, Any]:
    first, values = runs.iloc[0], runs["value"].dropna()
    scheme = Scheme.of(first["split"])
    share = share_of_tests(scheme, runs["num_test"].mean(), runs["num_train"].mean())
    mean = rounded(values.mean())
    observed = per_split(runs.set_index(RUN)["value"].dropna(), scheme)
    half = over_splits(observed.to_numpy(), share).half_width()
    return {
        **{name: first[name] for name in (*CELL, "name", "settings")},
        "default": bool(runs["default"].all()),
        "runs": len(values),
        "lost": len(runs) - len(values),
        "mean": mean,
        "low": measure.inside(float(mean - half)),
        "high": measure.inside(float(mean + half)),
        "std": values.std(ddof=1),
        **{name: runs[name].mean()
           for name in ("num_train", "num_test", "largest_class", "epochs", "seconds")},
        "constant": runs["one_class"].sum(min_count=1),
        "constant_of": runs["one_class"].count(),
        "peak_memory": runs["peak_memory"].max(),
        "stack": runs["stack"].max(),
    }  # fmt: skip


def choose(
    results: Results, pools: Names = None, datasets: Names = None
) -> tuple[Results, dict[str, tuple[str, ...]]]:
    """The runs of these poolings on these datasets, and the names that were chosen.

    A pooling has the name that the tables show, ``lcpool (ratio=0.25)`` beside ``lcpool``; where no
    row is called ``lcpool``, that name stands for all its settings.
    """
    runs, names = results.runs.reset_index(drop=True), {}
    kept, failures = pd.Series(True, runs.index), results.failures
    if pools is not None:
        shown = pd.Series("", runs.index, dtype=object)
        for _, of_split in runs.groupby("split"):  # A report shows one split.
            shown[of_split.index] = shown_pools(of_split)
        found = names["pools"] = _known(pools, [*shown.unique(), *runs["pool"].unique()], "pooling")
        kept = shown.isin(found) | runs["pool"].isin(set(found) - set(shown))
        trained = set(runs["pool"][kept])
        failures = tuple(failure for failure in failures if failure.names[-1] in trained)
    if datasets is not None:
        found = names["datasets"] = _known(datasets, runs["dataset"].unique(), "dataset")
        kept &= runs["dataset"].isin(found)
        failures = tuple(failure for failure in failures if failure.names[0] in found)
    if not names:
        return results, names
    if not kept.any():
        raise ValueError(f"there are no runs of {' on '.join(map(listed, names.values()))}.")
    return replace(results, runs=runs[kept].reset_index(drop=True), failures=failures), names


def _known(wanted: str | Sequence[str], known: Collection[str], kind: str) -> tuple[str, ...]:
    """The wanted names, in the order of the known ones; a text that is a name is not split."""
    known = list(dict.fromkeys(known))
    texts = [wanted] if isinstance(wanted, str) else wanted
    lists = ([text] if text in known else text.split(",") for text in texts)
    names = [name.strip() for parts in lists for name in parts if name.strip()]
    there = f"there are {listed(known)}"
    if not names:
        raise ValueError(f"the list of {kind}s is empty: {there}.")
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            raise ValueError(f"the results have no {kind} '{name}'{hint}: {there}.")
    return tuple(name for name in known if name in names)


@dataclass(frozen=True)
class Reference:
    """Published accuracies, shown beside cells that were trained with the default settings.

    Attributes:
        name: who published them, as a word: "paper".
        figures: mean and standard deviation of the test accuracy in percent, by dataset, backbone,
            convolution and pooling; none by default.
        runs: the number of runs behind each figure.
    """

    name: str = ""
    figures: Mapping[tuple[str, str, str, str], tuple[float, float]] = field(default_factory=dict)
    runs: int = 1

    def beside(self, cells: pd.DataFrame) -> pd.DataFrame:
        """``reference_mean`` and ``reference_std`` of each cell, and whether ours agrees with it.

        ``difference`` and ``tolerance`` are in points. They and ``agrees`` are empty without a
        published figure, and where a single run has no standard deviation.
        """
        nothing = (np.nan, np.nan)
        names = cells[[*GROUP, "name"]].itertuples(index=False, name=None)
        rows = [
            self.figures.get(cell, nothing) if default else nothing
            for cell, default in zip(names, cells["default"], strict=True)
        ]
        beside = pd.DataFrame(rows, index=cells.index, columns=["reference_mean", "reference_std"])
        p = cells["mean"] / 100
        sampling = 100**2 * p * (1 - p) / cells["num_test"]
        spread = cells["std"] ** 2 / cells["runs"] + beside["reference_std"] ** 2 / self.runs
        beside["difference"] = cells["mean"] - beside["reference_mean"]
        beside["tolerance"] = 2 * np.sqrt(sampling + spread)
        agrees = (beside["difference"].abs() <= beside["tolerance"]).astype("boolean")
        beside["agrees"] = agrees.mask(beside.isna().any(axis=1))
        return beside


def agreeing(cells: pd.DataFrame) -> tuple[int, int]:
    """How many cells agree with a published figure, of how many that can be judged."""
    judged = cells["agrees"].dropna()
    return int(judged.sum()), len(judged)
