import pytest
import torch
import torch_geometric.nn as pyg
from graphs import Example, dense, graphs
from hypothesis import assume, given

from lcpool import ASAPooling
from lcpool.nn.conv import FastGCNConv, FastGraphConv, convolve


def pair(seed=0, sign=1.0, **options):
    torch.manual_seed(seed)
    theirs = pyg.ASAPooling(8, **options).double()
    torch.nn.init.constant_(theirs.select.weight, sign)
    ours = ASAPooling(8, **options).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def agree(theirs, ours, x, edges, weight, batch):
    x1, edges1, weight1, batch1, perm1 = theirs(x, edges, weight, batch)
    out = ours(x, edges, weight, batch)
    torch.testing.assert_close(out.x, x1)
    assert torch.equal(out.perm, perm1)
    assert torch.equal(out.batch, batch1)
    k = perm1.numel()
    torch.testing.assert_close(dense(out.edge_index, k, out.edge_attr), dense(edges1, k, weight1))


@given(graphs())
def test_equals_pyg(example: Example):
    assume(example.num_nodes > 0)
    theirs, ours = pair(seed=example.seed)
    x, edges, batch = example.features(), example.edge_index, example.batch
    # PyG orders ties as its sort happens to.
    score = ours(x, edges, None, batch).score
    assume((score.diff().abs() > 1e-9).all())
    whole = ASAPooling(8, ratio=1.0).double()
    whole.load_state_dict(ours.state_dict())
    assume(not (whole(x, edges, None, batch).score.diff().abs() < 1e-9).any())
    with torch.no_grad():
        agree(theirs, ours, x, edges, example.weights(), batch)


@pytest.mark.parametrize(
    "options",
    [{"add_self_loops": True}, {"GNN": pyg.GCNConv}, {"ratio": 3}, {"negative_slope": 0.9}],
)
def test_options_equal_pyg(options):
    torch.manual_seed(1)
    x, edges = torch.randn(9, 8, dtype=torch.float64), torch.randint(0, 9, (2, 30))
    theirs, ours = pair(**options)
    with torch.no_grad():
        agree(theirs, ours, x, edges, torch.rand(30, dtype=torch.float64), torch.arange(9) // 5)


@given(graphs(undirected=True))
def test_undirected_graphs_stay_undirected(example: Example):
    out = ASAPooling(8).double()(example.features(), example.edge_index, None, example.batch)
    pattern = dense(out.edge_index, out.x.size(0)) > 0
    assert torch.equal(pattern, pattern.t())


def test_always_keeps_the_fittest():
    """With a negative random number in PyG's layer, PyG keeps the least fit clusters."""
    theirs, ours = (layer.float() for layer in pair(sign=-1.0))
    torch.manual_seed(1)
    x, edges = torch.randn(9, 8), torch.randint(0, 9, (2, 30))
    whole = ASAPooling(8, ratio=1.0)
    whole.load_state_dict(ours.state_dict())
    order = whole(x, edges).perm
    with torch.no_grad():
        assert torch.equal(theirs(x, edges)[4], order.flip(0)[:5])
    assert torch.equal(ours(x, edges).perm, order[:5])


def test_unweighted_graphs_get_weights_that_pass_gradients():
    """PyG drops the weights of SᵀAS for unweighted input."""
    theirs, ours = (layer.float() for layer in pair())
    torch.manual_seed(1)
    x, edges = torch.randn(9, 8), torch.randint(0, 9, (2, 30))
    with torch.no_grad():
        assert theirs(x, edges)[2] is None
    out = ours(x, edges)
    out.edge_attr.square().sum().backward()
    assert ours.assign.att_node.weight.grad.abs().sum() > 0


def test_gradients():
    torch.manual_seed(2)
    pool = ASAPooling(3).double()
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 4], [1, 0, 2, 1, 3, 2, 0]])
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(7, dtype=torch.float64, requires_grad=True)

    def call(x, weight):
        out = pool(x, edges, weight)
        return out.x, out.edge_attr

    assert torch.autograd.gradcheck(call, (x, weight))


def test_dropout_only_in_training():
    torch.manual_seed(0)
    pool = ASAPooling(8, dropout=0.9)
    x, edges = torch.randn(9, 8), torch.randint(0, 9, (2, 30))
    assert not torch.equal(pool(x, edges).x, pool(x, edges).x)
    pool.eval()
    assert torch.equal(pool(x, edges).x, pool(x, edges).x)


def test_edge_weights_by_keyword_and_as_a_column():
    _, ours = pair()
    x, edges = torch.randn(4, 8, dtype=torch.float64), torch.tensor([[0, 1, 2], [1, 2, 3]])
    weight = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    a, b = ours(x, edges, edge_weight=weight), ours(x, edges, weight.view(-1, 1))
    assert torch.equal(a.edge_attr, b.edge_attr)
    with pytest.raises(ValueError, match="'edge_attr'"):
        ours(x, edges, torch.ones(3, 2, dtype=torch.float64))


def test_unknown_arguments_are_refused():
    with pytest.raises(TypeError, match="droput"):
        ASAPooling(8, droput=0.5)
    with pytest.raises(ValueError, match="max_edges=1"):
        ASAPooling(8, ratio=1.0, max_edges=1)(
            torch.randn(4, 8), torch.tensor([[0, 1, 2], [1, 2, 3]])
        )


def test_repr_is_pygs():
    assert repr(ASAPooling(8, ratio=3)) == repr(pyg.ASAPooling(8, ratio=3))


@pytest.mark.parametrize("conv", [FastGCNConv, FastGraphConv])
@given(graphs())
def test_what_is_known_of_the_pooled_edges_is_true(conv, example: Example):
    """Also of directed graphs, and of weights that differ there and back."""
    torch.manual_seed(0)
    x = torch.randn(example.num_nodes, 4, dtype=torch.float64)
    pooled = ASAPooling(4).double()(x, example.edge_index).graph
    layer = conv(4, 4).double()
    edges, weight = pooled.edges, torch.rand(pooled.edge_index.size(1), dtype=torch.float64)
    for weights in ((), (weight,)):
        expected = layer(pooled.x, edges.index, *weights)
        torch.testing.assert_close(convolve(layer, pooled.x, edges, *weights), expected)
