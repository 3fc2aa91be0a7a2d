"""What ranks show, and which pooling to take by that."""

import numpy as np
import pytest
from paper_runs import make_results

from lcpool.report.comparison import Comparison
from paper.report import PaperReport
from paper.shown import analyses, shown, take


def compared(leads: dict[str, float]) -> Comparison:
    """Poolings that differ by as many points on every dataset."""
    made = make_results(convs=("gcn",), runs=5, pools=tuple(leads))
    made.runs["test_accuracy"] = 70.0 + made.runs["run"] + made.runs["pool"].map(leads)
    return PaperReport.of(made).paper


def test_every_pair_is_looked_at():
    """Not only those with the first, or with none."""
    six = dict.fromkeys(("nopool", "sagpool", "asapool", "diffpool"), 0.0)
    c = compared({"lcpool": 9.0, "mincutpool": 8.0, **six, "topkpool": -9.0})
    assert shown(c) == [("lcpool", "topkpool"), ("mincutpool", "topkpool")]
    assert shown(compared(six)) == []


BEST = (
    "Where accuracy is all that counts, take none (nopool): no pooling is shown to beat that, and "
    "it takes the least time."
)


@pytest.mark.parametrize(
    ("lead", "said"),
    [
        (
            5.0,
            "Where accuracy is all that counts, take lcpool, shown to be more accurate than "
            "nopool. Where graphs must get smaller, take lcpool: shown to be more accurate than "
            "another pooling, and not to be less accurate than any.",
        ),
        (-5.0, BEST),
        (0.0, BEST),
    ],
)
def test_what_to_take(lead, said):
    c = compared({"nopool": 0.0, "lcpool": lead})
    assert " ".join(take(c, {"nopool": 1.0, "lcpool": 2.0})) == said


def test_what_may_be_taken_where_graphs_must_get_smaller():
    leads = {"lcpool": 9.0, "mincutpool": 8.0, "nopool": 1.0, "asapool": 0.5, "topkpool": -9.0}
    seconds = {"lcpool": 2.0, "mincutpool": 3.0, "nopool": 1.0}
    *_, last = take(compared(leads), seconds)
    assert "take lcpool or mincutpool (of these lcpool takes the least time): shown" in last


def test_looks_side_by_side():
    first = compared({"nopool": 0.0, "lcpool": 5.0})
    text = analyses({"fresh": first, "shared": compared({"nopool": 0.0, "lcpool": 0.0})})
    *_, fresh, shared = text.split("\n")
    assert fresh == "| fresh | 1.00 | 2.00 | lcpool than nopool |"
    assert shared == "| shared | 1.50 | 1.50 | none than another |"


def test_equal_means_share_a_rank_however_they_come_about():
    """Group means that are rounded before they are averaged would tell these two apart."""
    correct = {"nopool": (700, 778, 763, 742), "sagpool": (731, 793, 741, 718)}
    made = make_results(datasets=("PROTEINS", "DD"), runs=10, pools=tuple(correct))
    runs = made.runs
    group = runs["backbone"].astype(str) + runs["conv"].astype(str)
    number = group.map({name: i for i, name in enumerate(dict.fromkeys(group))})
    hits = [correct[pool][g] for pool, g in zip(runs["pool"], number, strict=True)]
    # Of ten runs on 112 graphs, one after the other until the hits are spent.
    made.runs["test_accuracy"] = [
        100 * (hit // 10 + (run < hit % 10)) / 112
        for hit, run in zip(hits, runs["run"], strict=True)
    ]
    c = PaperReport.of(made).paper
    assert not np.array_equal(c.means[:, 0], c.means[:, 1])
    assert list(c.rank.values()) == [1.5, 1.5]
