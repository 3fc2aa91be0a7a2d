"""What ranks show, and which pooling to take by that."""

import re

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


@pytest.mark.parametrize(
    ("lead", "named"),
    [
        # Taken, and than which it is more accurate; and taken where graphs must get smaller.
        (5.0, [["lcpool", "nopool"], ["lcpool"]]),
        (-5.0, [["nopool"]]),
        (0.0, [["nopool"]]),
    ],
)
def test_what_to_take(lead, named):
    c = compared({"nopool": 0.0, "lcpool": lead})
    said = take(c, {"nopool": 1.0, "lcpool": 2.0})
    assert [re.findall(r"\w*pool\b", sentence) for sentence in said] == named


def test_what_may_be_taken_where_graphs_must_get_smaller():
    leads = {"lcpool": 9.0, "mincutpool": 8.0, "nopool": 1.0, "asapool": 0.5, "topkpool": -9.0}
    seconds = {"lcpool": 2.0, "mincutpool": 3.0, "nopool": 1.0}
    *_, last = take(compared(leads), seconds)
    # Either of two, and which of them is faster.
    assert re.findall(r"\w*pool\b", last) == ["lcpool", "mincutpool", "lcpool"]


def test_looks_side_by_side():
    first = compared({"nopool": 0.0, "lcpool": 5.0})
    text = analyses({"fresh": first, "shared": compared({"nopool": 0.0, "lcpool": 0.0})})
    *_, fresh, shared = text.split("\n")
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in (fresh, shared)]
    assert [row[:3] for row in cells] == [["fresh", "1.00", "2.00"], ["shared", "1.50", "1.50"]]
    assert [re.findall(r"\w*pool\b", row[3]) for row in cells] == [["lcpool", "nopool"], []]


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
