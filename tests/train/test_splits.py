"""Training by each scheme of splits: what a run trains on, stacks, checkpoints, errors."""

import pytest
import torch

from lcpool.data import builtin
from lcpool.train import Trainer, train

GRAPHS = builtin(num_graphs=44)
QUICK = {"pool": "topkpool", "hidden": 8, "epochs": 2, "device": "cpu"}
SPLITS = [
    {"train": range(0, 20), "val": range(20, 25), "test": range(25, 30)},
    {"train": range(10, 40), "val": range(40, 44), "test": range(0, 10)},
]
SPLITS = [{name: list(part) for name, part in split.items()} for split in SPLITS]


def trained(**settings):
    """A result, and the stacks of run numbers that it was trained in, with each run's split."""
    stacks: dict[int, Trainer] = {}
    result = train(
        GRAPHS, **{**QUICK, **settings}, on_epoch=lambda one: stacks.setdefault(id(one), one)
    )
    numbers = [[run.number for run in one.runs] for one in stacks.values()]
    splits = {
        run.number: split
        for one in stacks.values()
        for run, split in zip(one.runs, one.splits, strict=True)
    }
    return result, numbers, splits


def test_folds_of_other_sizes_are_other_stacks():
    result, stacks, splits = trained(split="10-fold")
    assert stacks == [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]]  # 44 graphs: four folds of 5, six of 4
    assert [run.number for run in result.runs] == list(range(10))
    assert [run.num_test for run in result.runs] == [5] * 4 + [4] * 6
    assert result.stack == 6
    tested = torch.cat([split.test for split in splits.values()])
    assert tested.sort().values.tolist() == list(range(44))


def test_a_run_is_the_same_alone_and_beside_others():
    result, *_ = trained(split="10-fold")
    alone, stacks, _ = trained(split="10-fold", stack=1)
    assert stacks == [[number] for number in range(10)]
    assert [run.num_test for run in alone.runs] == [run.num_test for run in result.runs]
    for one, other in zip(result.runs, alone.runs, strict=True):
        torch.testing.assert_close(torch.tensor(one.curves), torch.tensor(other.curves))


def test_splits_are_those_of_every_pooling():
    found = [trained(split="5-fold", runs=5, pool=pool)[2] for pool in ("nopool", "lcpool")]
    for run in range(5):
        assert all(map(torch.equal, found[0][run], found[1][run]))


def test_predefined_splits_are_used_in_turn(recwarn):
    result, stacks, splits = trained(splits=SPLITS, runs=3)
    assert stacks == [[0], [1], [2]]
    for run, split in splits.items():
        assert [part.tolist() for part in split] == list(SPLITS[run % 2].values())
    assert result.protocol.split.startswith("predefined-2-")
    assert result.to_dict()["settings"]["split"] == result.protocol.split
    again, *_ = trained(splits=SPLITS[:1], runs=1)
    assert again.protocol.split != result.protocol.split


def test_checkpoints_are_of_one_scheme(tmp_path, recwarn):
    common = {"runs": 2, "checkpoints": tmp_path, "keep_checkpoints": True}
    for more in ({}, {"split": "stratified"}, {"split": "5-fold"}, {"splits": SPLITS}):
        before = set(tmp_path.iterdir())
        trained(**common, **more)
        assert set(tmp_path.iterdir()) - before


def test_what_does_not_fit_is_refused(recwarn):
    with pytest.raises(ValueError, match="leave one of them out"):
        trained(splits=SPLITS, split="fresh")
    with pytest.raises(ValueError, match="came without splits"):
        trained(split="predefined")
    with pytest.raises(ValueError, match="pass runs=5, or split='repeated-5-fold'"):
        trained(split="5-fold")
    with pytest.raises(ValueError, match="needs 40 graphs of each class"):
        trained(split="40-fold")
