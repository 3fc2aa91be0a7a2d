"""Tables of average ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lcpool.report.comparison import Comparison

Backbone = tuple[str, str]
ALL: Backbone = ("all", "by dataset")


class Rank(NamedTuple):
    """An average rank, and the same by other figures."""

    ours: float
    others: tuple[float, ...] = ()

    @property
    def beside(self) -> str:
        """The others as text."""
        return " / ".join(f"{rank:.2f}" for rank in self.others)


@dataclass(frozen=True)
class Ranking:
    """A table of average ranks.

    Attributes:
        title: what it is of.
        pools: the columns.
        rows: by backbone and convolution, the rank of each pooling; last, over all the datasets.
        others: names of the ranks that stand beside ours, if there are any.
        note: what they are.
        tip: the same in short.
    """

    title: str
    pools: tuple[str, ...]
    rows: dict[Backbone, list[Rank]]
    others: tuple[str, ...] = ()
    note: str = ""
    tip: str = ""


def rankings(c: Comparison) -> list[Ranking]:
    """What is ranked; nothing for a single group, where a rank says no more than the accuracy."""
    if c.empty or len(c.groups) < 2:
        return []
    rows = {name: [Rank(rank) for rank in row] for name, row in rank_rows(c).items()}
    return [Ranking("Average rank", c.pools, rows)]


def rank_rows(c: Comparison) -> dict[Backbone, list[float]]:
    """Average ranks by backbone and convolution, and over all the datasets."""
    rows = dict(zip(c.backbones, c.backbone_ranks(c.means).tolist(), strict=True))
    overall = {ALL: c.average_ranks(c.means).tolist()}
    return overall if len(rows) == 1 else {**rows, **overall}
