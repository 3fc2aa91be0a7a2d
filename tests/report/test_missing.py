"""What is ranked where cells are missing, and what is said about the rest."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import make_results

from lcpool.report import Report
from lcpool.report.comparison import Grid, complete
from lcpool.report.findings import findings
from lcpool.report.tables import latex, markdown
from lcpool.sweep.results import Results

POOLS = tuple("abcdefgh")
DATASETS = tuple("UVWXYZ")
BACKBONES = (("plain", "gcn"), ("plain", "graphconv"), ("hierarchical", "gcn"))


def grid(datasets=DATASETS, pools=POOLS, backbones=BACKBONES[:1], missing=()) -> Grid:
    """A grid of these names without the cells ``missing``: dataset, pooling and, if any, pair."""
    groups = [(d, *pair) for d in datasets for pair in backbones]
    there = np.ones((len(groups), len(pools)), dtype=bool)
    for dataset, pool, *pairs in missing:
        for i, group in enumerate(groups):
            if group[0] == dataset and (not pairs or group[1:] in pairs):
                there[i, pools.index(pool)] = False
    return Grid(groups, list(pools), there)


def ranked(of: Grid) -> tuple[str, str, list[tuple[str, str]]]:
    """The names of what is ranked, and the kinds and names of what is left out."""
    rows, columns, left_out = complete(of)
    datasets = dict.fromkeys(of.groups[i][0] for i in np.flatnonzero(rows))
    pools = [of.pools[i] for i in np.flatnonzero(columns)]
    return "".join(datasets), "".join(pools), [(part.kind, part.name) for part in left_out]


def test_nothing_is_left_out_of_a_complete_grid():
    assert ranked(grid()) == ("UVWXYZ", "abcdefgh", [])


def test_one_failed_cell_takes_its_pooling_alone():
    assert ranked(grid(missing=[("W", "d")])) == ("UVWXYZ", "abcefgh", [("pool", "d")])


def test_one_failed_cell_of_several_backbones_takes_its_pooling_alone():
    of = grid(backbones=BACKBONES, missing=[("W", "d", ("plain", "gcn"))])
    assert ranked(of) == ("UVWXYZ", "abcefgh", [("pool", "d")])
    (left_out,) = complete(of)[2]
    assert left_out.missing == (("W", "plain", "gcn", "d"),)
    assert left_out.cells == 18


def test_a_dataset_that_has_just_begun_is_left_out():
    of = grid(missing=[("Z", pool) for pool in "bcdefgh"])
    assert ranked(of) == ("UVWXY", "abcdefgh", [("dataset", "Z")])
    (left_out,) = complete(of)[2]
    assert [cell[3] for cell in left_out.missing] == list("bcdefgh")
    assert left_out.cells == 8


def test_a_backbone_that_has_just_begun_is_left_out():
    """It would take all poolings but one otherwise, for they lack it on every dataset."""
    begun = [(d, pool, BACKBONES[1]) for d in DATASETS for pool in "bcdefgh"]
    of = grid(backbones=BACKBONES, missing=begun)
    assert ranked(of) == ("UVWXYZ", "abcdefgh", [("backbone", "plain, graphconv")])
    rows, _, _ = complete(of)
    assert rows.sum() == 12


def test_a_failed_cell_and_a_dataset_that_has_just_begun():
    of = grid(missing=[("W", "d"), *(("Z", pool) for pool in "bcefgh")])
    assert ranked(of) == ("UVWXY", "abcefgh", [("dataset", "Z"), ("pool", "d")])


def test_equal_shares_take_the_pooling_that_comes_last():
    of = grid("XYZ", "abc", missing=[("X", "b"), ("Y", "c")])
    # Then b lacks one of three datasets, and X one of two poolings.
    assert ranked(of) == ("YZ", "ab", [("pool", "c"), ("dataset", "X")])


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (grid("YZ", "ab", missing=[("Z", "b")]), ("Y", "ab")),
        (grid(DATASETS, "ab", missing=[(d, "b") for d in "VWXYZ"]), ("U", "ab")),
        (grid("Z", "ab", BACKBONES, missing=[("Z", "b", BACKBONES[1])]), ("Z", "ab")),
        (grid(DATASETS, "abc", missing=[(d, "c") for d in DATASETS]), ("UVWXYZ", "ab")),
    ],
)
def test_two_poolings_that_met_somewhere_are_compared_there(of: Grid, expected: tuple[str, str]):
    assert ranked(of)[:2] == expected


def test_a_pooling_without_any_result_takes_no_dataset():
    of = grid(DATASETS, "ab", missing=[(d, "b") for d in DATASETS])
    assert ranked(of) == ("UVWXYZ", "a", [("pool", "b")])


def test_poolings_that_never_met_are_not():
    of = grid("YZ", "ab", missing=[("Y", "a"), ("Z", "b")])
    rows, columns, left_out = complete(of)
    assert rows.sum() <= 1 or columns.sum() <= 1
    assert sum(len(part.missing) for part in left_out) == 2


@given(st.data())
def test_what_is_ranked_is_complete_and_every_missing_cell_is_named_once(data):
    shape = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5)))
    of = grid(DATASETS[: shape[0]], POOLS[: shape[2]], BACKBONES[: shape[1]])
    cells = st.lists(st.booleans(), min_size=of.there.size, max_size=of.there.size)
    there = np.array(data.draw(cells)).reshape(of.there.shape)
    of = Grid(of.groups, of.pools, there)
    rows, columns, left_out = complete(of)
    assert there[np.ix_(rows, columns)].all()
    named = [cell for part in left_out for cell in part.missing]
    lacking = [(*of.groups[i], of.pools[j]) for i, j in np.argwhere(~there)]
    assert sorted(named) == sorted(lacking)
    assert all(0 < len(part.missing) <= part.cells for part in left_out)
    # What lacks nothing is never left out.
    names = {"pool": 3, "dataset": 0}
    for part in left_out:
        if part.kind in names:
            assert part.name in {cell[names[part.kind]] for cell in lacking}


def lacking(results: Results, *cells: tuple[str, ...]) -> Results:
    """Without the runs of these cells: dataset, pooling, and, where one is named, convolution."""
    gone = np.zeros(len(results.runs), dtype=bool)
    for dataset, pool, *convs in cells:
        named = (results.runs["dataset"] == dataset) & (results.runs["pool"] == pool)
        gone |= named & (results.runs["conv"].isin(convs) if convs else True)
    return Results(results.runs[~gone].reset_index(drop=True), results.curves)


MINE = {"datasets": ("A", "B", "C"), "backbones": ("plain",), "pools": tuple("abcd")}


def test_a_pooling_that_is_left_out_can_be_compared_where_it_has_results():
    results = lacking(make_results(**MINE), ("B", "c", "gcn"))
    report = Report.of(results)
    (left_out,) = report.ranked.left_out
    assert (left_out.kind, left_out.name) == ("pool", "c")
    assert left_out.missing == (("B", "plain", "gcn", "c"),)
    assert left_out.compare == ("A", "C")
    kept = Report.of(lacking(results, *itertools.product("B", "abcd"))).ranked
    assert "c" in kept.pools
    assert kept.datasets == ["A", "C"]


def test_a_dataset_that_is_left_out_can_be_compared_by_the_poolings_it_has():
    begun = [("C", pool) for pool in "cd"]
    report = Report.of(lacking(make_results(**{**MINE, "convs": ("gcn",)}), *begun))
    (left_out,) = report.ranked.left_out
    assert (left_out.kind, left_out.name, left_out.compare) == ("dataset", "C", ("a", "b"))
    assert report.ranked.datasets == ["A", "B"]


def test_a_dataset_with_one_pooling_offers_no_comparison():
    begun = [("C", pool) for pool in "bcd"]
    (left_out,) = Report.of(lacking(make_results(**MINE), *begun)).ranked.left_out
    assert (left_out.name, left_out.compare) == ("C", ())


def test_every_missing_thing_is_named_in_a_sentence():
    results = lacking(make_results(**MINE), ("B", "c", "gcn"), *(("C", pool) for pool in "bcd"))
    report = Report.of(results)
    assert [part.name for part in report.ranked.left_out] == ["C", "c"]
    texts = [
        findings(report)["missing"],
        *(write(report).splitlines() for write in (markdown, latex)),
    ]
    for said in texts:
        dataset, pooling = (re.findall(r"[\w,]+", text) for text in said if "Not ranked" in text)
        assert {"C,", "b,", "c", "d"} <= set(dataset)
        assert {"c,", "B", "plain,", "gcn"} <= set(pooling)
        assert pooling[-2:] == ["datasets", "A"]


def test_a_pooling_without_a_rank_keeps_its_accuracies():
    results = make_results(**MINE)
    report = Report.of(lacking(results, ("B", "c", "gcn")))
    of_c = report.cells[report.cells["pool"] == "c"]
    assert len(of_c) == 5
    whole = Report.of(results).cells.set_index(["dataset", "conv", "pool"])["mean"]
    for cell in of_c.to_dict("records"):
        assert cell["mean"] == whole[cell["dataset"], cell["conv"], "c"]


def test_the_others_rank_as_without_the_pooling_that_failed():
    results = make_results(**MINE, runs=5)
    c = Report.of(lacking(results, ("B", "c"))).ranked
    alone = Report.of(lacking(results, *itertools.product("ABC", "c"))).ranked
    assert c.pools == alone.pools == ("a", "b", "d")
    assert (c.means == alone.means).all()
    assert c.friedman == alone.friedman
