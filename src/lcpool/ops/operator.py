"""Kernels as torch operators, so that ``torch.compile`` and ``torch.export`` can work with them.

Torch cannot trace a kernel. As an operator, ``lcpool::name``, it need not: it is told the shapes of
the results and how to find the gradient. Eager calls go to the kernel directly, because a call
through torch's dispatcher takes about 10 µs longer, and one of ``torch.library.custom_op`` 20 µs
(``benchmarks/dispatch.py``), during which a GPU is idle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import torch

from lcpool.ops.kernels import Kernels, kernels

Function = TypeVar("Function", bound=Callable[..., Any])

disable: Any = torch.compiler.disable
LIBRARY: Any = torch.library.Library("lcpool", "DEF")  # type: ignore[no-untyped-call]


def operator(schema: str, cls: Any) -> Callable[..., Any]:
    """Register an operator; returns a function that calls it.

    Args:
        schema: name, arguments and results, as torch writes them.
        cls: has ``forward(*args)``, by default the kernel of this name, and ``fake(*args)``, which
            makes empty results of the same shapes, by default one like the first argument. With a
            gradient also ``backward(ctx, *grads)`` and, unless all inputs are saved for it,
            ``setup_context(ctx, inputs, output)``, as in ``torch.autograd.Function``. ``results``
            is the number of results that callers get; the others are saved for the gradient.
    """
    name = LIBRARY.define(schema)
    forward = getattr(cls, "forward", None) or kernel_of(name)
    fake = getattr(cls, "fake", lambda first, *_: first.new_empty(first.shape))
    registered, direct = getattr(torch.ops.lcpool, name).default, forward
    # Where a graph breaks at an operator, torch.compile would trace the kernel itself and compile
    # what it finds there, operators in place of kernels.
    LIBRARY.impl(name, disable(forward), "CompositeExplicitAutograd")
    torch.library.register_fake(f"lcpool::{name}", fake, lib=LIBRARY)
    if hasattr(cls, "backward"):

        def below_autograd(*args: Any) -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                return registered(*args)

        direct = _with_gradient(cls, forward, getattr(cls, "results", None))
        traced = _with_gradient(cls, below_autograd)
        LIBRARY.impl(name, disable(lambda *args: traced(*args)), "Autograd")

    def call(*args: Any) -> Any:
        return registered(*args) if is_traced() else direct(*args)

    return call


def as_operator(schema: str, fake: Callable[..., Any]) -> Callable[[Function], Function]:
    """Make an operator without a gradient of the decorated function."""

    def register(function: Function) -> Function:
        call = operator(schema, SimpleNamespace(forward=function, fake=fake))
        return cast("Function", update_wrapper(call, function))

    return register


def new_size(min: int = 0) -> Any:
    """A size that is not known while a call is traced."""
    return torch.library.get_ctx().new_dynamic_size(min=min)


def gradient_operator(plain: Callable[..., Any], *like: int) -> Callable[..., Any]:
    """Register the kernel that computes a gradient; second derivatives go through ``plain`` torch.

    The kernel has the name of ``plain``, and its declaration is the operator's. ``like`` is, for
    each result, the position of the argument that has its shape.
    """
    name = plain.__name__
    hints = dict(getattr(Kernels, name).__annotations__)
    result = hints.pop("return").replace("tuple[", "(").replace("]", ")")
    given = ", ".join(f"{hint.replace(' | None', '?')} {arg}" for arg, hint in hints.items())

    def fake(*args: Any) -> Any:
        found = tuple(args[i].new_empty(args[i].shape) for i in like)
        return found if len(found) > 1 else found[0]

    compute = as_operator(f"{name}({given}) -> {result}", fake)(kernel_of(name))

    def call(*args: Any) -> Any:
        return plain(*args) if torch.is_grad_enabled() else compute(*args)

    return call


def kernel_of(name: str) -> Callable[..., Any]:
    """Calls a kernel with as many of the arguments as it takes, made contiguous."""
    count = getattr(Kernels, name).__code__.co_argcount - 1

    def call(*args: Any) -> Any:
        kernel = getattr(kernels(args[0]), name)
        return kernel(*(None if value is None else value.contiguous() for value in args[:count]))

    return call


def is_traced() -> bool:
    """Whether the calls are being recorded, to be run again later."""
    return torch.compiler.is_compiling() or bool(torch._C._len_torch_dispatch_stack())


def _with_gradient(
    cls: Any, compute: Callable[..., Any], results: int | None = None
) -> Callable[..., Any]:
    """``compute`` with the gradient of ``cls``; all its results, or the first ``results``."""
    setup_context = getattr(cls, "setup_context", _save_inputs)

    # In one step with setup_context: as two, torch inspects the signature in every call (30 µs).
    def forward(ctx: Any, *args: Any) -> Any:
        output = compute(*args)
        setup_context(ctx, args, output)
        return output if results is None else output[:results]  # autograd takes some µs for each

    steps = {"forward": staticmethod(forward), "backward": staticmethod(cls.backward)}
    apply: Callable[..., Any] = type(cls.__name__, (torch.autograd.Function,), steps).apply  # type: ignore[attr-defined]
    return apply


def _save_inputs(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)
