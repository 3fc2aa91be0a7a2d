"""The outputs and gradients of a kernel beside those of torch's layers."""

import torch


def leaves(dtype, *shapes, device="cpu"):
    torch.manual_seed(0)
    values = [torch.randn(shape, dtype=dtype, device=device) + 0.5 for shape in shapes]
    return [[v.clone().requires_grad_() for v in values] for _ in range(2)]


def same(out, expected, ours, plain, tolerance):
    grad = torch.randn_like(expected)
    out.backward(grad)
    expected.backward(grad)
    close = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(out, expected, **close)
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a.grad, b.grad, **close)
