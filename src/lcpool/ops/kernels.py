"""Which compiled kernels there are for a device.

Both modules offer the same functions on plain tensors; without them everything runs in plain torch,
with the same results.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

from torch import Tensor


def kernels(like: Tensor) -> ModuleType | None:
    """The kernels for the device of ``like``, or None where there are none."""
    return cpu_kernels() if like.device.type == "cpu" else gpu_kernels() if like.is_cuda else None


@cache
def cpu_kernels() -> ModuleType | None:
    """The numba kernels, or None where numba is not installed."""
    return _module("lcpool.ops.cpu")


@cache
def gpu_kernels() -> ModuleType | None:
    """The Triton kernels, or None where Triton is not installed."""
    return _module("lcpool.ops.gpu")


def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None
