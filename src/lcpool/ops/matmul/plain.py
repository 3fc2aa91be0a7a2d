"""Products of matrices by torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lcpool.ops.matmul import Product

__all__ = ["matmul", "matmul_each"]

ALIGNED = 64  # bytes: where torch lets a tensor begin


def matmul(A: Tensor, B: Tensor, out: Tensor | None, plus: Tensor | None) -> Tensor:
    if not A.is_cpu:
        return multiply(A, B, out, plus)
    # On some CPUs the order of a sum depends on the address.
    A, B = aligned(A), aligned(B)
    if out is None or out.data_ptr() % ALIGNED == 0:
        return multiply(A, B, out, plus)
    return out.copy_(multiply(A, B, None, plus))


def matmul_each(products: Sequence[Product]) -> None:
    for product in products:
        matmul(*product)


def multiply(A: Tensor, B: Tensor, out: Tensor | None, plus: Tensor | None) -> Tensor:
    return torch.mm(A, B, out=out) if plus is None else torch.addmm(plus, A, B, out=out)


def aligned(values: Tensor) -> Tensor:
    """The same values, at an address where a separate tensor could begin."""
    return values.clone() if values.data_ptr() % ALIGNED else values
