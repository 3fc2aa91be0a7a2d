"""Batch normalisation of batches of any size."""

import pytest
import torch
from torch import nn

from lcpool.nn.norm import BatchNorm


def norms():
    torch.manual_seed(0)
    ours, plain = BatchNorm(3), nn.BatchNorm1d(3)
    nn.init.uniform_(ours.weight), nn.init.uniform_(ours.bias)
    ours(5 + torch.randn(9, 3))
    plain.load_state_dict(ours.state_dict())
    return ours, plain


@pytest.mark.parametrize("rows", [0, 1])
def test_without_variance_the_running_statistics_normalise_and_stay(rows):
    ours, plain = norms()
    x = torch.randn(rows, 3, requires_grad=True)
    out = ours(x)
    torch.testing.assert_close(out, plain.eval()(x))
    out.sum().backward()
    assert x.grad.shape == x.shape
    for name, value in plain.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name


def test_otherwise_it_is_torchs():
    for training in (True, False):
        ours, plain = (norm.train(training) for norm in norms())
        x = torch.randn(2, 3)
        assert torch.equal(ours(x), plain(x))
        assert torch.equal(ours.running_var, plain.running_var)
