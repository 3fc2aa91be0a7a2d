import pytest
import torch

from lcpool import ConvScore, LocalAssignmentPooling, ProjectionScore
from lcpool.graph.graph import Graph

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


@pytest.mark.parametrize("nonlinearity", ["tanh", "sigmoid", torch.tanh, torch.sigmoid])
def test_saturation_does_not_lose_the_order(nonlinearity):
    """tanh(30) and tanh(40) are both 1 in float32; the scores behind them still differ."""
    score = ConvScore(lambda x, edge_index: x, nonlinearity)
    pool = LocalAssignmentPooling(None, score, ratio=1.0)
    out = pool(torch.tensor([[30.0], [40.0], [35.0]]), EDGES)
    assert out.perm.tolist() == [1, 2, 0]
    assert out.score.tolist() == [1.0, 1.0, 1.0]


def test_a_nonlinearity_that_turns_the_order_is_ranked_after():
    pool = LocalAssignmentPooling(None, ConvScore(lambda x, _: x, torch.neg), ratio=1.0)
    out = pool(torch.tensor([[3.0], [1.0], [2.0]]), EDGES)
    assert out.perm.tolist() == [1, 2, 0]
    assert out.score.tolist() == [-1.0, -2.0, -3.0]


def test_a_plain_callable_scores():
    pool = LocalAssignmentPooling(None, lambda x, edge_index: x[:, 0], ratio=1)
    out = pool(torch.tensor([[1.0, 5.0], [2.0, 5.0], [0.0, 5.0]]), EDGES)
    assert out.x.tolist() == [[4.0, 10.0]]


def test_one_score_a_node_is_required():
    pool = LocalAssignmentPooling(None, lambda x, edge_index: x, ratio=1)
    with pytest.raises(ValueError, match=r"\[3, 2\]"):
        pool(torch.randn(3, 2), EDGES)


def test_softmax_over_each_graph():
    score = ProjectionScore(2, "softmax")
    x, batch = torch.randn(3, 2), torch.tensor([0, 1, 0])
    h = score(x, EDGES, batch)
    values = (x @ score.project.weight.view(-1)).detach()
    torch.testing.assert_close(h[[0, 2]], values[[0, 2]].softmax(0))
    graph = Graph.of(x, EDGES)
    torch.testing.assert_close(score.gate(values, graph), values.softmax(0))


def test_repr():
    assert repr(ProjectionScore(4)) == "ProjectionScore(4)"
    assert repr(ConvScore(torch.nn.Linear(2, 1))) == (
        "ConvScore(Linear(in_features=2, out_features=1, bias=True))"
    )
