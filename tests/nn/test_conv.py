import pytest
import torch
import torch_geometric.nn as pyg

from lcpool import SAGPooling
from lcpool.nn.conv import FastGCNConv, FastGraphConv, FastLEConv

PAIRS = [(FastGCNConv, pyg.GCNConv), (FastGraphConv, pyg.GraphConv), (FastLEConv, pyg.LEConv)]
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 2]])


def pair(ours, theirs, **options):
    torch.manual_seed(0)
    conv, peer = ours(4, 3, **options), theirs(4, 3, **options)
    peer.load_state_dict(conv.state_dict())
    return conv, peer


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_several_signals_on_one_graph_as_in_pyg(ours, theirs):
    conv, peer = pair(ours, theirs)
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(conv(x, EDGES), peer(x, EDGES))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_weights_of_one_column_and_of_another_type(ours, theirs):
    conv, peer = pair(ours, theirs)
    x, weight = torch.randn(3, 4), torch.rand(4)
    torch.testing.assert_close(conv(x, EDGES, weight.view(-1, 1).double()), peer(x, EDGES, weight))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("weights", [1, 3, 5])
def test_weights_that_are_not_one_an_edge(ours, theirs, weights):
    """A kernel would read what lies behind them."""
    with pytest.raises(ValueError, match=r"\b4\b"):
        ours(4, 3)(torch.randn(3, 4), EDGES, torch.rand(weights))


def test_the_local_extremum_is_not_lost_in_16_bits():
    """Equal sums that are large are subtracted."""
    leaves = torch.arange(1, 2001)
    star = torch.stack([leaves, torch.zeros_like(leaves)])
    conv = FastLEConv(4, 3)
    conv.lin2.weight.data = conv.lin1.weight.data
    conv.lin1.bias.data.zero_()
    x = torch.full((2001, 4), 60.0, dtype=torch.float16)
    out = conv.half()(x, star)
    torch.testing.assert_close(out[0], conv.lin3(x)[0], atol=2.0, rtol=0.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        (*PAIRS[0], {"improved": True}),
        (*PAIRS[0], {"normalize": False}),
        (*PAIRS[0], {"flow": "target_to_source"}),
        (*PAIRS[0], {"aggr": "mean"}),
        (*PAIRS[1], {"aggr": "max"}),
        (*PAIRS[2], {"aggr": "mean"}),
    ],
)
def test_unusual_options_are_pygs(ours, theirs, options):
    conv, peer = pair(ours, theirs, **options)
    x = torch.randn(3, 4)
    torch.testing.assert_close(conv(x, EDGES), peer(x, EDGES))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_node_that_is_not_there_is_named(ours, theirs):
    with pytest.raises(ValueError, match="'edge_index'"):
        ours(4, 3)(torch.randn(3, 4), torch.tensor([[0], [9]]))


def test_hooks_on_a_convolution_inside_of_a_pooling_fire():
    pool, seen = SAGPooling(4), []
    pool.score.conv.register_forward_hook(lambda *_: seen.append("forward"))
    pool.score.conv.register_message_forward_hook(lambda *_: seen.append("message"))
    pool(torch.randn(3, 4), EDGES)
    assert sorted(seen) == ["forward", "message"]
