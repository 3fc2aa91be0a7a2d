"""The first chapter of the audit: which claims hold, which pooling to take, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from lcpool.report.cells import agreeing
from lcpool.report.verdict import SURE, Verdict
from lcpool.words import listed, signed
from paper import choosing
from paper.claims import SUPPORTED, UNDECIDED, Claim
from paper.names import named
from paper.reproduction import power
from paper.shown import EARLIER, words
from paper.statements import TRUE

if TYPE_CHECKING:
    from paper.audit import Audit

PROPOSITIONS = "What the paper proves of graphs: [each by a test](#the-propositions)."
AFTER_THE_RUNS = (
    "The model behind the verdicts was chosen when these runs had been seen ([how claims are "
    "judged](../paper/README.md#the-claims))."
)


class Point(NamedTuple):
    """A bold heading, sentences, and a list below them."""

    heading: str
    sentences: list[str]
    items: list[str]

    def __str__(self) -> str:
        return "\n".join([
            f"**{self.heading}.** {' '.join(self.sentences)}".rstrip(),
            *(f"- {item}" for item in self.items),
        ])  # fmt: skip


def points(audit: Audit) -> list[Point]:
    """The answer, what is false, shown and not decided, what could be found, and the limits."""
    claims = audit.report.claims
    verdicts: dict[str, list[Claim]] = {}
    for claim in claims:
        verdicts.setdefault(claim.verdict, []).append(claim)
    supported, true, undecided = (
        [_claim(audit, claim) for claim in verdicts.get(verdict, ())]
        for verdict in (SUPPORTED, TRUE, UNDECIDED)
    )
    found = [
        Point("Which pooling to take", list(_take(audit)), list(_judged(audit))),
        Point("False by the paper's own tables", [], [
            f"“{claim.says}” {claim.paper}" for claim in claims if claim.of_paper is False
        ]),
        Point("Supported by our runs", [], [*supported, PROPOSITIONS]),
        Point("True of our means, without a test", [], true),
        Point("Not decided", [], undecided),
        Point("What could have been found", list(_power(audit)), []),
        Point("Limits", [], list(_limits(audit))),
    ]  # fmt: skip
    return [point for point in found if point.sentences or point.items]


def _take(audit: Audit) -> Iterator[str]:
    """The advice in a sentence or two."""
    v = audit.report.verdicts
    rivals = {rival.pool: rival for rival in v.rivals}
    base = rivals.pop(choosing.BASE, None)
    ahead = [named(pool) for pool, rival in rivals.items() if _is_ahead(rival)]
    if ahead:
        yield f"Take {named(v.reference)} rather than {listed(ahead, 'or')}."
    if base is not None and not _is_ahead(base):
        yield "It was not found to be more accurate than a network without pooling."
    yield (
        "Below, in points of test accuracy: by how much it is ahead on the average dataset, with "
        f"95 % intervals. A difference of up to {v.margin:g} point counts as none; a verdict has a "
        f"probability of at least {SURE:g}."
    )


def _is_ahead(rival: Verdict) -> bool:
    """Whether the lead is surely above zero."""
    return rival.word in ("better", "not worse") and rival.ahead >= SURE


# What a verdict says of LCPool and another pooling.
SAYS = {
    "better": "it is more than {margin} point ahead",
    "equal": "the two are equal",
    "worse": "it is more than {margin} point behind",
    "not worse": "it is at most {margin} point behind",
    "not better": "it is at most {margin} point ahead",
    "undecided": "undecided",
}


def _judged(audit: Audit) -> Iterator[str]:
    """A line per rival: the lead, what is sure, and whether the other analyses agree."""
    v = audit.report.verdicts
    others = [
        words(report.verdicts)
        for (runs, _), report in list(audit.reports.items())[1:]
        # Most runs of the earlier training are the same: no second look.
        if runs != EARLIER and report.verdicts.rivals
    ]
    for rival in reversed(v.rivals):
        pool, said = rival.pool, SAYS[rival.word].format(margin=f"{v.margin:g}")
        if rival.word == "not worse" and _is_ahead(rival):
            said = (
                f"it is ahead, by more than {v.margin:g} point with probability "
                f"{rival.regions.better:.3f}"
            )
        text = (
            f"against {named(pool)} {signed(rival.mean, 1)} ({signed(rival.low, 1)} to "
            f"{signed(rival.high, 1)}; plain mean {signed(rival.unweighted, 1)}): {said}"
        )
        if others:
            same = sum(one.get(pool) == rival.word for one in others)
            text += f"; the same verdict in {same} of {len(others)} other analyses"
        yield f"{text}."


def _claim(audit: Audit, claim: Claim) -> str:
    """A claim, its numbers, and whether the other analyses agree."""
    others = [
        other.verdict
        for (runs, _), report in list(audit.reports.items())[1:]
        for other in report.claims
        if runs != EARLIER and other.says == claim.says
    ]
    text = f"“{claim.says}” {claim.because}"
    if claim.verdict == UNDECIDED and claim.paper:
        text += f" The paper's own figures: {claim.paper}"
    if others:
        same = sum(verdict == claim.verdict for verdict in others)
        text += f" The same in {same} of {len(others)} other analyses."
    return text


def _power(audit: Audit) -> Iterator[str]:
    """What differences could have been found, on the average dataset and on single ones."""
    yield from audit.report.findings()["power"]
    seen = choosing.visible(choosing.pairs_on_datasets(audit.report.paper))
    yield (
        f"On a single dataset two poolings must be {seen} points apart to be told from each other."
    )
    yield "So “not decided” does not mean “equal”."


def _limits(audit: Audit) -> Iterator[str]:
    """What a reader should know before relying on the answer."""
    for rival in audit.report.verdicts.rivals:
        if rival.close:
            figures = " / ".join(f"{p:.3f}" for p in rival.regions)
            yield (
                f"The verdict against {named(rival.pool)} is so near the limit that the "
                f"error of the simulation could change it: worse / equal / better {figures}."
            )
    if audit.readings is not None:
        yield audit.readings.said()
    cells = audit.report.cells
    agree, judged = agreeing(cells)
    if judged:
        rule = power(cells)
        yield (
            f"{agree} of {judged} cells agree with the paper's, within "
            f"{rule.tolerance:.1f} points (median). That shows how high the accuracies are, not "
            f"which pooling is ahead: were each cell the mean of its dataset, {rule.level} would "
            "agree."
        )
    yield AFTER_THE_RUNS
