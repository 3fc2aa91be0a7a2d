"""No kernel multiplies S'ᵀAS' in plain torch: :mod:`lcpool.ops.product.joins` does."""

from __future__ import annotations

__all__ = [
    "connect_assignment",
    "connect_assignment_backward",
    "select_columns",
    "takes_assignment",
]


def select_columns(*_: object) -> None:
    """Left to torch."""


def takes_assignment(*_: object) -> bool:
    """None of them."""
    return False


def connect_assignment(*_: object) -> None:
    """Left to joins."""


def connect_assignment_backward(*_: object) -> None:
    """Left to joins."""
