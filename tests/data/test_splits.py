from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lcpool.data import DatasetError, GraphSet, Split, builtin, split
from lcpool.data.checks import check_columns

# Graphs, and the test sizes that the decimals of the published means imply.
TEST_SIZES = {1113: 112, 600: 60, 4337: 434, 1178: 118, 4110: 411, 467: 47}
GRAPHS = builtin(num_graphs=60)


@pytest.mark.parametrize("protocol", ["shared", "fresh"])
def test_sizes_are_the_papers(protocol: str):
    for n, size in TEST_SIZES.items():
        train, val, test = split(n, 0, protocol)
        assert len(test) == size
        assert len(train) == int(n * 0.8)
        assert len(train) + len(val) + len(test) == n


@given(st.integers(6, 200), st.integers(0, 9), st.sampled_from(["shared", "fresh"]))
def test_every_graph_is_in_one_part_and_no_part_is_empty(n: int, run: int, protocol: str):
    parts = split(n, run, protocol)
    assert torch.cat(parts).sort().values.tolist() == list(range(n))
    assert all(len(part) for part in parts)


def test_the_shared_split_is_one_known_permutation():
    order = torch.from_numpy(np.random.RandomState(0).permutation(467))
    for run in (0, 9):
        assert torch.equal(torch.cat(split(467, run)), order)
    assert not torch.equal(torch.cat(split(467, 0, seed=1)), order)


def test_fresh_splits_differ_from_each_other_and_from_the_shared_one():
    fresh = [torch.cat(split(100, run, "fresh", seed)) for seed in (0, 1) for run in range(10)]
    shared = [torch.cat(split(100, 0, "shared", seed)) for seed in range(12)]
    assert len({tuple(order.tolist()) for order in fresh + shared}) == 32


def test_the_same_arguments_give_the_same_split():
    for part, again in zip(split(99, 3, "fresh", 5), split(99, 3, "fresh", 5), strict=True):
        assert torch.equal(part, again)


def test_what_cannot_be_split():
    with pytest.raises(ValueError, match="at least 6 graphs, not 5"):
        split(5, 0)
    with pytest.raises(ValueError, match="'shared' or 'fresh', not 'new'"):
        split(100, 0, "new")


# --- predefined


def parts_of(*parts):
    return Split(*(torch.tensor(part, dtype=torch.long) for part in parts))


OWN = (parts_of([0, 1, 2, 3], [4], [5, 6]), parts_of([9, 8, 7, 5], [3], [2]))


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
