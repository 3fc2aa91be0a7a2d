"""The error for a missing package of the extra ``lab``, which layers alone do not need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ModuleNotFoundError):
    """A package of the extra ``lab`` is not installed."""


@contextmanager
def needs_lab() -> Iterator[None]:
    """Name the extra ``lab`` if an import inside fails."""
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "lcpool").partition(".")[0]
        if package == "lcpool":
            raise
        raise MissingExtraError(
            f"lcpool's sweeps, reports and command line need '{package}': "
            "pip install 'lcpool[lab]'",
            name=missing.name,
        ) from None
