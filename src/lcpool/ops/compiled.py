"""How kernels for a CPU are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """``function`` compiled, without the GIL, and cached where there is a folder to write to."""
    try:
        return njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # No folder can be written: compile in every process.
        return njit(nogil=True, **options)(function)


def regrouped(function: Callable[..., Any]) -> Any:
    """``function`` compiled with its sums in groups: as many at once as fit into a register.

    Which are added first is settled when it is compiled: the same input gives the same bits.
    """
    return compiled(function, fastmath={"reassoc"})
