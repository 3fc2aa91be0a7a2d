"""Kernels for several runs against torch's own layers run by run: on a GPU, else interpreted."""

import pytest
import torch
import torch.nn.functional as F
from beside_torch import leaves, same

from lcpool.train.stack.rows import RunRows

pytest.importorskip("triton", reason="Triton is not installed")

from lcpool.train.stack import gpu
from lcpool.train.stack.gpu import RunBatchNorm, RunBias, RunLinear

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ROWS = RunRows([70, 3, 300], DEVICE)
# On a GPU they are used for numbers of 32 bits; interpreted, their formulas are seen in 64.
KINDS = [(torch.float32, 1e-4)] if DEVICE.type == "cuda" else [(torch.float64, 1e-9)]


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
def test_normalisation_of_runs_equals_batch_norm_of_each(dtype, tolerance, relu):
    shape = (3, 20)
    ours, plain = leaves(dtype, (373, 20), shape, shape, device=DEVICE)
    zeros = torch.zeros(shape, dtype=dtype, device=DEVICE)
    running = [[zeros.clone(), zeros + 1] for _ in range(2)]
    ours_x, *own = ours
    out = RunBatchNorm.apply(ours_x, *running[0], *own, 0.1, 1e-5, relu, ROWS)
    x, w, b = plain
    parts = zip(x.split(ROWS.counts), *running[1], w, b, strict=True)
    expected = torch.cat([F.batch_norm(*values, True, 0.1, 1e-5) for values in parts])
    expected = expected.relu() if relu else expected
    torch.testing.assert_close(running[0], running[1], rtol=tolerance, atol=tolerance)
    same(out, expected, ours, plain, tolerance)


# The kernel divides by the number of rows; Triton's interpreter warns of 0 / 0, a GPU gives NaN.
NO_ROWS = pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning")


@NO_ROWS
@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
def test_runs_without_variance_are_normalised_by_their_running_statistics(dtype, tolerance):
    rows = RunRows([0, 40, 1], DEVICE)
    ours, plain = leaves(dtype, (41, 20), (3, 20), (3, 20), device=DEVICE)
    torch.manual_seed(1)
    mean, var = torch.rand(2, 3, 20, dtype=dtype, device=DEVICE) + 1
    running = [mean.clone(), var.clone()]
    ours_x, *own = ours
    out = RunBatchNorm.apply(ours_x, *running, *own, 0.1, 1e-5, False, rows)
    x, w, b = plain
    parts = zip(x.split(rows.counts), mean, var, w, b, rows.counts, strict=True)
    expected = torch.cat([F.batch_norm(*part, n > 1, 0.1, 1e-5) for *part, n in parts])
    torch.testing.assert_close(running, [mean, var], rtol=tolerance, atol=tolerance)
    same(out, expected, ours, plain, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
@pytest.mark.parametrize("channels", [20, 150])
def test_biases_of_runs_equal_the_bias_of_each(dtype, tolerance, channels):
    ours, plain = leaves(dtype, (373, channels), (3, channels), device=DEVICE)
    out = RunBias.apply(*ours, ROWS)
    x, b = plain
    parts = zip(x.split(ROWS.counts), b, strict=True)
    same(out, torch.cat([part + bias for part, bias in parts]), ours, plain, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), KINDS)
@pytest.mark.parametrize(("inputs", "outputs"), [(40, 70), (3, 1)])
@pytest.mark.parametrize(("biased", "part"), [(True, gpu.PART), (True, 128), (False, 64)])
def test_products_of_runs_equal_the_linear_layer_of_each(
    dtype, tolerance, inputs, outputs, biased, part, monkeypatch
):
    monkeypatch.setattr(gpu, "PART", part)  # gradients of weights in one sum, and in several
    shapes = [(373, inputs), (3, outputs, inputs), (3, outputs)]
    ours, plain = leaves(dtype, *(shapes if biased else shapes[:2]), device=DEVICE)
    out = RunLinear.apply(*ours, *([] if biased else [None]), ROWS)
    x, w, *b = plain
    biases = b[0] if biased else [None] * 3
    parts = zip(x.split(ROWS.counts), w, biases, strict=True)
    expected = torch.cat([F.linear(*values) for values in parts])
    same(out, expected, ours, plain, tolerance)


@NO_ROWS
def test_batches_without_rows():
    rows, dtype = RunRows([0, 0, 0], DEVICE), KINDS[0][0]
    (x, w, b, weight), _ = leaves(dtype, (0, 20), (3, 20), (3, 20), (3, 7, 20), device=DEVICE)
    running = torch.zeros_like(w), torch.ones_like(w)
    for out, width in (
        (RunBatchNorm.apply(x, *running, w, b, 0.1, 1e-5, True, rows), 20),
        (RunBias.apply(x, b, rows), 20),
        (RunLinear.apply(x, weight, None, rows), 7),
    ):
        assert out.shape == (0, width)
        out.sum().backward()
    assert not any(leaf.grad.any() for leaf in (w, b, weight))
    assert not running[0].any()
    assert (running[1] == 1).all()
