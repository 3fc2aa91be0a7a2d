from fractions import Fraction

import pytest
import torch
from graphs import Example, graphs
from hypothesis import given
from hypothesis import strategies as st

from lcpool.graph.graph import Graph
from lcpool.ops.topk import KeepPlan, above, check_ratio, keep_counts, topk


def graph_of(batch, batch_size=None):
    empty = torch.empty(2, 0, dtype=torch.long)
    return Graph.of(torch.zeros(batch.numel(), 1), empty, None, batch, batch_size)


def select(rank, batch, ratio, batch_size=None):
    graph = graph_of(batch, batch_size)
    return topk(rank, graph, KeepPlan.of(ratio, graph))


@pytest.mark.parametrize(
    ("ratio", "n", "k"),
    [
        (0.3, 50, 15),
        (0.1, 30, 3),
        (0.55, 100, 55),
        (0.1 + 0.2, 10, 3),
        (0.5, 5001, 2501),
        (1.0, 7, 7),
        (1, 7, 1),
        (9, 7, 7),
        (1e-12, 7, 1),
        (0.5, 0, 0),
        (3, 0, 0),
        (1 / 3, 3, 1),
        (0.999999999, 10**9, 999999999),
    ],
)
def test_k_is_the_ceiling_of_the_decimal_that_was_written(ratio, n, k):
    assert keep_counts(ratio, torch.tensor([n])).item() == k


@given(st.integers(1, 999), st.integers(1, 10**6))
def test_k_is_exact_for_every_decimal(thousandths, n):
    ratio = float(f"0.{thousandths:03d}")
    exact = -(-Fraction(thousandths, 1000) * n // 1)
    assert keep_counts(ratio, torch.tensor([n])).item() == exact


def test_k_does_not_depend_on_dtype():
    batch = torch.zeros(5001, dtype=torch.long)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        assert select(torch.rand(5001).to(dtype), batch, 0.5)[0].numel() == 2501


@pytest.mark.parametrize("ratio", [0.0, -0.1, 1.5, float("nan"), float("inf"), 0, -3])
def test_ratio_outside_its_range(ratio):
    with pytest.raises(ValueError, match="ratio"):
        check_ratio(ratio)


@pytest.mark.parametrize("ratio", ["half", None, True])
def test_ratio_of_another_type(ratio):
    with pytest.raises(TypeError, match="ratio"):
        check_ratio(ratio)


@given(graphs(), st.sampled_from([0.25, 0.5, 0.8, 1.0, 1, 3]), st.booleans())
def test_order_is_graph_then_falling_score_then_lower_index(example: Example, ratio, shuffle):
    generator = torch.Generator().manual_seed(example.seed)
    # Few distinct values: ties everywhere.
    rank = torch.randint(0, 3, (example.num_nodes,), generator=generator).double()
    batch = example.batch
    if shuffle:
        batch = batch[torch.randperm(batch.numel(), generator=generator)]
    perm, pooled = select(rank, batch, ratio, len(example.sizes))
    expected = []
    for b in range(len(example.sizes)):
        nodes = (batch == b).nonzero().view(-1).tolist()
        k = keep_counts(ratio, torch.tensor(len(nodes))).item()
        expected += sorted(nodes, key=lambda i: (-rank[i].item(), i))[:k]
    assert perm.tolist() == expected
    assert torch.equal(pooled, batch[perm])


def test_gaps_in_batch():
    perm, pooled = select(torch.tensor([0.1, 0.4, 0.3]), torch.tensor([5, 0, 5]), 1)
    assert perm.tolist() == [1, 2]
    assert pooled.tolist() == [0, 5]


def test_minus_zero_ties_with_zero():
    perm, _ = select(torch.tensor([-0.0, 0.0, -0.0]), torch.zeros(3, dtype=torch.long), 1.0)
    assert perm.tolist() == [0, 1, 2]


def test_min_score_never_empties_a_graph():
    h = torch.tensor([0.1, 0.2, 0.9, 0.6], dtype=torch.bfloat16)
    perm, pooled = above(h, graph_of(torch.tensor([0, 0, 1, 1])), 0.5)
    assert perm.tolist() == [1, 2, 3]
    assert pooled.tolist() == [0, 1, 1]
