r"""Products of matrices whose bits do not depend on where the numbers stand in memory.

.. math::
    C = A B \quad\text{or}\quad C = c + A B

Runs that are trained as one share their matrices: each run's part begins wherever the run before
ended. A library's product may round differently there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from lcpool.ops.kernels import kernels


class Product(NamedTuple):
    """A product that is to be computed: the arguments of :func:`matmul`."""

    A: Tensor
    B: Tensor
    out: Tensor
    plus: Tensor | None = None


def matmul(A: Tensor, B: Tensor, out: Tensor | None = None, plus: Tensor | None = None) -> Tensor:
    """A B + ``plus``, into ``out`` if it is given; without a gradient.

    ``plus`` is a row, which is added to all rows, or ``out`` itself.

    Example:
        >>> import torch
        >>> A, B = torch.ones(2, 3), torch.ones(3, 16)
        >>> bool((matmul(A, B, plus=torch.ones(16)) == 4).all())
        True
    """
    return kernels(A).matmul(A, B, out, plus)


def matmul_each(products: Sequence[Product]) -> None:
    """:func:`matmul` for several products, such as one per run."""
    kernels(products[0].A).matmul_each(products)
