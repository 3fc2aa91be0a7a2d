"""How kernels for a CPU are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """``function`` compiled, without the GIL, and cached on disk if a folder can be written."""
    try:
        return njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # No folder can be written: each process compiles.
        return njit(nogil=True, **options)(function)


def regrouped(function: Callable[..., Any]) -> Any:
    """``function`` compiled with vectorised sums, whose order is fixed when it is compiled.

    The same input gives the same bits.
    """
    return compiled(function, fastmath={"reassoc"})
