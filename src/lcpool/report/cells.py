"""The runs of one split and one selection rule, gathered into cells.

Published figures may stand beside them. A cell agrees with one when the two means differ by at most
2·√(100²·p(1 − p)/n_test + s²/n + s'²/n') points, with p our mean as a fraction, and s and s' the
standard deviations over the n and n' runs of ours and of theirs. The first term is the luck of the
test graphs, the others that of the runs.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lcpool.data.load import TU_DATASETS
from lcpool.models import BACKBONES, CONVS, POOLINGS
from lcpool.report.statistics import rounded
from lcpool.report.words import listed
from lcpool.settings import changed, labels, read_config_text, unnamed
from lcpool.sweep.results import Results, key
from lcpool.train import RULES

ACCURACY = {"accuracy": "test_accuracy", "loss": "test_accuracy_by_loss"}
# Whether the network chosen by a rule gives all test graphs the same class: 1, 0 or unknown.
CONSTANT = {"accuracy": "constant", "loss": "constant_by_loss"}
# Columns that tables of runs from before do not have.
LATER = ("largest_class", *CONSTANT.values())
# What may be empty, and is a number otherwise.
NUMBERS = (*ACCURACY.values(), "diverged", "seconds", "peak_memory", "num_train", "num_test")
# Where poolings meet: a backbone with a convolution on a dataset.
GROUP = ["dataset", "backbone", "conv"]
CELL = [*GROUP, "pool"]
# What tells the runs of a cell apart: runs of another seed are further replicates.
RUN = ["seed", "run"]
# Names, or a text with commas between names; None for all.
Names = str | Sequence[str] | None
# Of a cell: dataset, backbone, convolution and pooling.
Cell = tuple[str, str, str, str]


def select(results: Results, rule: str = "accuracy", split: str | None = None) -> pd.DataFrame:
    """The runs of one split, in the order of the tables, with their ``accuracy`` by one rule.

    Runs that share their names and differ in an option (``ratio=0.25`` beside the default) are of
    different cells: what differs becomes part of ``pool``, and ``name`` is the pooling without it.
    Runs that differ in the seed alone are replicates. ``default`` says whether a run was trained
    with every setting at its default, ``settings`` which are not; ``key`` finds its curves;
    ``one_class`` is 1 where the network gives all test graphs the same class, 0 where not, NaN
    where that is unknown. Memory is kept of GPUs alone: by how much a process on a CPU grew is no
    property of what it trained.

    Args:
        results: the runs of a sweep.
        rule: "accuracy" or "loss", by which the epoch was chosen.
        split: "shared" or "fresh"; by default fresh, if there are such runs.
    """
    if rule not in RULES:
        raise ValueError(f"unknown rule '{rule}': choose one of {', '.join(RULES)}.")
    there = sorted(set(results.runs["split"]))
    if not there:
        raise ValueError("there are no runs to report on.")
    split = split or there[0]  # "fresh" comes before "shared".
    if split not in there:
        raise ValueError(f"there are no runs with split '{split}', only '{', '.join(there)}'.")
    runs = results.runs[results.runs["split"] == split].reset_index(drop=True)
    runs = runs.assign(**{name: np.nan for name in LATER if name not in runs})
    runs = runs.astype(dict.fromkeys((*NUMBERS, *LATER), float))
    settings = [_settings(config) for config in runs["config"]]
    runs["key"] = [key(row) for row in runs.to_dict("records")]
    runs["name"], runs["pool"] = runs["pool"], shown_pools(runs)
    runs["settings"] = [", ".join(changed(options).values()) for options in settings]
    runs["default"] = runs["settings"] == ""
    runs["accuracy"] = runs[ACCURACY[rule]]
    runs["one_class"] = runs[CONSTANT[rule]].where(runs["accuracy"].notna())
    runs["peak_memory"] = runs["peak_memory"].where(runs["device"] != "CPU")
    repeated = runs.duplicated([*CELL, *RUN])
    if repeated.any():
        first = runs[repeated].iloc[0]
        raise ValueError(f"run {first['run']} of {' '.join(first[CELL])} is there more than once.")
    return _in_order(runs)


def shown_pools(runs: pd.DataFrame) -> list[str]:
    """The name of each run's pooling with the settings in which these runs differ."""
    options = labels([_settings(config) for config in runs["config"]])
    return [
        f"{pool} ({option})" if option else pool
        for pool, option in zip(runs["pool"], options, strict=True)
    ]


def gather(runs: pd.DataFrame, reference: Reference | None = None) -> pd.DataFrame:
    """A row for each cell: mean and spread over its runs, costs, a published figure, agreement.

    ``std`` is that of a sample (n − 1), and empty for a single run. A run that diverged before any
    epoch was chosen has no accuracy and is counted in ``lost``. ``constant`` of ``constant_of``
    runs give all test graphs the same class, of which ``largest_class`` percent are of the largest;
    NaN where that is unknown. Without a ``reference`` the columns of its figures are empty.
    """
    cells = pd.DataFrame([_cell(of_cell) for _, of_cell in runs.groupby(CELL, sort=False)])
    return cells.join((reference or Reference("", {}, runs=1)).beside(cells))


def _cell(runs: pd.DataFrame) -> dict[str, Any]:
    first, accuracies = runs.iloc[0], runs["accuracy"].dropna()
    return {
        **{name: first[name] for name in CELL},
        "name": first["name"],
        "default": bool(runs["default"].all()),
        "settings": first["settings"],
        "runs": len(accuracies),
        "lost": len(runs) - len(accuracies),
        "mean": rounded(accuracies.mean()),
        "std": accuracies.std(ddof=1),
        "num_train": runs["num_train"].mean(),
        "num_test": runs["num_test"].mean(),
        "largest_class": runs["largest_class"].mean(),
        "constant": runs["one_class"].sum(min_count=1),
        "constant_of": runs["one_class"].count(),
        "epochs": runs["epochs"].mean(),
        "seconds": runs["seconds"].mean(),
        "peak_memory": runs["peak_memory"].max(),
        "stack": runs["stack"].max(),
    }


def _settings(config: str) -> dict[str, Any]:
    """Settings by their names, but for those with a column of their own."""
    settings = unnamed(read_config_text(config))
    return {name: value for name, value in settings.items() if name != "seed"}


def _in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Sorted by the names that we know, in our order; others come last, as they came."""
    known = {
        "dataset": list(TU_DATASETS),
        "backbone": list(BACKBONES),
        "conv": list(CONVS),
        "name": list(POOLINGS),
    }
    places = pd.DataFrame(index=runs.index)
    for column, names in known.items():
        order = [*names, *(name for name in runs[column].unique() if name not in names)]
        places[column] = runs[column].map(order.index)
    # As a number where it can be, so that run 10 follows run 9.
    places[["pool", *RUN]] = runs[["pool", *RUN]]
    return runs.loc[places.sort_values(list(places.columns)).index].reset_index(drop=True)


class Choice(NamedTuple):
    """What was chosen.

    Attributes:
        results: the runs, and the failures.
        names: under "pools" and "datasets", what was named; nothing where all were taken.
    """

    results: Results
    names: dict[str, tuple[str, ...]]


def choose(results: Results, pools: Names = None, datasets: Names = None) -> Choice:
    """The runs of these poolings on these datasets, as if there were no others.

    A pooling has the name that the tables show, ``lcpool (ratio=0.25)`` beside ``lcpool``; a name
    that is not in them without its settings, ``lcpool``, stands for all settings. Upper and lower
    case need not be right where only one name is meant.

    Args:
        results: the runs of a sweep.
        pools: the poolings, all by default.
        datasets: the datasets, likewise.
    """
    runs, names = results.runs.reset_index(drop=True), {}
    kept, failures = np.ones(len(runs), dtype=bool), results.failures
    if pools is not None:
        shown = _shown(runs)
        found = names["pools"] = _meant(pools, [*shown.unique(), *runs["pool"].unique()], "pooling")
        whole = [name for name in found if name not in set(shown)]
        of_pools = (shown.isin(found) | runs["pool"].isin(whole)).to_numpy()
        kept &= of_pools
        trained = set(runs["pool"][of_pools])
        failures = tuple(failure for failure in failures if failure.names[-1] in trained)
    if datasets is not None:
        found = names["datasets"] = _meant(datasets, runs["dataset"].unique(), "dataset")
        kept &= runs["dataset"].isin(found).to_numpy()
        failures = tuple(failure for failure in failures if failure.names[0] in found)
    if not names:
        return Choice(results, names)
    if not kept.any():
        raise ValueError(f"there are no runs of {' on '.join(map(listed, names.values()))}.")
    chosen = replace(results, runs=runs[kept].reset_index(drop=True), failures=failures)
    return Choice(chosen, names)


def _shown(runs: pd.DataFrame) -> pd.Series:
    """The names that reports show, which are of one split each."""
    names = pd.Series("", index=runs.index, dtype=object)
    for _, of_split in runs.groupby("split"):
        names[of_split.index] = shown_pools(of_split)
    return names


def _meant(wanted: str | Sequence[str], known: Collection[str], kind: str) -> tuple[str, ...]:
    """The known names that are wanted, in their order."""
    known = list(dict.fromkeys(known))
    texts = [wanted] if isinstance(wanted, str) else wanted
    found = {name for text in texts for name in _names(text, known, kind)}
    if not found:
        raise ValueError(f"the list of {kind}s is empty: {_there(known)}.")
    return tuple(name for name in known if name in found)


def _names(text: str, known: Sequence[str], kind: str) -> Iterator[str]:
    """The names between the commas; a known name may have commas of its own."""
    parts = text.split(",")
    while parts:
        ends = range(len(parts), 0, -1)
        several = ((end, _known(",".join(parts[:end]).strip(), known)) for end in ends)
        end, name = next(((end, name) for end, name in several if name is not None), (1, None))
        first = parts[0].strip()
        parts = parts[end:]
        if name is not None:
            yield name
        elif first:
            raise ValueError(
                f"the results have no {kind} '{first}'{_near(first, known)}: {_there(known)}."
            )


def _known(name: str, known: Sequence[str]) -> str | None:
    if name in known:
        return name
    alike = [other for other in known if other.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _near(name: str, known: Sequence[str]) -> str:
    spelt = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), spelt, n=1)
    return f" (did you mean '{spelt[close[0]]}'?)" if close else ""


def _there(known: Sequence[str]) -> str:
    return f"there are {listed(known)}"


@dataclass(frozen=True)
class Reference:
    """Published accuracies that a report shows beside its own.

    They stand beside cells that were trained with every setting at its default.

    Attributes:
        name: what has published them, as a word: "paper".
        figures: mean and standard deviation of the test accuracy in percent, by cell.
        runs: over how many runs they were taken.
        variants: poolings that it does not rank, each with the pooling that it is a variant of:
            where that one is there, the variant is not ranked here either.
    """

    name: str
    figures: Mapping[Cell, tuple[float, float]]
    runs: int
    variants: Mapping[str, str] = field(default_factory=dict)

    def beside(self, cells: pd.DataFrame) -> pd.DataFrame:
        """``reference_mean`` and ``reference_std`` of each cell, and the :func:`agreement`."""
        nothing = (None, None)
        names = cells[["dataset", "backbone", "conv", "name"]].itertuples(index=False, name=None)
        rows = [
            self.figures.get(cell, nothing) if default else nothing
            for cell, default in zip(names, cells["default"], strict=True)
        ]
        figures = pd.DataFrame(rows, index=cells.index, columns=["reference_mean", "reference_std"])
        return figures.join(agreement(cells.join(figures), self.runs))


def agreement(cells: pd.DataFrame, runs: int) -> pd.DataFrame:
    """``difference`` and ``tolerance`` in points and ``agrees``, empty where nothing can be judged.

    That is, where there is no published figure, where a cell was not trained with the default
    settings, or where a single run shows no spread.

    Args:
        cells: with ``reference_mean`` and ``reference_std``.
        runs: over how many runs the published figures were taken.
    """
    p = cells["mean"] / 100
    sampling = 100**2 * p * (1 - p) / cells["num_test"]
    spread = cells["std"] ** 2 / cells["runs"] + cells["reference_std"].astype(float) ** 2 / runs
    judged = pd.DataFrame(index=cells.index)
    judged["difference"] = cells["mean"] - cells["reference_mean"].astype(float)
    judged["tolerance"] = 2 * np.sqrt(sampling + spread)  # NaN without a published figure.
    agrees = (judged["difference"].abs() <= judged["tolerance"]).astype("boolean")
    judged["agrees"] = agrees.mask(judged.isna().any(axis=1))
    return judged


def agreeing(cells: pd.DataFrame) -> tuple[int, int]:
    """How many cells agree with a published figure, of how many that can be judged."""
    judged = cells["agrees"].dropna()
    return int(judged.sum()), len(judged)


class HeldOut(NamedTuple):
    """The test graphs of a dataset.

    Attributes:
        fewest: how many they are, in the cell that has the fewest.
        most: likewise; the same but for runs on different data of one name.
        largest: how many percent of them are of the largest class, mean over runs, if known.
    """

    fewest: int
    most: int
    largest: float | None

    @property
    def size(self) -> str:
        """How many, in words."""
        return f"{self.fewest}" if self.fewest == self.most else f"{self.fewest} to {self.most}"

    @property
    def share(self) -> str:
        """The largest class, in words."""
        return "–" if self.largest is None else f"{self.largest:.1f}"


class Constant(NamedTuple):
    """A pooling with runs on a dataset that predict one class for all test graphs.

    Attributes:
        dataset: where.
        pool: the pooling.
        runs: how many of its runs predict one class.
        of: of how many runs that is known.
        largest: how many percent of the test graphs are of the largest class, if known.
        groups: how many of the runs have which backbone and convolution.
    """

    dataset: str
    pool: str
    runs: int
    of: int
    largest: float | None
    groups: dict[tuple[str, str], int]


def held_out(cells: pd.DataFrame) -> dict[str, HeldOut]:
    """The test graphs of each dataset."""
    return {
        str(dataset): HeldOut(
            round(of_dataset["num_test"].min()),
            round(of_dataset["num_test"].max()),
            _mean_if_known(of_dataset["largest_class"]),
        )
        for dataset, of_dataset in cells.groupby("dataset", sort=False)
    }


def constants(cells: pd.DataFrame) -> list[Constant]:
    """Where runs predict one class, in the order of the tables."""
    found = []
    marked = cells[cells["constant"] > 0]
    for (dataset, pool), part in marked.groupby(["dataset", "pool"], sort=False):
        every = cells[(cells["dataset"] == dataset) & (cells["pool"] == pool)]
        pairs = zip(part["backbone"], part["conv"], strict=True)
        found.append(
            Constant(
                dataset,
                pool,
                int(part["constant"].sum()),
                int(every["constant_of"].sum()),
                _mean_if_known(every["largest_class"]),
                dict(zip(pairs, part["constant"].astype(int).tolist(), strict=True)),
            )
        )
    return found


def _mean_if_known(shares: pd.Series) -> float | None:
    mean = shares.mean()
    return None if pd.isna(mean) else float(mean)
