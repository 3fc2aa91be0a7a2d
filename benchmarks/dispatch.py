"""What a kernel costs before it computes anything: four ways to make it known to torch.

    python benchmarks/dispatch.py

On a GPU a layer waits for Python, so these microseconds are the layer's. All but the first are
operators with shapes and a gradient to ``torch.compile`` and ``torch.export``.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lcpool.ops.operator import operator


def kernel(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class Kernel:
    """The kernel as :func:`lcpool.ops.operator.operator` takes it."""

    forward = fake = staticmethod(kernel)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """Keep something."""
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """The kernel again."""
        return kernel(grad)


class Function(torch.autograd.Function):
    """The kernel as autograd alone takes it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Keep something, and compute nothing."""
        ctx.save_for_backward(x)
        return kernel(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """The kernel again."""
        return kernel(grad)


def custom_op() -> Callable[[Tensor], Tensor]:
    made = torch.library.custom_op("benchmark::custom", kernel, mutates_args=())
    made.register_fake(kernel)
    made.register_autograd(Kernel.backward, setup_context=Kernel.setup_context)
    return made


WAYS = {
    "autograd.Function, no operator": Function.apply,
    "lcpool.ops.operator": operator("benchmark(Tensor x) -> Tensor", Kernel),
    "the same, through the dispatcher": torch.ops.lcpool.benchmark.default,
    "torch.library.custom_op": custom_op(),
}


def microseconds(call: Callable[[], Any], number: int = 2000) -> float:
    """The best of several means: what the machine does besides only adds."""
    timeit.timeit(call, number=number)
    return min(timeit.repeat(call, number=number, repeat=7)) / number * 1e6


def main() -> None:
    torch.set_num_threads(1)
    x = torch.randn(4, 4, requires_grad=True)
    print(f"torch {torch.__version__}, µs a call of an empty kernel")
    print(f"{'':38}{'forward':>10}{'and backward':>14}")
    for name, call in WAYS.items():
        forward = microseconds(lambda call=call: call(x))
        both = microseconds(lambda call=call: torch.autograd.grad(call(x), x, x))
        print(f"{name:38}{forward:10.1f}{both:14.1f}")


if __name__ == "__main__":
    main()
