"""Plain torch has no kernel for S'ᵀAS': :mod:`lcpool.ops.product.joins` computes it."""

from __future__ import annotations

__all__ = [
    "connect_assignment",
    "connect_assignment_backward",
    "select_columns",
    "takes_assignment",
]


def select_columns(*_: object) -> None: ...


def takes_assignment(*_: object) -> bool:
    return False


def connect_assignment(*_: object) -> None: ...


def connect_assignment_backward(*_: object) -> None: ...
