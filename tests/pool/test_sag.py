import pytest
import torch
import torch_geometric.nn as pyg
from graphs import Example, graphs
from hypothesis import assume, given

from lcpool import SAGPooling


def pair(seed=0, sign=None, **options):
    torch.manual_seed(seed)
    theirs = pyg.SAGPooling(8, **options).double()
    if sign is not None:
        torch.nn.init.constant_(theirs.select.weight, sign)
    ours = SAGPooling(8, **options).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def agree(theirs, ours, *arguments):
    for a, b in zip(theirs(*arguments), ours(*arguments), strict=True):
        torch.testing.assert_close(a, b)


@given(graphs())
def test_equals_pyg(example: Example):
    theirs, ours = pair(seed=example.seed)
    x, edges, batch = example.features(), example.edge_index, example.batch
    # PyG orders ties as its sort happens to.
    score = ours.score(x, edges, batch, len(example.sizes))
    assume(score.unique().numel() == score.numel())
    agree(theirs, ours, x, edges, example.weights(), batch)


@pytest.mark.parametrize("sign", [0.7, -0.7])
@pytest.mark.parametrize("gnn", [pyg.GraphConv, pyg.GCNConv, pyg.SAGEConv, pyg.GATConv])
def test_the_convolution_absorbs_pygs_random_sign(gnn, sign):
    theirs, ours = pair(GNN=gnn, sign=sign)
    torch.manual_seed(3)
    for parameter in theirs.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter)
    ours.load_state_dict(theirs.state_dict())
    x, edges = torch.randn(6, 8, dtype=torch.float64), torch.randint(0, 6, (2, 14))
    agree(theirs, ours, x, edges, torch.randn(14, 4, dtype=torch.float64))


def test_a_sign_that_cannot_be_absorbed_is_refused():
    theirs = pyg.SAGPooling(8, GNN=pyg.SAGEConv, project=True)
    torch.nn.init.constant_(theirs.select.weight, -1.0)
    ours = SAGPooling(8, GNN=pyg.SAGEConv, project=True)
    with pytest.raises(ValueError, match=r"-1.*SAGEConv"):
        ours.load_state_dict(theirs.state_dict())


def test_options_equal_pyg():
    torch.manual_seed(1)
    x, edges = torch.randn(9, 8, dtype=torch.float64), torch.randint(0, 9, (2, 30))
    for options in ({"min_score": 0.1, "sign": -0.4}, {"multiplier": 2.0}, {"ratio": 4}):
        agree(*pair(**options), x, edges)
    agree(*pair(aggr="mean"), x, edges)


def test_repr_is_pygs():
    assert repr(SAGPooling(8)) == repr(pyg.SAGPooling(8))
    assert repr(SAGPooling(8, GNN=pyg.GCNConv, min_score=0.1)) == (
        "SAGPooling(GCNConv, 8, min_score=0.1, multiplier=1.0)"
    )
