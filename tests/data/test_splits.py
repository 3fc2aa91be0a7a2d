import hashlib
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold

from lcpool.data import DatasetError, GraphSet, Split, builtin, split
from lcpool.data.checks import check_columns
from lcpool.data.splits import Scheme, hold_out, resolved, split_graphs

# Graphs, and the test sizes that the decimals of the published means imply.
TEST_SIZES = {1113: 112, 600: 60, 4337: 434, 1178: 118, 4110: 411, 467: 47}
GRAPHS = builtin(num_graphs=60)

# The classes of up to 100 graphs, of which each class that occurs has at least six.
drawn_classes = st.lists(st.integers(6, 25), min_size=1, max_size=4).map(
    lambda sizes: torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
)
shuffles = st.randoms(use_true_random=False)


def shuffled(classes, random):
    order = list(range(len(classes)))
    random.shuffle(order)
    return classes[order]


def within_one(part, whole, of, among):
    """Whether each class has of/among of its graphs in a part, rounded down or up."""
    found, there = (classes.bincount(minlength=9) for classes in (part, whole))
    return bool(((found >= there * of // among) & (found <= -(-there * of // among))).all())


def is_partition(parts, n):
    return torch.cat(list(parts)).sort().values.tolist() == list(range(n))


@pytest.mark.parametrize("protocol", ["shared", "fresh", "stratified"])
def test_sizes_are_the_papers(protocol: str):
    for n, size in TEST_SIZES.items():
        train, val, test = split(n, 0, protocol, classes=torch.arange(n) % 3)
        assert len(test) == size
        assert len(train) == int(n * 0.8)
        assert len(train) + len(val) + len(test) == n


@given(
    st.integers(6, 200), st.integers(0, 9), st.sampled_from(["shared", "fresh", "repeated-3-fold"])
)
def test_every_graph_is_in_one_part_and_no_part_is_empty(n: int, run: int, protocol: str):
    parts = split(n, run, protocol)
    assert is_partition(parts, n)
    assert all(len(part) for part in parts)
    assert len(parts.train) > 1


def test_the_shared_split_is_one_known_permutation():
    order = torch.from_numpy(np.random.RandomState(0).permutation(467))
    for run in (0, 9):
        assert torch.equal(torch.cat(split(467, run)), order)
    assert not torch.equal(torch.cat(split(467, 0, seed=1)), order)


def test_fresh_splits_differ_from_each_other_and_from_the_shared_one():
    fresh = [torch.cat(split(100, run, "fresh", seed)) for seed in (0, 1) for run in range(10)]
    shared = [torch.cat(split(100, 0, "shared", seed)) for seed in range(12)]
    assert len({tuple(order.tolist()) for order in fresh + shared}) == 32


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ("shared", "7dda43a3abc9cb20"),
        ("fresh", "b0d261b3b6294ef4"),
        ("stratified", "e67055d57ba2243a"),
        ("10-fold", "46cce6fcc7d3ce04"),
        ("repeated-10-fold", "0dcba8f7938f53da"),
        ("5-fold", "731fa0bc52393ca8"),
    ],
)
def test_splits_stay_the_same_in_later_versions(protocol: str, expected: str):
    """Runs in stores and exports are those of these splits."""
    scheme, total = Scheme.of(protocol), hashlib.sha256()
    for run in range(scheme.folds if scheme.folds and not scheme.repeated else 12):
        for part in split(188, run, protocol, seed=7, classes=torch.arange(188) % 5 // 2):
            total.update(part.numpy().astype("<i8").tobytes() + b"|")
    assert total.hexdigest()[:16] == expected


def test_the_same_arguments_give_the_same_split():
    classes = torch.arange(99) % 2
    for protocol in ("fresh", "stratified", "repeated-3-fold"):
        once, again = (split(99, 3, protocol, 5, classes) for _ in range(2))
        assert all(map(torch.equal, once, again))


# --- stratified


@given(drawn_classes, shuffles, st.integers(0, 5), st.integers(0, 3))
def test_a_stratified_split_keeps_the_proportions_of_the_classes(classes, random, run, seed):
    classes = shuffled(classes, random)
    parts = split(len(classes), run, "stratified", seed, classes)
    assert is_partition(parts, len(classes))
    assert parts.sizes == split(len(classes), run, "fresh").sizes
    for part, of in zip(parts, (8, 1, 1), strict=True):
        assert within_one(classes[part], classes, of, 10)


def test_stratified_splits_are_of_each_run_and_seed():
    classes = torch.arange(60) % 2
    tests = [
        tuple(split(60, run, "stratified", seed, classes).test.tolist())
        for run in range(10)
        for seed in range(3)
    ]
    assert len(set(tests)) == 30


def test_no_class_is_always_the_one_that_is_not_tested():
    classes = torch.arange(12) // 2  # six classes of two graphs, two of which are tested
    tested = {
        int(c) for run in range(60) for c in classes[split(12, run, "stratified", 0, classes).test]
    }
    assert tested == set(range(6))


def test_a_stratified_split_of_graphs_without_classes_is_refused():
    with pytest.raises(ValueError, match="'classes'"):
        split(60, 0, "stratified")
    unlabelled = replace(GRAPHS, y=torch.full((60,), -1), classes=())
    with pytest.raises(ValueError, match="one class per graph"):
        resolved(unlabelled, "stratified")
    resolved(unlabelled, "10-fold", 10)


# --- folds


@given(drawn_classes, shuffles, st.integers(2, 6), st.integers(0, 3))
def test_folds_test_every_graph_once_and_keep_the_proportions(classes, random, k, seed):
    classes = shuffled(classes, random)
    n = len(classes)
    splits = [split(n, run, f"{k}-fold", seed, classes) for run in range(k)]
    assert is_partition((parts.test for parts in splits), n)
    for parts in splits:
        assert is_partition(parts, n)
        assert within_one(classes[parts.test], classes, 1, k)
        rest = torch.cat([parts.train, parts.val])
        assert within_one(classes[parts.val], classes[rest], len(parts.val), len(rest))
        assert abs(len(parts.val) - len(rest) / 10) < 2
    assert len({len(parts.train) for parts in splits}) == 1


@given(drawn_classes, st.integers(2, 6))
def test_folds_are_as_even_as_scikit_learns(classes, k):
    n = len(classes)
    ours = [split(n, run, f"{k}-fold", 0, classes).test for run in range(k)]
    theirs = [test for _, test in StratifiedKFold(k).split(classes, classes)]
    counts = [
        np.sort([np.bincount(classes[test], minlength=int(classes.max()) + 1) for test in tests], 0)
        for tests in (ours, theirs)
    ]
    assert counts[0].tolist() == counts[1].tolist()  # of each class, over the folds
    assert sorted(map(len, ours)) == sorted(map(len, theirs))


def test_ten_folds_are_as_large_as_the_published_ones():
    """ENZYMES, 600 graphs of six classes, in the splits that Errica et al. published."""
    classes = torch.arange(600) // 100
    for run in range(10):
        parts = split(600, run, "10-fold", classes=classes)
        assert parts.sizes == (486, 54, 60)
        assert [classes[part].bincount().tolist() for part in parts] == [
            [81] * 6,
            [9] * 6,
            [10] * 6,
        ]


def test_repeated_folds_begin_with_the_folds_and_are_dealt_anew():
    classes = torch.arange(50) % 2
    once = [split(50, run, "5-fold", 3, classes) for run in range(5)]
    repeated = [split(50, run, "repeated-5-fold", 3, classes) for run in range(15)]
    for parts, again in zip(once, repeated, strict=False):
        assert all(map(torch.equal, parts, again))
    for begin in (0, 5, 10):
        assert is_partition((parts.test for parts in repeated[begin : begin + 5]), 50)
    assert len({tuple(parts.test.sort().values.tolist()) for parts in repeated}) == 15


def test_more_runs_than_folds_are_refused():
    with pytest.raises(ValueError, match=r"runs=5, or split='repeated-5-fold'"):
        split(50, 5, "5-fold")
    with pytest.raises(ValueError, match=r"builtin.* has 5 runs, one per fold, not 10"):
        resolved(GRAPHS, "5-fold", runs=10)
    assert resolved(GRAPHS, "repeated-5-fold", runs=12) == "repeated-5-fold"


def test_more_folds_than_graphs_of_a_class_are_refused():
    classes = torch.tensor([0] * 40 + [1] * 7)
    with pytest.raises(ValueError, match=r"7 of class 1: pass split='7-fold' and runs=7"):
        split(47, 0, "8-fold", classes=classes)
    assert split(47, 0, "7-fold", classes=classes).sizes == (36, 4, 7)
    with pytest.raises(ValueError, match="there are 47:"):
        split(47, 0, "48-fold")
    words = replace(GRAPHS, y=GRAPHS.targets, classes=("no", "yes"))
    with pytest.raises(ValueError, match=r"of class (no|yes):"):
        resolved(words, f"{len(GRAPHS) // 2 + 1}-fold")


# --- predefined


def parts_of(*parts):
    return Split(*(torch.tensor(part, dtype=torch.long) for part in parts))


OWN = (parts_of([0, 1, 2, 3], [4], [5, 6]), parts_of([9, 8, 7, 5], [3], [2]))


def test_predefined_splits_are_those_of_the_graphs_in_turn():
    graphs = replace(GRAPHS, splits=OWN)
    for run in range(5):
        assert split_graphs(graphs, run, "predefined", seed=run) is OWN[run % 2]
    with pytest.raises(ValueError, match="came without splits"):
        split_graphs(GRAPHS, 0, "predefined")
    with pytest.raises(ValueError, match="none is drawn"):
        split(60, 0, "predefined")


def test_the_name_of_predefined_splits_tells_them_from_others():
    names = [
        resolved(replace(GRAPHS, splits=splits), "predefined")
        for splits in (
            OWN,
            OWN[:1],
            OWN[::-1],
            (OWN[0]._replace(val=OWN[0].test, test=OWN[0].val),),
        )
    ]
    assert len(set(names)) == 4
    same = (OWN[0]._replace(train=torch.tensor([3, 2, 1, 0])), OWN[1])
    assert resolved(replace(GRAPHS, splits=same), "predefined") == names[0]
    assert Scheme.of(names[0]).given == 2
    assert split_graphs(replace(GRAPHS, splits=OWN), 1, names[0]) is OWN[1]
    with pytest.raises(ValueError, match="other splits"):
        split_graphs(replace(GRAPHS, splits=OWN), 0, names[1])


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (([0, 1], [2], [1, 3]), "graph 1 is in 'train' and again in 'test'"),
        (([0, 1, 1], [2], [3]), "graph 1 is in 'train' and again in 'train'"),
        (([0, 1], [], [3]), "'val' is empty"),
        (([0, 1], [2], [60]), "'test' has numbers from 60 to 60.* 0 to 59"),
        (([0, 1], [-1], [3]), "'val' has numbers from -1"),
        (([0], [1], [3]), "'train' has one graph"),
    ],
)
def test_predefined_splits_that_cannot_be_are_refused(parts, words):
    with pytest.raises(DatasetError, match=words):
        check_columns(replace(GRAPHS, splits=(OWN[0], parts_of(*parts))))


def test_a_subset_has_no_splits_and_a_copy_keeps_them():
    graphs: GraphSet = replace(GRAPHS, splits=OWN)
    assert graphs.subset(torch.arange(8)).splits == ()
    assert graphs.to("cpu").splits == OWN


# --- names


def test_what_a_name_says():
    assert [Scheme.of(name).family for name in ("fresh", "5-fold", "predefined-3-0123abcd")] == [
        "fresh", "5-fold", "predefined"]  # fmt: skip
    varies = {"shared": False, "fresh": True, "stratified": True, "3-fold": True,
              "predefined-1-0123abcd": False, "predefined-2-0123abcd": True}  # fmt: skip
    assert {name: Scheme.of(name).varies for name in varies} == varies


def test_what_cannot_be_split():
    with pytest.raises(ValueError, match=r"\b6\b.*\b5\b"):
        split(5, 0)
    for name in ("new", "1-fold", "0-fold", "kfold", "fresh-2-0123abcd", "repeated-fresh", ""):
        with pytest.raises(ValueError, match=f"'split' cannot be '{name}': .*10-fold"):
            split(100, 0, name)


def test_a_share_is_held_out_to_validate():
    for n, share, seed in itertools.product((3, 7, 40, 41), (0.01, 0.1, 0.5), range(5)):
        classes = torch.from_numpy(np.random.RandomState(seed).randint(0, n // 3, n))
        found = hold_out(n, share, seed, classes)
        assert sorted(torch.cat(found).tolist()) == list(range(n))
        assert found.sizes == (n - max(1, int(n * share)), max(1, int(n * share)), 0)
        counts = [of.bincount(minlength=n // 3) for of in (classes, classes[found.val])]
        wanted = counts[0] * len(found.val) / n
        assert ((counts[1] - wanted).abs() < 1).all()
        assert (counts[1] < counts[0])[counts[0] > 1].all()  # one of each trains
    first, again, other = (hold_out(40, 0.2, seed).val.tolist() for seed in (0, 0, 1))
    assert first == again != other
    with pytest.raises(ValueError, match="not 2"):
        hold_out(2, 0.1)
