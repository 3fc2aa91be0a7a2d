"""What a step that is captured once and replayed may not do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class NotCapturableError(RuntimeError):
    """A step that cannot be captured; the message says why."""


_apart = False


@contextmanager
def without_copies() -> Iterator[None]:
    """Refuse copies from the host: a replay would not repeat them."""
    global _apart
    before, _apart = _apart, True
    try:
        yield
    finally:
        _apart = before


def check_copies() -> None:
    """Raise inside of :func:`without_copies`."""
    if _apart:
        raise NotCapturableError("it copies numbers from the host in every step")
