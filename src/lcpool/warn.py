"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings

import torch

# Layers call each other through torch and PyG: none of these frames is the user's.
_PASSED = ("lcpool", "torch", "torch_geometric")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside lcpool, torch and PyG; silent while compiling."""
    if torch.compiler.is_compiling():  # torch.compile can trace neither frames nor warnings
        return
    level, frame = 1, sys._getframe()
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in _PASSED:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
