"""How a kernel becomes an operator that ``torch.compile`` and ``torch.export`` can see.

Torch cannot look into a kernel. As an operator, ``lcpool::name``, it need not: it is told the shape
of the result and where the gradient comes from. Only what traces needs to know: in eager mode a
call goes to the kernel itself. The way through torch's dispatcher and back takes about 10 µs, and
``torch.library.custom_op`` twice as much (``benchmarks/dispatch.py``), which a GPU would wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

disable: Any = torch.compiler.disable
LIBRARY: Any = torch.library.Library("lcpool", "DEF")  # type: ignore[no-untyped-call]


def operator(schema: str, cls: Any) -> Callable[..., Any]:
    """The operator of this schema, to be called like a function.

    Args:
        schema: name, arguments and results, as torch writes them.
        cls: has ``forward(*args)``, the kernel, and ``fake(*args)``, which makes empty results of
            the same shapes; where there is a gradient, also ``setup_context(ctx, inputs, output)``
            and ``backward(ctx, *grads)``, as in ``torch.autograd.Function``. ``results`` says how
            many results, the first ones, are for callers, where the others are for the gradient.
    """
    name = LIBRARY.define(schema)
    known, direct = getattr(torch.ops.lcpool, name).default, cls.forward
    # Where a graph breaks at an operator, torch.compile would follow the call into the kernel and
    # compile what it finds there, operators in place of kernels.
    LIBRARY.impl(name, disable(cls.forward), "CompositeExplicitAutograd")
    torch.library.register_fake(f"lcpool::{name}", cls.fake, lib=LIBRARY)
    if hasattr(cls, "backward"):
        direct = _with_gradient(cls, cls.forward, getattr(cls, "results", None))
        traced = _with_gradient(cls, _below_autograd(known))
        LIBRARY.impl(name, disable(lambda *args: traced(*args)), "Autograd")

    def call(*args: Any) -> Any:
        return known(*args) if is_traced() else direct(*args)

    return call


def is_traced() -> bool:
    """Whether somebody records what is called, to run it again."""
    return torch.compiler.is_compiling() or bool(torch._C._len_torch_dispatch_stack())


def _with_gradient(
    cls: Any, compute: Callable[..., Any], results: int | None = None
) -> Callable[..., Any]:
    """``compute`` with the gradient that ``cls`` describes; all its results, or the first ones."""

    # In one step with setup_context: apart, torch inspects the signature in every call (30 µs).
    def forward(ctx: Any, *args: Any) -> Any:
        output = compute(*args)
        cls.setup_context(ctx, args, output)
        return output if results is None else output[:results]  # each costs autograd some µs

    steps = {"forward": staticmethod(forward), "backward": staticmethod(cls.backward)}
    apply: Callable[..., Any] = type(cls.__name__, (torch.autograd.Function,), steps).apply  # type: ignore[attr-defined]
    return apply


def _below_autograd(known: Any) -> Callable[..., Any]:
    """What comes after autograd on the dispatcher's way."""

    def compute(*args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return known(*args)

    return compute
