"""What average ranks show over the datasets, in one analysis of the runs and in the others."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from lcpool.report.comparison import Comparison
from lcpool.report.statistics import ALPHA, nemenyi
from lcpool.report.tables import Markdown
from lcpool.report.words import listed
from paper.choosing import BASE, fastest

STYLE = Markdown()
NONE = "none than another"
# The analysis of an earlier training on the fresh splits.
EARLIER = "earlier"
# Two poolings, the more accurate first.
Pairs = list[tuple[str, str]]


def shown(c: Comparison) -> Pairs:
    """The pairs whose average ranks differ by Nemenyi's test, which is corrected for all pairs."""
    apart = {
        (one, other): nemenyi(c.rank[other] - c.rank[one], len(c.pools), len(c.datasets))
        for one, other in itertools.combinations(c.order, 2)
    }
    return [pair for pair, p in apart.items() if p < ALPHA]


def named(pairs: Pairs) -> str:
    """Pairs in words, those with the same lesser ones together.

    >>> named([("a", "y"), ("a", "z"), ("b", "y"), ("b", "z"), ("c", "z")])
    'a and b than y and z; c than z'
    """
    lesser: dict[str, list[str]] = {}
    for better, worse in pairs:
        lesser.setdefault(better, []).append(worse)
    alike: dict[tuple[str, ...], list[str]] = {}
    for better, those in lesser.items():
        alike.setdefault(tuple(those), []).append(better)
    return "; ".join(f"{listed(better)} than {listed(those)}" for those, better in alike.items())


def take(c: Comparison, seconds: Mapping[str, float]) -> list[str]:
    """Which pooling to take by what is shown.

    Args:
        c: the poolings.
        seconds: what they take, as far as that is known.
    """
    pairs, said = shown(c), []
    better = [one for one, other in pairs if other == BASE]
    if better:
        said.append(
            f"Where accuracy is all that counts, take {_choice(better, seconds)}, shown to be more "
            f"accurate than {BASE}."
        )
    elif BASE in c.pools:
        cheap = ", and it takes the least time" if fastest(seconds, seconds) == BASE else ""
        said.append(
            f"Where accuracy is all that counts, take none ({BASE}): no pooling is shown to beat "
            f"that{cheap}."
        )
    lesser = {worse for _, worse in pairs}
    able = [p for p in dict.fromkeys(one for one, _ in pairs) if p not in {*lesser, BASE}]
    if able:
        said.append(
            f"Where graphs must get smaller, take {_choice(able, seconds)}: shown to be more "
            "accurate than another pooling, and not to be less accurate than any."
        )
    return said


def _choice(pools: list[str], seconds: Mapping[str, float]) -> str:
    quick = fastest(pools, seconds) if len(pools) > 1 else None
    return " or ".join(pools) + (f" (of these {quick} takes the least time)" if quick else "")


def analyses(compared: Mapping[str, Comparison]) -> str:
    """Average ranks over the datasets and what they show; a row per analysis."""
    first = next(iter(compared.values()))
    rows = []
    for name, c in compared.items():
        ranked = (f"{c.rank[pool]:.2f}" if pool in c.rank else "–" for pool in first.order)
        rows.append([name, *ranked, STYLE.escape(named(shown(c))) or NONE])
    return STYLE.grid(["", *map(STYLE.escape, first.order), "shown to be more accurate"], rows)
