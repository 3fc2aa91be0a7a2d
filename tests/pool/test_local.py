import pytest
import torch
from graphs import Example, dense, graphs
from hypothesis import given
from torch_geometric.nn import GCNConv, GraphConv

from lcpool import (
    LCSMP,
    Assignment,
    ClusterAttention,
    LCPooling,
    LocalAssignmentPooling,
    LocalClusterPooling,
    Pooled,
)


class RandomAssign(torch.nn.Module):
    """S = I + A with learnable contributions of self and neighbours."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.7, 0.3], dtype=torch.float64))

    def forward(self, x, edge_index, edge_weight):
        loops = torch.arange(x.size(0))
        node, cluster = torch.cat([edge_index, loops.expand(2, -1)], dim=1)
        value = torch.cat([
            self.weight[1].expand(edge_index.size(1)), self.weight[0].expand(x.size(0))
        ])  # fmt: skip
        return Assignment(node, x.size(0), cluster, x.size(0), value)


@given(graphs())
def test_equals_the_equations_of_the_paper(example: Example):
    torch.manual_seed(example.seed)
    score = GraphConv(8, 1).double()
    pool = LocalAssignmentPooling(RandomAssign(), score, verify=True)
    x, edges, weight = example.features(), example.edge_index, example.weights()
    out = pool(x, edges, weight, example.batch, batch_size=len(example.sizes))
    A = dense(edges, example.num_nodes, weight)
    S = pool.assign(x, edges, weight).to_dense()
    X = S.T @ x
    h = score(X, edges).view(-1)
    torch.testing.assert_close(out.x, (X * h.view(-1, 1))[out.perm])
    whole = (S.T @ A @ S)[out.perm][:, out.perm]
    torch.testing.assert_close(dense(out.edge_index, out.perm.numel(), out.edge_attr), whole)
    torch.testing.assert_close(out.assignment.to_dense(), S[:, out.perm])
    torch.testing.assert_close(out.lift(), S[:, out.perm] @ out.x)


def test_gradients_reach_features_weights_and_assignment():
    torch.manual_seed(0)
    assign, score = RandomAssign(), GraphConv(3, 1).double()
    pool = LocalAssignmentPooling(assign, score)
    edges = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 3, 0, 1]])
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(5, dtype=torch.float64, requires_grad=True)

    def call(x, weight, contribution):
        state = {"assign.weight": contribution}
        out = torch.func.functional_call(pool, state, (x, edges, weight))
        return out.x, out.edge_attr

    assert torch.autograd.gradcheck(call, (x, weight, assign.weight))


def test_prerequisite_1_is_verified():
    def everywhere(x, edge_index, edge_weight):
        pairs = torch.cartesian_prod(torch.arange(3), torch.arange(3))
        return Assignment(pairs[:, 0], 3, pairs[:, 1], 3, torch.ones(9))

    x, edges = torch.randn(3, 2), torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="'assign'"):
        LocalAssignmentPooling(everywhere, GraphConv(2, 1), verify=True)(x, edges)
    attention = ClusterAttention(2)(x, edges, None)
    assert attention.is_local(edges)
    assert not attention.is_local(edges.flip(0))


def test_an_assignment_of_another_shape_is_refused():
    def half(x, edge_index, edge_weight):
        return Assignment(torch.tensor([0]), 3, torch.tensor([0]), 2)

    with pytest.raises(TypeError, match=r"\b3\b"):
        LocalAssignmentPooling(half, GraphConv(2, 1))(torch.randn(3, 2), torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match="cluster_index"):
        Assignment(torch.tensor([0]), 3, torch.tensor([0, 1]), 3)
    with pytest.raises(ValueError, match="weight"):
        Assignment(torch.tensor([0]), 3, torch.tensor([0]), 3, torch.ones(2))


def test_zero_entries_outside_the_pattern_are_local():
    S = Assignment(torch.tensor([0, 0]), 2, torch.tensor([0, 1]), 2, torch.tensor([1.0, 0.0]))
    assert S.is_local(torch.empty(2, 0, dtype=torch.long))


def test_parts_of_ones_own_are_reset():
    pool = LocalAssignmentPooling(ClusterAttention(4), GraphConv(4, 1))
    before = [p.clone() for p in pool.parameters()]
    pool.reset_parameters()
    assert all(not torch.equal(a, b) for a, b in zip(before, pool.parameters(), strict=True))
    assert repr(pool) == (
        "LocalAssignmentPooling(ClusterAttention(4), ConvScore(GraphConv(4, 1)), ratio=0.5)"
    )


def test_pooled_is_exported():
    pool = LocalAssignmentPooling(None, lambda x, edge_index: x[:, 0])
    assert isinstance(pool(torch.randn(3, 2), torch.tensor([[0], [1]])), Pooled)


@pytest.mark.parametrize("part", ["score", "cluster"])
def test_a_class_in_place_of_a_layer_is_named(part):
    parts = {"score": LCSMP(4), part: GCNConv}
    with pytest.raises(TypeError, match=rf"'{part}' .*GCNConv"):
        LocalClusterPooling(**parts)


def test_what_is_no_layer_is_named():
    with pytest.raises(TypeError, match=r"'cluster' .*True"):
        LCPooling(8, cluster=True)


def test_a_type_that_does_not_fit_is_named():
    x, edges = torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(TypeError, match=r"'x'.*torch\.float64"):
        LCPooling(4)(x.double(), edges)
    with torch.autocast("cpu", torch.bfloat16):
        assert LCPooling(4)(x.bfloat16(), edges).x.isfinite().all()
