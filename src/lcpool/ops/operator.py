"""How a kernel becomes an operator that ``torch.compile`` and ``torch.export`` can see.

Torch cannot look into a kernel. As an operator, ``lcpool::name``, it need not: it is told the shape
of the result and where the gradient comes from. Only what traces needs to know: in eager mode a
call goes to the kernel itself, since the way through torch's dispatcher and back costs 10 µs a call
and ``torch.library.custom_op`` 20 to 30, which a GPU would wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

LIBRARY: Any = torch.library.Library("lcpool", "DEF")  # type: ignore[no-untyped-call]


def operator(schema: str, cls: Any) -> Callable[..., Any]:
    """The operator of this schema, to be called like a function.

    Args:
        schema: name, arguments and results, as torch writes them.
        cls: has ``forward(*args)``, the kernel, and ``fake(*args)``, which makes empty results of
            the same shapes. With a gradient it is a ``torch.autograd.Function`` and has
            ``setup_context`` and ``backward``.
    """
    name = LIBRARY.define(schema)
    known = getattr(torch.ops.lcpool, name).default
    LIBRARY.impl(name, cls.forward, "CompositeExplicitAutograd")
    torch.library.register_fake(f"lcpool::{name}", cls.fake, lib=LIBRARY)
    direct = cls.forward
    if issubclass(cls, torch.autograd.Function):
        direct = cls.apply
        LIBRARY.impl(name, _traced(cls, known).apply, "Autograd")

    def call(*args: Any) -> Any:
        return known(*args) if is_traced() else direct(*args)

    return call


def is_traced() -> bool:
    """Whether somebody records what is called, to run it again."""
    return torch.compiler.is_compiling() or bool(torch._C._len_torch_dispatch_stack())


def _traced(cls: Any, known: Any) -> Any:
    """``cls`` with the operator below autograd in place of the kernel."""

    def forward(*args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return known(*args)

    return type(cls.__name__, (cls,), {"forward": staticmethod(forward)})
