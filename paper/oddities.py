"""What the paper's own figures say that its text does not; all of it computed from them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lcpool.data.splits import split
from lcpool.report.tables import Backbone, Markdown
from lcpool.settings import POOLS
from lcpool.words import count, listed, signed
from paper.datasets import paper_datasets
from paper.published import OURS, PAPER_RUNS, VARIANT, published, published_ranks
from paper.rankings import (
    ROUNDING,
    misprinted,
    published_means,
    recomputed_ranks,
)
from paper.statements import winners

STYLE = Markdown()
# Equals share the mean, the lowest or the highest of their ranks.
TIES = ("average", "min", "max")


def ranking() -> str:
    """The paper's ranks as printed, above those that its accuracies give; bold where they differ.

    Its own order of columns and rows.
    """
    rows = []
    for backbone, printed in published_ranks().items():
        pairs = ((rank, recomputed_ranks()[backbone][pool]) for pool, rank in printed.items())
        rows.append([", ".join(backbone), *(_beside(*pair) for pair in pairs)])
    pools = next(iter(published_ranks().values()))
    return STYLE.grid(["backbone", *pools], rows)


def _beside(printed: float, recomputed: float) -> str:
    text = f"{printed:.2f} / {recomputed:.2f}"
    return STYLE.bold(text) if abs(printed - recomputed) > ROUNDING else text


def oddities() -> list[str]:
    """A sentence or two for each."""
    return [
        _ranks(), _first(), _most(), _variant(), _unreported(), _impossible(), _spread(),
        _spelling(),
    ]  # fmt: skip


def _ranks() -> str:
    wrong = [misprinted(ties) for ties in TIES]
    fewest, most = (pick(map(len, wrong)) for pick in (min, max))
    total = sum(map(len, published_ranks().values()))
    return (
        f"{fewest} to {most} of the {total} printed ranks do not follow from the printed "
        f"accuracies; they are off by up to {max(max(off) for off in wrong):.2f} (both depend "
        "on how ties are ranked)."
    )


def _first() -> str:
    """Where the printed table does not have LCPool alone in front."""
    found = []
    for backbone, row in published_ranks().items():
        least = min(row.values())
        first = [pool for pool, rank in row.items() if rank == least]
        if first != [OURS]:
            also = "" if OURS in first else f", {OURS} {row[OURS]:.2f}"
            found.append(f"{listed(first)} {least:.2f} for {' '.join(backbone)}{also}")
    return (
        "The text says that LCPool ranks highest for every backbone. The printed table has in "
        f"front {'; '.join(found)}."
    )


def _most() -> str:
    """How many poolings share the largest number of highest accuracies."""
    pools = list(next(iter(published_ranks().values())))
    means = np.vstack([published_means(backbone, pools) for backbone in published_ranks()])
    wins = dict(zip(pools, winners(means).tolist(), strict=True))
    most = max(wins.values())
    best = [pool for pool, n in wins.items() if n == most]
    rest = ", ".join(f"{pool} {n}" for pool, n in wins.items())
    return (
        f"LCPool's {wins[OURS]} highest accuracies are called the most. By the printed accuracies "
        f"{listed(best)} have {most} each ({rest} of {len(means)}; equals all count)."
    )


def _variant() -> str:
    """Where the variant, said not to outperform LCPool, is above it."""
    leads: dict[str, list[float]] = {}
    for (dataset, backbone, conv, pool), figure in _cells():
        ours = published(dataset, backbone, conv, OURS)
        if pool == VARIANT and figure and ours:
            leads.setdefault(dataset, []).append(figure[0] - ours[0])
    above = sum(lead > 0 for of_dataset in leads.values() for lead in of_dataset)
    everywhere = [
        f"{dataset} ({count(len(of_dataset), 'cell')}, mean {signed(float(np.mean(of_dataset)))})"
        for dataset, of_dataset in leads.items()
        if min(of_dataset) > 0
    ]
    return (
        f"LCPool* is said not to outperform LCPool. By the printed accuracies it is higher in "
        f"{above} of {count(sum(map(len, leads.values())), 'cell')}"
        + (f", in all of {listed(everywhere)}." if everywhere else ".")
    )


def _unreported() -> str:
    missing = [" ".join(cell) for cell, figure in _cells() if figure is None]
    cells = "cell is" if len(missing) == 1 else "cells are"
    return f"{len(missing)} {cells} not reported: {'; '.join(missing)}."


def _impossible() -> str:
    """Means that no number of correct test graphs in ten runs gives, at the printed precision."""
    found = []
    for cell, figure in _cells():
        graphs = PAPER_RUNS * len(split(int(paper_datasets()[cell[0]]["graphs"]), run=0).test)
        if figure and abs(round(figure[0] * graphs / 100) / graphs * 100 - figure[0]) > ROUNDING:
            found.append(f"{figure[0]:.2f} ({' '.join(cell)}, no multiple of 1/{graphs})")
    total = sum(figure is not None for _, figure in _cells())
    return (
        f"{count(len(found), 'mean')} of {total}, correctly rounded, cannot come from {PAPER_RUNS} "
        f"runs on a test set of a tenth: {'; '.join(found)}. All others can, which tells the sizes "
        "of the test sets."
    )


def _spread() -> str:
    """The paper's deviations over runs beside the luck of drawing a test set of that size."""
    texts = []
    for dataset, row in paper_datasets().items():
        figures = [figure for cell, figure in _cells() if figure and cell[0] == dataset]
        p = np.mean([mean for mean, _ in figures]) / 100
        size = len(split(int(row["graphs"]), run=0).test)
        spread = np.mean([std for _, std in figures])
        texts.append(f"{dataset} {spread:.1f} against {100 * math.sqrt(p * (1 - p) / size):.1f}")
    return (
        "Its standard deviations over runs are on average below what drawing another test set "
        f"alone gives ({'; '.join(texts)} points): ten different splits "
        "could hardly give them."
    )


def _spelling() -> str:
    return "“Muatagenicity” in its tables is Mutagenicity."


def _cells() -> Iterator[tuple[tuple[str, ...], tuple[float, float] | None]]:
    """Every cell of its tables, and mean and deviation where they are reported."""
    backbones: list[Backbone] = list(published_ranks())
    for dataset in paper_datasets():
        for backbone in backbones:
            for pool in POOLS:
                yield (dataset, *backbone, pool), published(dataset, *backbone, pool)
