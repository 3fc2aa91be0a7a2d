"""EdgePool against PyG's, which takes one edge after the other."""

import itertools
from dataclasses import replace

import pytest
import torch
import torch_geometric.nn as pyg
from graphs import Example, dense, graphs
from hypothesis import assume, given

from lcpool import EdgePooling


def both(example: Example):
    torch.manual_seed(example.seed)
    theirs, ours = pyg.EdgePooling(8).double(), EdgePooling(8).double()
    ours.load_state_dict(theirs.state_dict())
    x = example.features()
    size = len(example.sizes)
    out = ours(x, example.edge_index, batch=example.batch, batch_size=size)
    return x, theirs, out, theirs(x, example.edge_index, example.batch)


def no_ties(theirs, x, edge_index):
    """PyG breaks ties by chance, up to those of the two directions or copies of one edge."""
    e = theirs.lin(torch.cat([x[edge_index[0]], x[edge_index[1]]], -1)).view(-1)
    e = theirs.compute_edge_score(e, edge_index, x.size(0))
    ends = [frozenset(pair) for pair in edge_index.t().tolist()]
    order = e.argsort().tolist()
    for a, b in itertools.pairwise(order):
        assume(ends[a] == ends[b] or e[b] - e[a] > 1e-9)


@pytest.mark.usefixtures("backend")
def test_equals_pyg():
    """But for self-loops: PyG contracts them, and keeps those of A'."""

    @given(graphs())
    def check(example: Example) -> None:
        source, target = example.edge_index
        example = replace(example, edge_index=example.edge_index[:, source != target])
        x, theirs, out, (px, pedges, pbatch, unpool) = both(example)
        no_ties(theirs, x, example.edge_index)
        labels = out.labels()
        # Their clusters in our order.
        mine = torch.empty_like(out.batch)
        mine[labels] = unpool.cluster
        assert torch.equal(mine[labels], unpool.cluster)
        torch.testing.assert_close(out.x, px[mine])
        torch.testing.assert_close(out.score, unpool.new_edge_score[mine])
        assert torch.equal(out.batch, pbatch[mine])
        k = len(out.batch)
        expected = dense(pedges, k)[mine][:, mine].fill_diagonal_(0)
        assert torch.equal(dense(out.edge_index, k), expected)
        torch.testing.assert_close(out.lift(), theirs.unpool(px, unpool)[0])

    check()


def test_the_only_edge_into_a_node_ties_and_the_features_decide():
    """Not the numbers of the nodes: the middle of a path joins the end with the larger wᵀx."""
    pool = EdgePooling(1).double()
    torch.nn.init.ones_(pool.score.weight)
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    for x, labels in (([3.0, 1.0, 2.0], [0, 0, 1]), ([2.0, 1.0, 3.0], [0, 1, 1])):
        out = pool(torch.tensor(x).double(), path)
        assert out.labels().tolist() == labels
        assert sorted(out.score.tolist()) == [1.0, 1.5]


def test_self_loops_are_not_contracted():
    pool = EdgePooling(8)
    loops = torch.arange(3).expand(2, -1)
    x = torch.randn(3, 8)
    assert torch.equal(pool(x, loops).x, x)
    assert repr(pool) == "EdgePooling(8)"
