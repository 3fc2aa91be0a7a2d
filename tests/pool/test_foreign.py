"""``ForeignPooling``: what it takes from the output of a layer that is not ours."""

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

from lcpool.pool import ForeignPooling

X = torch.tensor([[1.0], [3.0], [2.0], [5.0], [4.0]])
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
BATCH = torch.tensor([0, 0, 0, 1, 1])


class Layer(nn.Module):
    """Keeps nodes 1 and 3, and returns something after them."""

    def __init__(self, *after) -> None:
        super().__init__()
        self.after = after

    def forward(self, x, edge_index, edge_attr, batch):
        return x[[1, 3]], edge_index[:, :0], None, torch.tensor([0, 1]), *self.after


@pytest.mark.parametrize("make", [pyg.TopKPooling, pyg.SAGPooling, pyg.ASAPooling])
def test_kept_nodes_and_scores_of_pygs_layers(make):
    torch.manual_seed(0)
    layer = make(1).eval()
    torch.manual_seed(1)
    theirs = layer(X, EDGES, None, BATCH)
    torch.manual_seed(1)
    ours = ForeignPooling(layer)(X, EDGES, batch=BATCH)
    assert ours.perm.tolist() == theirs[4].tolist()
    if len(theirs) > 5:
        torch.testing.assert_close(ours.score, theirs[5])


@pytest.mark.parametrize(
    "after",
    [
        (),
        ("words", None),
        (torch.tensor([1, 3, 4]),),  # too many
        (torch.tensor([1, 5]),),  # no such node
        (torch.tensor([3, 1]),),  # of other graphs
        (torch.tensor([1.0, 3.0]),),
    ],
)
def test_what_cannot_be_kept_nodes_is_left_alone(after):
    out = ForeignPooling(Layer(*after))(X, EDGES, batch=BATCH)
    assert out.perm is None
    assert out.score is None


def test_a_score_of_another_shape_is_left_alone():
    out = ForeignPooling(Layer(torch.tensor([1, 3]), torch.ones(7)))(X, EDGES, batch=BATCH)
    assert out.perm.tolist() == [1, 3]
    assert out.score is None
