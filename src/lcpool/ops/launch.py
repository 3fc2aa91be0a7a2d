"""Triton kernels, launched on the GPU of their tensors; Triton itself uses the current GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
from triton.runtime.jit import JITFunction

# The most nodes of a graph that one program goes through in rounds; more would take it long.
MAX_NODES = 2**13


class Kernel:
    """A Triton kernel whose first argument is a tensor."""

    def __init__(self, function: JITFunction[Any]) -> None:
        self.function = function

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return partial(self.launch, grid)

    def launch(self, grid: tuple[int, ...], *args: Any, **options: int) -> None:
        gpu = args[0].device.index
        if gpu == torch.cuda.current_device():
            self.function[grid](*args, **options)
        else:
            with torch.cuda.device(gpu):
                self.function[grid](*args, **options)


def kernel(function: Callable[..., None]) -> Any:
    """Make a Triton kernel of a function; Triton's interpreter makes its own kind."""
    made = triton.jit(function)
    return Kernel(made) if isinstance(made, JITFunction) else made


def cdiv(count: int, size: int) -> int:
    """⌈count / size⌉; Triton's function takes some microseconds."""
    return -(-count // size)


def power_of_2(count: int) -> int:
    """The next power of two, at least 1."""
    return 1 << max(count - 1, 0).bit_length()
