"""k-MIS against one node after the other, as in the paper."""

import pytest
import torch
from graphs import Example, dense, graphs
from hypothesis import given

from lcpool import KMISPooling


def brute_force(pool, x, edge_index, num_nodes):
    """The kept node that each node joins."""
    A = dense(edge_index, num_nodes)
    walks = torch.matrix_power(A + torch.eye(num_nodes), pool.k).sum(0)
    near = torch.matrix_power((A + torch.eye(num_nodes) > 0).double(), pool.k) > 0
    h = pool.score(x).view(-1).sigmoid()
    centre = [-1] * num_nodes
    for u in (h / walks).argsort(descending=True, stable=True).tolist():
        if centre[u] < 0:
            for v in range(num_nodes):
                if near[u, v] and centre[v] < 0:
                    centre[v] = u
    return torch.tensor(centre, dtype=torch.long), h


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("k", [1, 2, 3])
def test_equals_one_node_after_the_other(k):
    @given(graphs())
    def check(example: Example) -> None:
        torch.manual_seed(example.seed)
        pool, x = KMISPooling(8, k).double(), example.features()
        out = pool(x, example.edge_index, batch=example.batch, batch_size=len(example.sizes))
        centre, h = brute_force(pool, x, example.edge_index, example.num_nodes)
        assert torch.equal(out.perm[out.labels()], centre)
        torch.testing.assert_close(out.assignment.weight, h)
        torch.testing.assert_close(out.score, h[out.perm])
        assert torch.equal(out.perm.sort().values, centre.unique())

    check()


def test_of_equal_scores_the_node_with_fewer_neighbours_is_kept():
    """On a star of equal nodes the leaves, for the greedy heuristic divides by the degree + 1."""
    star = torch.tensor([[0, 1, 0, 2, 0, 3], [1, 0, 2, 0, 3, 0]])
    out = KMISPooling(8)(torch.ones(4, 8), star)
    assert out.perm.tolist() == [1, 2, 3]
    assert out.labels().tolist() == [0, 0, 1, 2]


def test_repr_and_arguments():
    assert repr(KMISPooling(8, 2)) == "KMISPooling(8, k=2)"
    assert repr(KMISPooling(8, edge_reduce="max")) == "KMISPooling(8, edge_reduce=max)"
    with pytest.raises(ValueError, match="'k'"):
        KMISPooling(8, 0)
    with pytest.raises(TypeError, match="'k'"):
        KMISPooling(8, 1.5)
