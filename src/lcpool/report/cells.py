"""The runs of one split and one selection rule, gathered into cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lcpool.data.table import paper_datasets
from lcpool.models import BACKBONES, CONVS, POOLINGS
from lcpool.report.reference import Reference
from lcpool.report.statistics import rounded
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
NOTHING = Reference("", {}, runs=1)


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
    return cells.join((reference or NOTHING).beside(cells))


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
        "dataset": list(paper_datasets()),
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
