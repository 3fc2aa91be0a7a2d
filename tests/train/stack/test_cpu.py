"""Kernels for several runs on a CPU against torch's own layers run by run."""

import pytest
import torch
import torch.nn.functional as F
from beside_torch import leaves, same

from lcpool.train.stack.rows import RunRows

pytest.importorskip("numba", reason="numba is not installed")

from lcpool.graph.edges import Edges
from lcpool.nn import LCSMP
from lcpool.ops.fused_lcpool import LCSMPParameters, scores_in_torch
from lcpool.train.stack.cpu import RunBatchNorm, RunBias, RunLCSMP

TOLERANCES = [(torch.float32, 1e-4), (torch.float64, 1e-10)]


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("counts", [[70, 3, 300], [0, 40, 1], [1, 1, 1], [0, 0, 0]])
@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
def test_normalisation_of_runs_equals_batch_norm_of_each(dtype, tolerance, counts, relu):
    """Runs with fewer than two rows have running statistics, which stay as they are."""
    rows = RunRows(counts, torch.device("cpu"))
    ours, plain = leaves(dtype, (rows.total, 20), (3, 20), (3, 20))
    mean, var = torch.rand(2, 3, 20, dtype=dtype) + 1
    running = [mean.clone(), var.clone()]
    ours_x, *own = ours
    out = RunBatchNorm.apply(ours_x, *running, *own, 0.1, 1e-5, relu, rows)
    x, w, b = plain
    parts = zip(x.split(counts), mean, var, w, b, counts, strict=True)
    expected = torch.cat([F.batch_norm(*part, n > 1, 0.1, 1e-5) for *part, n in parts])
    expected = expected.relu() if relu else expected
    torch.testing.assert_close(running, [mean, var], rtol=tolerance, atol=tolerance)
    same(out, expected, ours, plain, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
def test_biases_of_runs_equal_the_bias_of_each(dtype, tolerance):
    rows = RunRows([70, 0, 300], torch.device("cpu"))
    ours, plain = leaves(dtype, (370, 20), (3, 20))
    x, b = plain
    expected = torch.cat(
        [part + of_run for part, of_run in zip(x.split(rows.counts), b, strict=True)]
    )
    same(RunBias.apply(*ours, rows), expected, ours, plain, tolerance)


def some_edges(nodes, count):
    """Directed edges, some of them loops or twice."""
    return torch.randint(nodes, (2, count)) if nodes else torch.empty(2, 0, dtype=torch.long)


@pytest.mark.parametrize("counts", [[70, 3, 300], [0, 40, 1], [0, 0, 0]])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.float64, 1e-9)])
def test_scores_of_runs_equal_lcsmp_of_each(dtype, tolerance, counts):
    """Scores and all gradients, with the parameters of each run."""
    layers = [LCSMP(20, 32).to(dtype) for _ in counts]
    parameters = [
        torch.stack(each) for each in zip(*(n.plain_parameters() for n in layers), strict=True)
    ]
    parts = [some_edges(count, 4 * count) for count in counts]
    rows = RunRows(counts, torch.device("cpu"))
    first = torch.tensor([0, *counts]).cumsum(0)
    union = torch.cat([part + at for part, at in zip(parts, first[:-1], strict=True)], 1)
    ours, plain = leaves(dtype, (rows.total, 20), *(p.shape for p in parameters))
    for pair in zip(ours[1:], plain[1:], parameters, strict=True):
        for own in pair[:2]:
            own.data.copy_(pair[2])
    got = RunLCSMP.apply(ours[0], rows, *Edges(union, rows.total).rows(), *ours[1:])
    x, *own = plain
    expected = [
        scores_in_torch(part, Edges(edges, len(part)), LCSMPParameters(*(p[r] for p in own)))
        for r, (part, edges) in enumerate(zip(x.split(counts), parts, strict=True))
    ]
    same(got, torch.cat(expected), ours, plain, tolerance)


def test_scores_of_a_run_have_the_same_bits_alone():
    counts = [30, 70]
    rows, own = RunRows(counts, torch.device("cpu")), [LCSMP(32).plain_parameters() for _ in counts]
    stacked = [torch.stack(each) for each in zip(*own, strict=True)]
    x, edges = torch.randn(100, 32), some_edges(70, 300)
    union = Edges(edges + 30, 100)
    alone = [p[1:] for p in stacked]
    with torch.no_grad():
        whole = RunLCSMP.apply(x, rows, *union.rows(), *stacked)
        last = RunRows([70], x.device)
        assert torch.equal(
            RunLCSMP.apply(x[30:], last, *Edges(edges, 70).rows(), *alone), whole[30:]
        )


def test_a_feature_that_all_nodes_share_still_moves_its_bias():
    """It is normalised to 0, where torch's ReLU has no gradient."""
    x = torch.full((9, 4), 3.7)
    bias = torch.zeros(1, 4, requires_grad=True)
    own = (torch.zeros(1, 4), torch.ones(1, 4), torch.ones(1, 4), bias)
    out = RunBatchNorm.apply(x, *own, 0.1, 1e-5, True, RunRows([9], x.device))
    assert not out.any()
    out.sum().backward()
    assert (bias.grad == 9).all()


def test_a_run_has_the_same_bits_alone():
    x, rows = torch.randn(100, 24), RunRows([30, 70], torch.device("cpu"))

    def normal(x, rows, first):
        runs = slice(first, first + len(rows.counts))
        own = (torch.zeros(2, 24), torch.ones(2, 24), torch.ones(2, 24), torch.zeros(2, 24))
        return RunBatchNorm.apply(x, *(v[runs] for v in own), 0.1, 1e-5, True, rows)

    alone = normal(x[30:], RunRows([70], x.device), 1)
    assert torch.equal(normal(x, rows, 0)[30:], alone)
