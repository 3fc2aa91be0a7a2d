"""LCPool against each rival in one analysis of the runs, and in the others."""

from __future__ import annotations

from collections.abc import Mapping

from lcpool.report.tables import Markdown
from lcpool.report.verdict import POWER, Verdicts
from lcpool.words import signed
from paper.names import named

STYLE = Markdown()
# The analysis of an earlier training on the fresh splits.
EARLIER = "earlier"


def words(verdicts: Verdicts) -> dict[str, str]:
    """The verdict on each rival."""
    return {rival.pool: rival.word for rival in verdicts.rivals}


def analyses(compared: Mapping[str, Verdicts]) -> str:
    """A row per analysis, a column per rival: difference, its interval, and the verdict.

    Below, the true difference that the first analysis would have found, and how often it would find
    two equal poolings equal.
    """
    rivals = list(words(next(iter(compared.values()))))
    rows = []
    for name, verdicts in compared.items():
        found = {rival.pool: rival for rival in verdicts.rivals}
        cells = (
            STYLE.above(
                f"{signed(found[pool].mean, 1)}: {found[pool].word}",
                f"{signed(found[pool].low, 1)} to {signed(found[pool].high, 1)}; "
                + " / ".join(f"{100 * p:.1f}" for p in found[pool].regions),
            )
            if pool in found
            else "–"
            for pool in rivals
        )
        rows.append([name, *cells])
    able = next(iter(compared.values())).table.set_index("pool")
    could = (
        STYLE.above(
            f"{able.detectable[pool]:.1f} points", f"equal: {100 * able.equal_if_equal[pool]:.0f} %"
        )
        for pool in rivals
    )
    rows.append([f"found with probability {POWER:g}", *could])
    return STYLE.grid(["", *map(named, rivals)], rows)
