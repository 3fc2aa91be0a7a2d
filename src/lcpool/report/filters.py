"""Some of the poolings and datasets of a sweep, chosen by name."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from lcpool.report.cells import shown_pools
from lcpool.report.words import listed
from lcpool.sweep.results import Results

# Names, or a text with commas between names; None for all.
Names = str | Sequence[str] | None


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
