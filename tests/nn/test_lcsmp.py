import copy

import pytest
import torch
from graphs import Example, graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn.functional import relu

from lcpool import LCSMP
from lcpool.graph.graph import Graph


def literal(score: LCSMP, x, edge_index):
    """L_s(relu(L_fd(Σ relu(L_d(x_i − x_k)))) + relu(L_x(x_i))), an edge at a time."""
    out = []
    for i in range(x.size(0)):
        total = x.new_zeros(score.hidden_channels)
        for k, target in edge_index.t().tolist():
            if target == i:
                total = total + relu(score.bias_d(score.lin_d(x[i] - x[k])))
        out.append(score.lin_s(relu(score.lin_fd(total)) + relu(score.lin_x(x[i]))))
    return torch.stack(out).view(-1) if out else x.new_zeros(0)


@given(graphs())
def test_equals_a_literal_loop_over_edges(example: Example):
    torch.manual_seed(example.seed)
    score = LCSMP(8, 5).double()
    x = example.features()
    values = literal(score, x, example.edge_index)
    torch.testing.assert_close(score.rank(x, Graph.of(x, example.edge_index)), values)
    h = score(x, example.edge_index, example.batch, len(example.sizes))
    start = 0
    for size in example.sizes:
        part = slice(start, start + size)
        torch.testing.assert_close(h[part], values[part].softmax(0))
        start += size


def test_gradients():
    torch.manual_seed(0)
    score = LCSMP(3, 4).double()
    edge_index = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 1, 0, 3]])
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: score.rank(x, Graph.of(x, edge_index)), (x,))


def test_distinguishes_clusters_whose_differences_cancel():
    """Two clusters that the Laplacian score cannot tell apart; LCSMP can."""
    # Node 0 has one neighbour in the first cluster, and in the second two more, at ± d from it.
    edge_index = torch.tensor([[1, 3, 4, 5], [0, 2, 2, 2]])
    x0, x1, d = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0]), torch.tensor([3.0, -1.0])
    x = torch.stack([x0, x1, x0, x1, x0 + d, x0 - d])
    laplacian = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[1]] - x[edge_index[0]])
    assert torch.equal(laplacian[0], laplacian[2])
    torch.manual_seed(0)
    rank = LCSMP(2, 8).rank(x, Graph.of(x, edge_index))
    assert (rank[0] - rank[2]).abs() > 1e-3


def test_nothing_of_the_width_of_edges_goes_through_a_linear_layer():
    """L_d is applied to nodes, not to edges."""
    rows = []
    score = LCSMP(4)
    for lin in (score.lin_d, score.lin_fd, score.lin_x, score.lin_s):
        lin.register_forward_hook(lambda _, inputs, out: rows.append(inputs[0].size(0)))
    x = torch.randn(3, 4)
    score.rank(x, Graph.of(x, torch.randint(0, 3, (2, 50))))
    assert rows == [3, 3, 3, 3]


def watched(score: LCSMP) -> LCSMP:
    """The same layer with somebody looking at a part of it, so that its parts are called."""
    score = copy.deepcopy(score)
    score.lin_x.register_forward_hook(lambda *_: None)
    return score


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(example=graphs(), width=st.sampled_from([1, 5, 130]))
def test_the_operator_equals_the_composition_of_layers(example: Example, width, backend):
    torch.manual_seed(example.seed)
    one = LCSMP(8, width).double()
    grads = []
    for score in (one, watched(one)):
        x = example.features().requires_grad_()
        s = score.rank(x, Graph.of(x, example.edge_index))
        found = torch.autograd.grad(s, [x, *score.parameters()], torch.arange(s.numel()) - 1.0)
        grads.append((s, *found))
    torch.testing.assert_close(*grads)


def test_the_gradients_gradient():
    torch.manual_seed(0)
    one = LCSMP(3, 4).double()
    edge_index = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 1, 0, 3]])
    found = []
    for score in (one, watched(one)):
        x = torch.randn(4, 3, dtype=torch.float64, generator=torch.manual_seed(1)).requires_grad_()
        rank = score.rank(x, Graph.of(x, edge_index))
        (grad,) = torch.autograd.grad(rank.pow(2).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(grad.pow(2).sum(), [x, *score.parameters()]))
    torch.testing.assert_close(*found)


def test_rescaled_gate_keeps_the_size_of_features():
    score = LCSMP(4, rescale=True)
    batch = torch.tensor([0, 0, 0, 1])
    h = score(torch.randn(4, 4), torch.tensor([[0, 1], [1, 2]]), batch)
    torch.testing.assert_close(h[:3].sum(), torch.tensor(3.0))
    torch.testing.assert_close(h[3], torch.tensor(1.0))
    alone = score(torch.randn(4, 4), torch.tensor([[0, 1], [1, 2]]))
    torch.testing.assert_close(alone.sum(), torch.tensor(4.0))


def test_low_precision_sums_do_not_stall():
    """1000 neighbours of equal difference: bfloat16 alone would stop adding at 256."""
    hub = torch.zeros(1000, dtype=torch.long)
    edge_index = torch.stack([torch.arange(1, 1001), hub])
    score = LCSMP(1).bfloat16()
    torch.nn.init.ones_(score.lin_d.weight)
    torch.nn.init.zeros_(score.bias_d.bias)
    x = torch.zeros(1001, 1, dtype=torch.bfloat16)
    x[0] = 1
    seen = []
    score.lin_fd.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    score.rank(x, Graph.of(x, edge_index))
    assert seen[0][0].item() == 1000
    flat = LCSMP(1).bfloat16()(torch.zeros_like(x), edge_index[:, :0])
    torch.testing.assert_close(flat.double().sum(), torch.tensor(1.0).double(), rtol=0.01, atol=0)


def test_wrong_width_is_named():
    with pytest.raises(ValueError, match=r"LCSMP\(8\)"):
        LCSMP(8)(torch.randn(3, 5), torch.tensor([[0], [1]]))


def test_repr():
    assert repr(LCSMP(8)) == "LCSMP(8)"
    assert repr(LCSMP(8, 16)) == "LCSMP(8, 16)"
    assert repr(LCSMP(8, rescale=True)) == "LCSMP(8, rescale=True)"
