"""Checks of the commands that train, before anything is read or trained."""

from __future__ import annotations

import os
import sys


def import_from_here() -> None:
    """Let modules of the current folder be imported, as ``python`` does and a script does not."""
    if os.getcwd() not in sys.path:  # In full: "" means another folder in worker processes.
        sys.path.append(os.getcwd())


def check_device(name: str) -> None:
    """Refuse an unknown device."""
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"unknown device '{name}': choose cpu, cuda or cuda:N.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device '{name}': torch sees {torch.cuda.device_count()} CUDA devices.")


def check_own_pooling(name: str, hidden: int, ratio: float) -> None:
    """Import, make and call a user's pooling once, before any data is read."""
    import torch

    from lcpool.models import Architecture, make_pooling
    from lcpool.models.pooling import OwnPoolingError, own_errors
    from lcpool.pool import PoolingError
    from lcpool.pool.foreign import CALLED

    try:
        with own_errors(name):
            layer = make_pooling(name, hidden, 1, Architecture(ratio=ratio))
    except TypeError as error:
        raise ValueError(f"cannot make '{name}' for {hidden} channels: {error}") from error
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    try:
        with own_errors(name):
            out = layer(torch.randn(4, hidden), edges, None, torch.tensor([0, 0, 1, 1]))
    except (OwnPoolingError, PoolingError):  # These say where, or what to return instead.
        raise
    except Exception as error:
        raise ValueError(
            f"a call of '{name}' on two small graphs failed: {type(error).__name__}: {error}; "
            f"{CALLED}."
        ) from error
    if out.x.size(1) != hidden:
        raise ValueError(f"'{name}' gave features of width {out.x.size(1)}, not {hidden}.")
