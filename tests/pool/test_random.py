"""The random poolings: counts, chances, and that nothing else is random."""

import pytest
import torch

from lcpool import RandomAssignment, RandomSelection
from lcpool.testing import check_pooling

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


@pytest.mark.parametrize("cls", [RandomSelection, RandomAssignment])
def test_counts_and_seeds(cls):
    pool, x = cls(8, ratio=0.4), torch.randn(11, 8)
    batch = torch.tensor([0] * 4 + [2] * 7)
    torch.manual_seed(0)
    out = pool(x, PATH, batch=batch)
    assert out.batch.bincount().tolist() == [2, 0, 3]
    assert torch.equal(pool.pooled_counts(torch.tensor([4, 0, 7])), torch.tensor([2, 0, 3]))
    torch.manual_seed(0)
    assert torch.equal(pool(x, PATH, batch=batch).x, out.x)
    others = [pool(x, PATH, batch=batch).perm.tolist() for _ in range(9)]
    assert any(perm != out.perm.tolist() for perm in others)
    assert repr(pool) == f"{cls.__name__}(8, ratio=0.4)"


def test_selection_leaves_features_as_they_are():
    x = torch.randn(4, 8)
    out = RandomSelection(8)(x, PATH)
    assert torch.equal(out.x, x[out.perm])


def test_every_cluster_is_equally_likely():
    torch.manual_seed(0)
    n = 40_000
    out = RandomAssignment(1, ratio=4)(torch.ones(n, 1), torch.empty(2, 0, dtype=torch.long))
    assert out.x.sum() == n
    torch.testing.assert_close(out.x / n, torch.full((4, 1), 0.25), rtol=0.05, atol=0)


def test_nodes_join_a_node_of_their_graph():
    torch.manual_seed(0)
    batch = torch.randint(0, 50, (500,))
    out = RandomAssignment(1)(torch.ones(500, 1), torch.empty(2, 0, dtype=torch.long), batch=batch)
    assert torch.equal(out.batch[out.labels()], batch)


def test_checks():
    """Another batch draws other numbers."""
    check_pooling(RandomSelection, ["independence", "equivariance"])
