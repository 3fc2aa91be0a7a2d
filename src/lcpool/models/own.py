"""Classes of the user's own by import path, and errors that name their file and line."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lcpool.pool.tgp import PREFIX, tgp_class


def import_class(path: str) -> Any:
    """The object at ``module:name``; for ``tgp:NAME`` the class of tgp."""
    if path.startswith(PREFIX):
        return tgp_class(path.removeprefix(PREFIX))
    module, _, attribute = path.rpartition(":")
    if module.endswith(".py") or "/" in module:
        file = Path(module)
        if file.is_absolute() or ".." in file.parts:
            advice = f"'{file.stem}:{attribute}', with {file.parent} in PYTHONPATH"
        else:
            advice = f"'{'.'.join(file.with_suffix('').parts)}:{attribute}'"
        raise ValueError(f"'{path}' names a file: write {advice}.")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:
        if place := place_in(module, error):
            why = f"{place}: {type(error).__name__}: {error}"
        elif isinstance(error, ImportError | AttributeError):
            why = f"{error}. Install the module, or put its folder into PYTHONPATH."
        else:  # a SyntaxError names its line itself
            why = f"{type(error).__name__}: {error}"
        raise ValueError(f"cannot import '{path}': {why}") from error


class OwnCodeError(ValueError):
    """An error in a class of the user's own; the message says in which file and line."""


@contextmanager
def own_errors(*names: str) -> Iterator[None]:
    """Turn errors from the modules of the user's classes ``names`` into an :class:`OwnCodeError`.

    Other errors pass unchanged, and so does a lack of memory, which no line is to blame for.
    """
    modules = [getattr(import_class(name), "__module__", "") for name in names]
    try:
        yield
    except Exception as error:
        places = (place_in(module, error) for module in modules)
        place = next((found for found in places if found is not None), None)
        if place is None or isinstance(error, torch.OutOfMemoryError):
            raise
        raise OwnCodeError(f"{place}: {type(error).__name__}: {error}") from error


def place_in(module: str, error: Exception) -> str | None:
    """File and line of the innermost frame of ``module`` in a traceback, or None."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == module
    ]
    if not frames:
        return None
    file, line = Path(frames[-1][0]), frames[-1][1]
    near = file.is_relative_to(Path.cwd())
    return f"{file.relative_to(Path.cwd()) if near else file}:{line}"
