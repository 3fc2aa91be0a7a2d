"""Triton's interpreter runs the kernels on a CPU; it is chosen before Triton is imported."""

import subprocess
import sys

import pytest

CODE = """
import torch, torch.nn.functional as F
from lcpool.train.rows import Rows
from lcpool.train.triton_norm import TritonBatchNorm

torch.manual_seed(0)
for dtype, channels, tolerance in ((torch.float64, 20, 1e-9), (torch.float32, 33, 1e-4)):
    rows = Rows([70, 3, 130], torch.device("cpu"))
    shape = (3, channels)
    leaves = [3 * torch.randn(203, channels) + 5, torch.rand(shape) + 0.5, torch.randn(shape)]
    grad = torch.randn(203, channels, dtype=dtype)
    ours, plain = ([t.to(dtype).requires_grad_() for t in leaves] for _ in range(2))
    running = [[torch.zeros(shape, dtype=dtype), torch.ones(shape, dtype=dtype)] for _ in range(2)]
    out = TritonBatchNorm.apply(*ours, tuple(running[0]), rows, 1e-5, 0.1)
    out.backward(grad)
    x, w, b = plain
    parts = zip(x.split(rows.counts), *running[1], w, b)
    expected = torch.cat([F.batch_norm(*values, True, 0.1, 1e-5) for values in parts])
    expected.backward(grad)
    close = dict(rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(out, expected, **close)
    torch.testing.assert_close(running[0], running[1], **close)
    for a, c in zip(ours, plain):
        torch.testing.assert_close(a.grad, c.grad, **close)
print("same")
"""


def test_normalisation_of_runs_equals_batch_norm_of_each(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.stdout.strip() == "same", done.stderr
