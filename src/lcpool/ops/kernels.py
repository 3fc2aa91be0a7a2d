"""Which kernels there are for a device.

Three modules offer the same functions on plain tensors: compiled for CPUs, for GPUs, and in plain
torch, with the same results.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

from torch import Tensor

from lcpool.ops import plain


def kernels(like: Tensor) -> ModuleType:
    """The fastest kernels for the device of ``like``."""
    compiled = None
    if like.device.type == "cpu":
        compiled = cpu_kernels()
    elif like.is_cuda:
        compiled = gpu_kernels()
    return plain if compiled is None else compiled


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
