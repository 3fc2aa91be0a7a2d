"""LCPool's scores, selection and gate as one operator, against the same step by step."""

import pytest
import torch
from graphs import Example, graphs
from hypothesis import HealthCheck, given, settings

from lcpool import LCSMP
from lcpool.graph.assignment import positions
from lcpool.graph.graph import Graph
from lcpool.ops.fused_lcpool import score_and_select
from lcpool.ops.topk import KeepPlan, gate, topk

each = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
pytestmark = pytest.mark.usefixtures("backend")


def by_steps(score, x, graph, plan):
    rank = score.rank(x, graph)
    perm, batch = topk(rank, graph, plan)
    return *gate(x, score.gate(rank, graph), perm), perm, batch


def problem(example: Example, dtype=torch.float64, channels=8):
    torch.manual_seed(example.seed)
    x = torch.randn(example.num_nodes, channels, dtype=dtype, requires_grad=True)
    graph = Graph.of(x, example.edge_index, None, example.batch, len(example.sizes))
    return LCSMP(channels, 5).to(dtype), x, graph, KeepPlan.of(0.5, graph)


@each
@given(graphs())
def test_as_step_by_step(example: Example):
    """Values and all gradients; of a graph without nodes, too."""
    score, x, graph, plan = problem(example)
    X, h, kept, ok = score_and_select(x, graph, plan, score.plain_parameters())
    expected = by_steps(score, x, graph, plan)
    assert ok == 1
    assert torch.equal(kept.perm, expected[2])
    assert torch.equal(kept.batch, expected[3])
    assert torch.equal(kept.place, positions(kept.perm, graph.num_nodes))
    leaves = [x, *score.parameters()]
    ways = [torch.randn_like(X), torch.randn_like(h)]
    for outputs, grads in (((0, 1), ways), ((0,), ways[:1]), ((1,), ways[1:])):
        ours, theirs = (
            torch.autograd.grad([found[i] for i in outputs], leaves, grads, retain_graph=True)
            for found in ((X, h), expected)
        )
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close((X, h), expected[:2])


SMALL = Example((3, 0, 2), torch.tensor([[0, 1, 1, 2, 2, 4, 3], [1, 0, 2, 1, 2, 3, 4]]), 0)


def parts(score, x, graph, plan):
    def call(x, *parameters):
        return score_and_select(x, graph, plan, list(parameters))[:2]

    return call, (x, *score.plain_parameters())


def test_gradients_and_their_gradients():
    call, inputs = parts(*problem(SMALL, channels=2))
    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


@pytest.mark.filterwarnings("ignore:invalid value")  # from Triton's interpreter
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_scores_that_are_no_numbers_are_told(wrong):
    score, x, graph, plan = problem(SMALL)
    assert score_and_select(x, graph, plan, score.plain_parameters())[-1] == 1
    x = x.detach().index_fill(0, torch.tensor(4), wrong)
    assert score_and_select(x, graph, plan, score.plain_parameters())[-1] == 0


def test_the_largest_score_is_near_the_limit():
    """The softmax does not overflow."""
    score, x, graph, plan = problem(SMALL, torch.float32)
    with torch.no_grad():
        score.lin_s.bias.fill_(1e30)
    assert score_and_select(x, graph, plan, score.plain_parameters())[1].isfinite().all()


def test_wider_than_a_block_of_channels():
    score, x, graph, plan = problem(SMALL, torch.float32, channels=150)
    found, expected = (
        score_and_select(x, graph, plan, score.plain_parameters()),
        by_steps(score, x, graph, plan),
    )
    torch.testing.assert_close(found[:2], expected[:2], rtol=1e-4, atol=1e-5)
    assert torch.equal(found[2].perm, expected[2])


def test_gradients_that_are_not_contiguous():
    """As those of a sum: one number, expanded."""
    score, x, graph, plan = problem(SMALL)
    X, h, *_ = score_and_select(x, graph, plan, score.plain_parameters())
    expected = by_steps(score, x, graph, plan)
    for ours, theirs in zip((X, h), expected[:2], strict=True):
        found = [torch.autograd.grad(out.sum(), x, retain_graph=True) for out in (ours, theirs)]
        torch.testing.assert_close(*found)
    weights = torch.arange(float(h.numel()), dtype=x.dtype)
    (found,), (wanted,) = (
        torch.autograd.grad((out * weights).sum(), x) for out in (h, expected[1])
    )
    torch.testing.assert_close(found, wanted)


def test_what_comes_out_may_be_changed_in_place():
    score, x, graph, plan = problem(SMALL)
    X, h, *_ = score_and_select(x, graph, plan, score.plain_parameters())
    expected = by_steps(score, x, graph, plan)
    found = [
        torch.autograd.grad([out[0].sum(), out[1].sum()], x)
        for out in ((X.relu_(), h.mul_(2)), (expected[0].relu(), expected[1] * 2))
    ]
    torch.testing.assert_close(*found)
