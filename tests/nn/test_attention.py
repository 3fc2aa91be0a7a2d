"""ClusterAttention on its own; inside of ASAP it is tested with that."""

import pytest
import torch
from torch import nn

from lcpool import ASAPooling, ClusterAttention
from lcpool.nn.conv import FastGCNConv, FastGraphConv

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 2]])


@pytest.mark.parametrize("conv", [FastGCNConv, FastGraphConv])
def test_weights_of_one_column(conv):
    attention = ClusterAttention(4, conv(4, 4))
    x, weight = torch.randn(3, 4), torch.rand(4)
    expected = attention(x, EDGES, weight).weight
    torch.testing.assert_close(attention(x, EDGES, weight.view(-1, 1)).weight, expected)


class Fewer(nn.Module):
    """A convolution that loses a node."""

    def forward(self, x, edge_index, edge_weight):
        return x[1:]


def test_a_convolution_that_loses_nodes():
    with pytest.raises(ValueError, match="'x'"):
        ClusterAttention(4, Fewer())(torch.randn(3, 4), EDGES, None)


class Own(ClusterAttention):
    """One of a user's own, who knows of edges as PyG writes them."""

    def forward(self, x, edge_index, edge_weight):
        node, cluster = edge_index
        return super().forward(x, torch.stack([node, cluster]), edge_weight)


def test_a_subclass_is_given_what_it_asks_for():
    pool = ASAPooling(4)
    x = torch.randn(3, 4)
    expected = pool(x, EDGES)
    own = Own(4)
    own.load_state_dict(pool.assign.state_dict())
    pool.assign = own
    assert torch.equal(pool(x, EDGES).x, expected.x)
