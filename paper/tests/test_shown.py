"""LCPool against its rivals, in several analyses."""

import numpy as np
from paper_runs import make_results
from said import numbers

from paper.report import PaperReport
from paper.shown import analyses, words


def judged(leads: dict[str, float]):
    """Poolings that differ by about as many points on every dataset."""
    made = make_results(convs=("gcn",), runs=5, pools=tuple(leads))
    random = np.random.default_rng(0)
    level = 70.0 + made.runs["run"] + made.runs["pool"].map(leads)
    made.runs["test_accuracy"] = level + random.normal(0, 0.5, len(level))
    return PaperReport.of(made).verdicts


def test_verdicts_are_about_lcpool():
    found = judged({"nopool": 0.0, "lcpool": 5.0, "sagpool": 9.0, "asapool": 5.0})
    assert found.reference == "lcpool"
    assert found.named
    assert words(found) == {"sagpool": "worse", "asapool": "equal", "nopool": "better"}


def test_analyses_side_by_side():
    first, second = judged({"nopool": 0.0, "lcpool": 5.0}), judged({"nopool": 0.0, "lcpool": 0.0})
    text = analyses({"fresh": first, "shared": second})
    *_, fresh, shared, could = text.split("\n")
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in (fresh, shared)]
    assert [row[0] for row in cells] == ["fresh", "shared"]
    assert [row[1].split("<br>")[0].split(": ")[1] for row in cells] == ["better", "equal"]
    assert numbers(cells[0][1])[-3:] == [0, 0, 100]
    assert numbers(could.split("|")[2])[0] == round(first.table.detectable[0], 1)


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
