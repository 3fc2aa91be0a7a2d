"""The error for a missing package of an extra, which layers alone do not need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# What each extra is for (pyproject.toml says what is in it).
EXTRAS = {"lab": "training, sweeps, reports, drawings and command line", "sklearn": "estimators"}


class MissingExtraError(ModuleNotFoundError):
    """A package of an extra is not installed."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Name the extra if an import inside fails."""
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "lcpool").partition(".")[0]
        if package == "lcpool":
            raise
        raise MissingExtraError(
            f"lcpool's {EXTRAS[extra]} need '{package}': pip install 'lcpool[{extra}]'",
            name=missing.name,
        ) from None
