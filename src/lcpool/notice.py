"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings

import torch

# What stands between a user's line and ours: layers call each other through torch.
_PASSED = ("lcpool", "torch", "torch_geometric")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is neither lcpool's nor torch's; not while compiling."""
    if torch.compiler.is_compiling():  # torch.compile can trace neither frames nor a warning.
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _package(frame.f_globals) in _PASSED:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(module: dict[str, object]) -> str:
    return str(module.get("__name__", "")).partition(".")[0]
