"""What is ranked where cells are missing, what is not, and how to compare that anyway."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lcpool.report.cells import GROUP
from lcpool.report.words import listed

if TYPE_CHECKING:
    from lcpool.report.api import Report

Bools = NDArray[np.bool_]
# Dataset, backbone and convolution; with a pooling, a cell.
Group = tuple[str, str, str]
Cell = tuple[str, str, str, str]

POOL, DATASET, BACKBONE = "pool", "dataset", "backbone"


@dataclass(frozen=True)
class LeftOut:
    """A pooling, a dataset or a backbone that is not ranked because cells of it are missing.

    Attributes:
        kind: "pool", "dataset" or "backbone".
        name: of the pooling or the dataset; for a backbone with its convolution, "plain, gcn".
        missing: the cells without a result because of which it is left out.
        cells: how many cells it has, with and without a result, in what was not left out before.
        compare: what to choose to have it ranked: datasets for a pooling, poolings for a dataset
            or a backbone. Empty if no choice does that.
    """

    kind: str
    name: str
    missing: tuple[Cell, ...]
    cells: int
    compare: tuple[str, ...] = ()


class Grid(NamedTuple):
    """Groups and poolings, and which cells have a result, ``[groups, pools]``."""

    groups: list[Group]
    pools: list[str]
    there: Bools


class Complete(NamedTuple):
    """Which groups and which poolings are ranked, and what is left out."""

    groups: Bools
    pools: Bools
    left_out: tuple[LeftOut, ...]


class _Part(NamedTuple):
    """What can be left out, and its cells."""

    kind: str
    name: str
    cells: Bools


def complete(grid: Grid) -> Complete:
    """Leave out poolings, datasets and backbones until no cell is missing.

    Whatever has the largest share of missing cells goes first. Among equals a pooling goes before a
    dataset and a dataset before a backbone, and the last in the tables before the others. So one
    failed cell takes its pooling out of the ranking and leaves the dataset to the others, and a
    dataset that has just begun is left out itself. The last two poolings stay as long as leaving
    out something else helps.
    """
    found = _complete(grid)
    compared = (replace(part, compare=_compare(grid, found, part)) for part in found.left_out)
    return found._replace(left_out=tuple(compared))


def _complete(grid: Grid) -> Complete:
    parts, left_out = list(_parts(grid)), []
    kept = np.ones_like(grid.there)
    while (missing := kept & ~grid.there).any():
        part = max(parts, key=lambda part: _urgency(part, missing, kept))
        gone = np.argwhere(missing & part.cells)
        cells = tuple((*grid.groups[i], grid.pools[j]) for i, j in gone)
        left_out.append(LeftOut(part.kind, part.name, cells, int((kept & part.cells).sum())))
        kept &= ~part.cells
    groups, pools = (np.asarray(kept.any(axis=axis)) for axis in (1, 0))
    return Complete(groups, pools, tuple(left_out))


def _parts(grid: Grid) -> Iterator[_Part]:
    """Everything that can be left out; among equals the first goes first."""
    for at in reversed(range(len(grid.pools))):
        cells = np.zeros_like(grid.there)
        cells[:, at] = True
        yield _Part(POOL, grid.pools[at], cells)
    for kind in (DATASET, BACKBONE):
        names = [_name(group, kind) for group in grid.groups]
        for name in reversed(dict.fromkeys(names)):
            cells = np.zeros_like(grid.there)
            cells[[other == name for other in names]] = True
            yield _Part(kind, name, cells)


def _name(group: Group, kind: str) -> str:
    return group[0] if kind == DATASET else ", ".join(group[1:])


def _urgency(part: _Part, missing: Bools, kept: Bools) -> tuple[float, ...]:
    """How much a part should be left out; the highest goes."""
    own = kept & part.cells
    lacking = int((missing & own).sum())
    if not lacking:
        return (0,)
    share = lacking / int(own.sum())
    two_stay = (kept & ~part.cells).any(axis=0).sum() > 1
    # Without any result it is no loss, even if nothing remains to be compared.
    return (1, share == 1, bool(two_stay), share)


def _compare(grid: Grid, found: Complete, part: LeftOut) -> tuple[str, ...]:
    """The ranked datasets, or poolings, to choose so that this part is ranked too."""
    ranked = list(itertools.compress(grid.groups, found.groups))
    if part.kind == POOL:
        of_pool = dict(zip(grid.groups, grid.there[:, grid.pools.index(part.name)], strict=True))
        lacking = {group[0] for group in ranked if not of_pool[group]}
        names = [name for name in dict.fromkeys(g[0] for g in ranked) if name not in lacking]
        chosen = _choose(grid, names, grid.pools)
    else:
        other = BACKBONE if part.kind == DATASET else DATASET
        places = {_name(group, other) for group in ranked}
        its = [
            _name(group, part.kind) == part.name and _name(group, other) in places
            for group in grid.groups
        ]
        whole = grid.there[its].all(axis=0) & found.pools
        names = list(itertools.compress(grid.pools, whole))
        chosen = _choose(grid, {group[0] for group in grid.groups}, names)
    return tuple(names) if _ranks(chosen, part) else ()


def _choose(grid: Grid, datasets: Collection[str], pools: Collection[str]) -> Grid:
    """The part of a grid with these names; groups without any result are no part of it."""
    columns = [at for at, pool in enumerate(grid.pools) if pool in pools]
    rows = [
        at for at, group in enumerate(grid.groups)
        if group[0] in datasets and grid.there[at, columns].any()
    ]  # fmt: skip
    return Grid(
        [grid.groups[at] for at in rows],
        [grid.pools[at] for at in columns],
        grid.there[np.ix_(rows, columns)],
    )


def _ranks(grid: Grid, part: LeftOut) -> bool:
    """Whether a part of a grid is compared there."""
    groups, pools, _ = _complete(grid)
    names = list(itertools.compress(grid.pools, pools))
    if part.kind == POOL:
        return len(names) > 1 and part.name in names
    places = itertools.compress(grid.groups, groups)
    return len(names) > 1 and part.name in (_name(group, part.kind) for group in places)


def not_ranked(report: Report) -> list[str]:
    """For each part that is not ranked: which cells are missing, and how to compare it anyway."""
    groups = set(report.cells[GROUP].itertuples(index=False, name=None))
    return [
        f"Not ranked: {lacks(part, 'no results', groups)}.{_hint(part)}"
        for part in report.ranked.left_out
    ]


def lacks(part: LeftOut, what: str, groups: Collection[Group]) -> str:
    """A part and its missing cells; a dataset, or a pooling, that has none at all by its name."""
    if part.kind == POOL:
        lacking = [(cell[0], ", ".join(cell[1:3])) for cell in part.missing]
        own = {(group[0], _name(group, BACKBONE)) for group in groups}
        return f"{part.name}, which has {what} on {_places(lacking, own)}"
    other = BACKBONE if part.kind == DATASET else DATASET
    lacking = [(cell[3], _name(cell[:3], other)) for cell in part.missing]
    places = [_name(group, other) for group in groups if _name(group, part.kind) == part.name]
    own = {(pool, place) for pool, _ in lacking for place in places}
    called = part.name if part.kind == DATASET else f"the backbone {part.name}"
    return f"{called}, where there are {what} of {_places(lacking, own)}"


def _hint(part: LeftOut) -> str:
    if not part.compare:
        return ""
    option = "--datasets" if part.kind == POOL else "--pools"
    return f" To compare it anyway: {option} {shlex.quote(','.join(part.compare))}"


def _places(lacking: Sequence[tuple[str, str]], own: Collection[tuple[str, str]]) -> str:
    """Names with what each lacks in parentheses; without, where that is all it could have.

    >>> own = {("A", "x"), ("A", "y"), ("B", "x"), ("B", "y"), ("C", "x"), ("C", "y")}
    >>> _places([("A", "x"), ("B", "x"), ("C", "x"), ("C", "y")], own)
    'A and B (x); C'
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(name for name, _ in lacking):
        details = tuple(detail for other, detail in lacking if other == name)
        whole = {detail for other, detail in own if other == name} == set(details)
        alike.setdefault(() if whole else details, []).append(name)
    texts = (
        listed(names) + (f" ({'; '.join(details)})" if details else "")
        for details, names in alike.items()
    )
    return "; ".join(texts)
