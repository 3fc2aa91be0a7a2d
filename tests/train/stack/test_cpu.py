"""Kernels for several runs on a CPU against torch's own layers run by run."""

import pytest
import torch
import torch.nn.functional as F
from beside_torch import leaves, same

from lcpool.train.stack.rows import RunRows

pytest.importorskip("numba", reason="numba is not installed")

from lcpool.train.stack.cpu import RunBatchNorm, RunBias

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
